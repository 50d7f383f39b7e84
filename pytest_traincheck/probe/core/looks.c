/* Looks at tensors (`digest.look`, `digest.local`, `Var.looks_same`) that are one block of memory on the CPU.
 *
 * They are called where no function mode is asked, and return None where Python has to look. What is read of a tensor are
 * the attributes that Python reads; the bytes are read where they lie.
 */

#include "core.h"

#ifndef PyBUF_READ
#define PyBUF_READ 0x100        /* the limited API of 3.10 has what takes it, and not the name */
#endif

#define SMALL (16 * 1024)
#define LARGE (4 * 1024 * 1024) /* from here on torch sums with all its threads, and lets other threads run */
#define SAMPLE 1024
#define HEAD 64
#define COLUMNS 64
#define BLOCK 256
#define MIX 0x9E3779B97F4A7C15u


static int plain(PyObject *tensor)
{
    PyObject *kind = (PyObject *)Py_TYPE(tensor);
    return kind == torch.Tensor || kind == torch.Parameter;
}

/* 1, 0, or -1 without an exception. */
static int told(PyObject *method, PyObject *tensor)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(method, tensor, NULL);
    int found = answer == Py_True ? 1 : answer == Py_False ? 0 : -1;
    if (answer == NULL) PyErr_Clear();
    Py_XDECREF(answer);
    return found;
}

/* A number; -1 without an exception where there is none. */
static long long number(PyObject *value)
{
    long long found = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        found = -1;
    }
    Py_XDECREF(value);
    return found;
}

static int is_strided(PyObject *tensor)
{
    PyObject *layout = PyObject_GetAttr(tensor, name_layout);
    int found = layout == torch.strided;
    if (layout == NULL) PyErr_Clear();
    Py_XDECREF(layout);
    return found;
}

/* Checksums: those of `zlib.crc32`, which is asked, so that both cores have the same. */
static int add_bytes(PyObject **checksum, const void *bytes, Py_ssize_t size)
{
    PyObject *view = PyMemoryView_FromMemory((char *)bytes, size, PyBUF_READ);
    PyObject *next = view == NULL ? NULL : PyObject_CallFunctionObjArgs(torch.crc32, view, *checksum, NULL);
    Py_XDECREF(view);
    Py_XDECREF(*checksum);
    *checksum = next;
    return next != NULL;
}

/* Sums of 64 columns over some rows of 64-bit integers, wrapping. */
static void sum_rows(const uint64_t *rows, Py_ssize_t count, uint64_t *sums)
{
    Py_ssize_t row, column;
    memset(sums, 0, COLUMNS * sizeof *sums);
    for (row = 0; row < count; row++, rows += COLUMNS)
        for (column = 0; column < COLUMNS; column++) sums[column] += rows[column];
}

static int add_block(PyObject **checksum, const unsigned char *bytes, Py_ssize_t size)
{
    const Py_ssize_t row = COLUMNS * sizeof(uint64_t);
    const uint64_t *rows = (const uint64_t *)bytes;
    Py_ssize_t whole = size / row, blocks = whole / BLOCK, rest = whole % BLOCK, index;
    uint64_t *sums = PyMem_Malloc((size_t)(blocks ? blocks : 1) * row);
    int done = sums != NULL;
    if (done && blocks) {
        for (index = 0; index < blocks; index++) sum_rows(rows + index * BLOCK * COLUMNS, BLOCK, sums + index * COLUMNS);
        done = add_bytes(checksum, sums, blocks * row);
    }
    if (done && rest) {
        sum_rows(rows + blocks * BLOCK * COLUMNS, rest, sums);
        done = add_bytes(checksum, sums, row);
    }
    PyMem_Free(sums);
    return done && (size % row == 0 || add_bytes(checksum, bytes + whole * row, size % row));
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

/* Whether a tensor is one block of memory on the CPU that can be read: as `digest.local` and `_is_block`. One that lies at
 * `known`, where it was looked at before, was asked for all that then. */
int readable(PyObject *tensor, long long known)
{
    PyObject *storage;
    long long held;
    if (!plain(tensor) || truth(tensor, name_is_cpu) != 1) return 0;
    if (known > 0) return number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL)) == known;
    /* What a transform has wrapped has no address. */
    if (number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL)) <= 0) return 0;
    if (truth(tensor, name_is_nested) || truth(tensor, name_is_quantized) || !is_strided(tensor)) return 0;
    if (number(PyObject_CallFunctionObjArgs(torch.storage_offset, tensor, NULL))) return 0;
    if (told(torch.is_contiguous, tensor) != 1) return 0;
    storage = PyObject_CallFunctionObjArgs(torch.untyped_storage, tensor, NULL);
    held = storage == NULL ? -1 : number(PyObject_CallMethodObjArgs(storage, name_nbytes, NULL));
    PyErr_Clear();
    Py_XDECREF(storage);
    return held >= 0 && held >= number(PyObject_GetAttr(tensor, name_nbytes));
}

