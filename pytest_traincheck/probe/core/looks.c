/* Looks at tensors (`digest.look`, `digest.local`, `Var.looks_same`) that are one block of memory on the CPU.
 *
 * They are called where no function mode is asked, and return None where Python has to look. What is read of a tensor are
 * the attributes that Python reads; the bytes are read where they lie.
 */

#include "core.h"

#define SMALL (16 * 1024)
#define LARGE (4 * 1024 * 1024) /* from here on torch sums with all its threads, and lets other threads run */
#define SAMPLE 1024
#define HEAD 64
#define COLUMNS 64
#define BLOCK 256
#define MIX 0x9E3779B97F4A7C15u


/* Adds some bytes to a checksum. */
static int add_bytes(uint32_t *sum, const void *bytes, Py_ssize_t size)
{
    long long found = checksum(*sum, bytes, size);
    *sum = (uint32_t)found;
    return found >= 0;
}

/* Sums of 64 columns over some rows of 64-bit integers, wrapping. */
static void sum_rows(const uint64_t *rows, Py_ssize_t count, uint64_t *sums)
{
    Py_ssize_t row, column;
    memset(sums, 0, COLUMNS * sizeof *sums);
    for (row = 0; row < count; row++, rows += COLUMNS)
        for (column = 0; column < COLUMNS; column++) sums[column] += rows[column];
}

static int add_block(uint32_t *sum, const unsigned char *bytes, Py_ssize_t size)
{
    const Py_ssize_t row = COLUMNS * sizeof(uint64_t);
    const uint64_t *rows = (const uint64_t *)bytes;
    Py_ssize_t whole = size / row, blocks = whole / BLOCK, rest = whole % BLOCK, index;
    uint64_t *sums = PyMem_Malloc((size_t)(blocks ? blocks : 1) * row);
    int done = sums != NULL;
    if (done && blocks) {
        for (index = 0; index < blocks; index++) sum_rows(rows + index * BLOCK * COLUMNS, BLOCK, sums + index * COLUMNS);
        done = add_bytes(sum, sums, blocks * row);
    }
    if (done && rest) {
        sum_rows(rows + blocks * BLOCK * COLUMNS, rest, sums);
        done = add_bytes(sum, sums, row);
    }
    PyMem_Free(sums);
    return done && (size % row == 0 || add_bytes(sum, bytes + whole * row, size % row));
}

/* As `digest.finish`. */
uint64_t finished(uint64_t checksum, uint64_t size)
{
    uint64_t found = ((checksum + 1) * MIX) ^ (size * 0x2545F4914F6CDD1Du);
    return found ? found : 1;
}

/* Whether any bit is set other than the highest of a byte at either end, as `bytes.strip` with both leaves it. */
static int bits_within(const unsigned char *bytes, long long size)
{
    long long index;
    for (index = 0; index < size; index++)
        if (bytes[index] & 0x7f) return 1;
    return 0;
}

static int any_byte(const unsigned char *bytes, long long size)
{
    long long index;
    for (index = 0; index < size; index++)
        if (bytes[index]) return 1;
    return 0;
}

/* Whether the numbers may be others than those in memory. */
int is_negated(PyObject *tensor)
{
    return told(torch.is_neg, tensor) != 0;
}

/* Whether all numbers of one of two kinds are finite. */
int all_finite(const void *bytes, long long size, int wide)
{
    long long index, bad = 0;
    if (wide) {
        const uint64_t *bits = bytes;
        for (index = 0; index < size / 8; index++) bad |= (bits[index] & 0x7ff0000000000000u) == 0x7ff0000000000000u;
    } else {
        const uint32_t *bits = bytes;
        for (index = 0; index < size / 4; index++) bad |= (bits[index] & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

/* Whether any number differs from zero, of which there are two. Its first bytes say nothing, and not all are zero. */
static int any_number(const void *bytes, long long size, int wide)
{
    const uint32_t *narrow_ones = bytes;
    const uint64_t *wide_ones = bytes;
    long long index;
    int found = 0;
    if (wide)
        for (index = 0; !found && index < size / 8; index++) found = (wide_ones[index] & 0x7fffffffffffffffu) != 0;
    else
        for (index = 0; !found && index < size / 4; index++) found = (narrow_ones[index] & 0x7fffffffu) != 0;
    return found;
}

/* A look at a block, with a new reference to a sample: DONE, MISSED, or -1 with an exception. With `finite` numbers are
 * looked through unless their state is `known`. */
int take_look(PyObject *tensor, Block *block, int finite, int known, Look *seen)
{
    const unsigned char *bytes = block->bytes;
    long long size = block->size;
    uint32_t sum = 0;
    int wide = -2;
    if (size > LARGE) return MISSED;
    seen->version = number(get(tensor, READ__version)); /* one that was made in inference mode has none */
    if (size > SMALL && ((uintptr_t)bytes % 8 || told(torch.is_conj, tensor))) return MISSED;
    if ((size > SMALL || (finite && !known)) && told(torch.is_neg, tensor)) return MISSED;
    if (finite && !known && ((wide = width_of(tensor, block)) < 0 || !all_finite(bytes, size, wide))) return MISSED;
    if (!known) {
        if (bits_within(bytes, size < HEAD ? size : HEAD)) known = NONZERO;
        else if (!any_byte(bytes, size)) known = ZERO;
        else if (wide < -1 && (wide = width_of(tensor, block)) < 0) return MISSED;
        else known = any_number(bytes, size, wide) ? NONZERO : ZERO;
    }
    if (!(size <= SMALL ? add_bytes(&sum, bytes, (Py_ssize_t)size) : add_block(&sum, bytes, (Py_ssize_t)size))) return -1;
    seen->sample = size <= SAMPLE ? PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size)
                                  : PyBytes_FromStringAndSize((const char *)bytes + (size - SAMPLE) / 2, SAMPLE);
    if (seen->sample == NULL) return -1;
    seen->state = known;
    seen->digest = finished(sum, (uint64_t)size);
    seen->pointer = (long long)(uintptr_t)bytes;
    seen->size = size;
    return DONE;
}

PyObject *look(PyObject *module, PyObject *given)
{
    PyObject *tensor;
    Block block;
    Look seen;
    int finite, known, found;
    (void)module;
    if (!PyArg_ParseTuple(given, "Opi", &tensor, &finite, &known)) return NULL;
    found = block_of(tensor, 0, &block) ? take_look(tensor, &block, finite, known, &seen) : MISSED;
    if (found < 0) return NULL;
    if (found != DONE) Py_RETURN_NONE;
    return Py_BuildValue("iKLLN", seen.state, (unsigned long long)seen.digest, seen.pointer, seen.size, seen.sample);
}

/* Whether a block of memory that was looked at before is where it was, with the same version and the same bytes in its
 * middle; -1 where Python has to find out. */
int unchanged(PyObject *tensor, long long version, long long pointer, long long size, PyObject *sample)
{
    long long now;
    char *bytes;
    Py_ssize_t length;
    Block block;
    if (!is_plain(tensor) || !PyBytes_CheckExact(sample)) return -1;
    if (PyBytes_AsStringAndSize(sample, &bytes, &length) < 0) {
        PyErr_Clear();
        return -1;
    }
    if (length && length != (size <= SAMPLE ? size : SAMPLE)) return -1;
    now = number(get(tensor, READ__version));
    if (now < 0) return -1;
    if (!length) { /* what cannot be read in place: its version and its address say all there is */
        if (now != version) return 0;
        return pointer > 0 && number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL)) == pointer ? 1 : -1;
    }
    if (now != version || !block_of(tensor, 0, &block)) return 0;
    if ((long long)(uintptr_t)block.bytes != pointer || block.size != size) return 0;
    return !memcmp(block.bytes + (size <= SAMPLE ? 0 : (size - SAMPLE) / 2), bytes, (size_t)length);
}

/* `looks_same(tensor, version, pointer, size, sample)`: as `unchanged`; None where Python has to find out. */
PyObject *looks_same(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    long long version, pointer, size;
    int same;
    (void)module;
    if (count != 5) Py_RETURN_NONE;
    version = PyLong_AsLongLong(given[1]);
    pointer = PyLong_AsLongLong(given[2]);
    size = PyLong_AsLongLong(given[3]);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    same = unchanged(given[0], version, pointer, size, given[4]);
    if (same < 0) Py_RETURN_NONE;
    return PyBool_FromLong(same);
}