/* Whether the numbers may be others than those in memory. */
int is_negated(PyObject *tensor)
{
    return told(torch.is_neg, tensor) != 0;
}

/* Where a readable tensor lies, and how many bytes; NULL without an exception where it has none. */
const void *block_of(PyObject *tensor, long long *size)
{
    long long pointer = number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL));
    *size = number(PyObject_GetAttr(tensor, name_nbytes));
    return pointer > 0 && *size > 0 ? (const void *)(uintptr_t)pointer : NULL;
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

/* Which of the two kinds the numbers are of: 0 narrow, 1 wide, -1 another. */
int is_wide(PyObject *tensor)
{
    PyObject *dtype = PyObject_GetAttr(tensor, name_dtype);
    int found = dtype == torch.float32 ? 0 : dtype == torch.float64 ? 1 : -1;
    if (dtype == NULL) PyErr_Clear();
    Py_XDECREF(dtype);
    return found;
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

/* A look, with a new reference to a sample: DONE, MISSED, or -1 with an exception. With `finite` numbers are looked through
 * unless their state is `known`. `checked`: the tensor is known to be readable. */
int take_look(PyObject *tensor, int finite, int known, int checked, Look *seen)
{
    PyObject *checksum;
    long long size, pointer;
    const unsigned char *bytes;
    unsigned long long hashed;
    int inference, wide = -2;
    if (!checked && (!plain(tensor) || truth(tensor, name_is_cpu) != 1 || !is_strided(tensor) ||
                     told(torch.is_contiguous, tensor) != 1))
        return MISSED;
    size = number(PyObject_GetAttr(tensor, name_nbytes));
    if (size <= 0 || size > LARGE) return MISSED;
    pointer = number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL));
    if (pointer <= 0) return MISSED;
    inference = told(torch.is_inference, tensor);
    seen->version = inference == 0 ? number(PyObject_GetAttr(tensor, name__version)) : -1;
    bytes = (const unsigned char *)(uintptr_t)pointer;
    if (size > SMALL && (pointer % 8 || told(torch.is_conj, tensor))) return MISSED;
    if ((size > SMALL || (finite && !known)) && told(torch.is_neg, tensor)) return MISSED;
    if (finite && !known && ((wide = is_wide(tensor)) < 0 || !all_finite(bytes, size, wide))) return MISSED;
    if (!known) {
        if (bits_within(bytes, size < HEAD ? size : HEAD)) known = NONZERO;
        else if (!any_byte(bytes, size)) known = ZERO;
        else if (wide < -1 && (wide = is_wide(tensor)) < 0) return MISSED;
        else known = any_number(bytes, size, wide) ? NONZERO : ZERO;
    }
    checksum = PyLong_FromLong(0);
    if (checksum == NULL) return -1;
    if (!(size <= SMALL ? add_bytes(&checksum, bytes, (Py_ssize_t)size) : add_block(&checksum, bytes, (Py_ssize_t)size))) {
        Py_XDECREF(checksum);
        return -1;
    }
    hashed = PyLong_AsUnsignedLongLong(checksum);
    Py_DECREF(checksum);
    seen->sample = size <= SAMPLE ? PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)size)
                                  : PyBytes_FromStringAndSize((const char *)bytes + (size - SAMPLE) / 2, SAMPLE);
    if (seen->sample == NULL) return -1;
    seen->state = known;
    seen->digest = finished(hashed, (uint64_t)size);
    seen->pointer = pointer;
    seen->size = size;
    return DONE;
}

PyObject *look(PyObject *module, PyObject *given)
{
    PyObject *tensor;
    Look seen;
    int finite, known, found;
    (void)module;
    if (!PyArg_ParseTuple(given, "Opi", &tensor, &finite, &known)) return NULL;
    found = take_look(tensor, finite, known, 0, &seen);
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
    if (!plain(tensor) || !PyBytes_CheckExact(sample)) return -1;
    if (PyBytes_AsStringAndSize(sample, &bytes, &length) < 0) {
        PyErr_Clear();
        return -1;
    }
    if (length && length != (size <= SAMPLE ? size : SAMPLE)) return -1;
    now = number(PyObject_GetAttr(tensor, name__version));
    if (now < 0) return -1;
    if (!length) { /* what cannot be read in place: its version and its address say all there is */
        if (now != version) return 0;
        return pointer > 0 && number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL)) == pointer ? 1 : -1;
    }
    if (now != version || number(PyObject_CallFunctionObjArgs(torch.data_ptr, tensor, NULL)) != pointer) return 0;
    if (number(PyObject_GetAttr(tensor, name_nbytes)) != size || told(torch.is_contiguous, tensor) != 1) return 0;
    return !memcmp((const char *)(uintptr_t)pointer + (size <= SAMPLE ? 0 : (size - SAMPLE) / 2), bytes, (size_t)length);
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
