/* Looks at tensors (`digest.look`, `digest.local`, `Var.looks_same`) that are one block of memory on the CPU.
 *
 * They are called where no function mode is asked, and return None where Python has to look. What is read of a tensor are
 * the attributes that Python reads; the bytes are read where they lie.
 */

#include "core.h"

#include <math.h>

#define SMALL (16 * 1024)
#define LARGE (4 * 1024 * 1024) /* from here on torch sums with all its threads, and lets other threads run */
#define SAMPLE 1024
#define HEAD 64
#define RUN 1024                /* bytes */
#define COLUMNS 64
#define BLOCK 256
#define GROUP 16
#define LANES 32                /* of fewer each addition would wait for the one before */
#define NEAR 32                 /* rows: what a processor has at hand when it comes to it again */
#define MIX 0x9E3779B97F4A7C15u


/* Adds some bytes to a checksum. */
static int add_bytes(uint32_t *sum, const void *bytes, Py_ssize_t size)
{
    long long found = checksum(*sum, bytes, size);
    *sum = (uint32_t)found;
    return found >= 0;
}

static long registers = 64; /* how many bytes the largest have that may be used */

/* `use_registers(size)`: none that is larger from now on, for tests; returns what it was. */
PyObject *use_registers(PyObject *module, PyObject *size)
{
    long before = registers, now = PyLong_AsLong(size);
    (void)module;
    if (now == -1 && PyErr_Occurred()) return NULL;
    registers = now;
    return PyLong_FromLong(before);
}

/* Loops over all bytes are compiled for registers of 16 bytes and, where x86 may have them, of 32, or of 64 where that
 * makes them faster. */
#if defined(__x86_64__) && defined(__GNUC__)
#define WIDER __attribute__((target("avx2,fma")))
#define HAS_WIDER (registers >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#ifdef __clang__
#define WIDEST __attribute__((target("avx512f")))
#else
#define WIDEST __attribute__((target("avx512f,prefer-vector-width=512")))
#endif
#define HAS_WIDEST (registers >= 64 && __builtin_cpu_supports("avx512f"))
#else
#define WIDER
#define HAS_WIDER 0
#define WIDEST
#define HAS_WIDEST 0
#endif
#define BODY static inline __attribute__((always_inline))

BODY int finite_in(const void *bytes, long long size, int wide)
{
    long long index;
    if (wide) {
        const uint64_t *bits = bytes;
        uint64_t carried = 0;
        for (index = 0; index < size / 8; index++) carried |= (bits[index] & 0x7fffffffffffffffu) + 0x0010000000000000u;
        return !(carried >> 63);
    } else {
        const uint32_t *bits = bytes;
        uint32_t carried = 0; /* an exponent of ones runs over into the sign */
        for (index = 0; index < size / 4; index++) carried |= (bits[index] & 0x7fffffffu) + 0x00800000u;
        return !(carried >> 31);
    }
}

/* Adds some rows of 64-bit integers to the sums of their columns, wrapping; so many columns at a time as there are registers
 * for. Rows that are read from end to end come from memory in half the time. */
BODY void add_up_by(int group, const uint64_t *rows, Py_ssize_t count, uint64_t *sums)
{
    Py_ssize_t row;
    int first, column;
    for (first = 0; first < COLUMNS; first += group) {
        uint64_t found[COLUMNS];
        for (column = 0; column < group; column++) found[column] = sums[first + column];
        for (row = 0; row < count; row++)
            for (column = 0; column < group; column++) found[column] += rows[row * COLUMNS + first + column];
        for (column = 0; column < group; column++) sums[first + column] = found[column];
    }
}

/* Adds the squares of some numbers to LANES sums, in turn. Squares of narrow numbers are exact. */
BODY void add_squares_of(const void *bytes, long long size, int wide, double *sums)
{
    long long index = 0, count = size / (wide ? 8 : 4), whole = count / LANES * LANES;
    double found[LANES];
    int lane;
    memcpy(found, sums, sizeof found);
    if (wide)
        for (; index < whole; index += LANES)
            for (lane = 0; lane < LANES; lane++) {
                double value = ((const double *)bytes)[index + lane];
                found[lane] += value * value;
            }
    else
        for (; index < whole; index += LANES)
            for (lane = 0; lane < LANES; lane++) {
                double value = ((const float *)bytes)[index + lane];
                found[lane] += value * value;
            }
    for (; index < count; index++) {
        double value = wide ? ((const double *)bytes)[index] : ((const float *)bytes)[index];
        found[index % LANES] += value * value;
    }
    memcpy(sums, found, sizeof found);
}

WIDER static void add_squares_wider(const void *bytes, long long size, int wide, double *sums)
{
    add_squares_of(bytes, size, wide, sums);
}

WIDEST static void add_squares_widest(const void *bytes, long long size, int wide, double *sums)
{
    add_squares_of(bytes, size, wide, sums);
}

WIDER static int finite_in_wider(const void *bytes, long long size, int wide) { return finite_in(bytes, size, wide); }
WIDER static void add_up_wider(const uint64_t *rows, Py_ssize_t count, uint64_t *sums) { add_up_by(COLUMNS, rows, count, sums); }
WIDEST static void add_up_widest(const uint64_t *rows, Py_ssize_t count, uint64_t *sums) { add_up_by(COLUMNS, rows, count, sums); }

static void add_up(const uint64_t *rows, Py_ssize_t count, uint64_t *sums)
{
    if (HAS_WIDEST) add_up_widest(rows, count, sums);
    else if (HAS_WIDER) add_up_wider(rows, count, sums);
    else add_up_by(GROUP, rows, count, sums);
}

/* Whether all numbers of one of two kinds are finite. */
int all_finite(const void *bytes, long long size, int wide)
{
    return HAS_WIDER ? finite_in_wider(bytes, size, wide) : finite_in(bytes, size, wide);
}

static void add_squares(const void *bytes, long long size, int wide, double *sums)
{
    if (HAS_WIDEST) add_squares_widest(bytes, size, wide, sums);
    else if (HAS_WIDER) add_squares_wider(bytes, size, wide, sums);
    else add_squares_of(bytes, size, wide, sums);
}

/* The norm that such sums are of, with as many digits as narrow numbers have: `digest.norms`, which adds them up in another
 * order, finds the same. */
static double norm_of(const double *sums)
{
    union {
        double norm;
        uint64_t bits;
    } found;
    double sum = 0;
    int lane;
    for (lane = 0; lane < LANES; lane++) sum += sums[lane];
    found.norm = sqrt(sum);
    if (found.norm - found.norm != 0) return found.norm;
    found.bits += 0x0fffffffu + (found.bits >> 29 & 1);
    found.bits &= ~(uint64_t)0x1fffffffu;
    return found.norm;
}

/* Looks through some numbers, and adds their squares where there are `squares`: no, where one is not finite. */
static int looked_through(const void *bytes, long long size, int wide, double *squares)
{
    double sum = 0;
    int lane;
    if (squares == NULL) return all_finite(bytes, size, wide);
    add_squares(bytes, size, wide, squares);
    for (lane = 0; lane < LANES; lane++) sum += squares[lane];
    return sum - sum == 0 || (wide && all_finite(bytes, size, wide)); /* squares of wide numbers may overflow */
}

/* Sums of 64 columns over some rows of 64-bit integers, wrapping. Where it is said how `wide` numbers are, they are looked
 * through while they are near: no, where one is not finite. */
static int sum_rows(const uint64_t *rows, Py_ssize_t count, int wide, double *squares, uint64_t *sums)
{
    memset(sums, 0, COLUMNS * sizeof *sums);
    for (; count > 0; count -= NEAR, rows += NEAR * COLUMNS) {
        Py_ssize_t near = count < NEAR ? count : NEAR;
        if (wide >= 0 && !looked_through(rows, near * COLUMNS * (Py_ssize_t)sizeof *rows, wide, squares)) return 0;
        add_up(rows, near, sums);
    }
    return 1;
}

/* Adds a large block to a checksum: DONE, MISSED where a number of this width is not finite, -1 with an exception. */
static int add_block(uint32_t *sum, const unsigned char *bytes, Py_ssize_t size, int wide, double *squares)
{
    const Py_ssize_t row = COLUMNS * sizeof(uint64_t);
    const uint64_t *rows = (const uint64_t *)bytes;
    Py_ssize_t whole = size / row, blocks = (whole + BLOCK - 1) / BLOCK, index;
    uint64_t *sums = PyMem_Malloc((size_t)(blocks ? blocks : 1) * row);
    int finite = 1, done = sums != NULL;
    if (!done) PyErr_NoMemory();
    for (index = 0; done && finite && index < blocks; index++) {
        Py_ssize_t begin = index * BLOCK, count = whole - begin < BLOCK ? whole - begin : BLOCK;
        finite = sum_rows(rows + begin * COLUMNS, count, wide, squares, sums + index * COLUMNS);
    }
    if (wide >= 0 && finite) finite = looked_through(bytes + whole * row, size % row, wide, squares);
    if (done && finite && blocks) done = add_bytes(sum, sums, blocks * row);
    PyMem_Free(sums);
    if (done && finite && size % row) done = add_bytes(sum, bytes + whole * row, size % row);
    return !done ? -1 : finite ? DONE : MISSED;
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

/* Whether any of these bits is set, in words of eight bytes of which a few may be left over; so many at a time that they
 * are not asked one by one. */
BODY int any_bit(const unsigned char *bytes, long long size, uint64_t mask)
{
    long long index, begin;
    uint64_t word, found = 0;
    for (begin = 0; !found && begin + RUN <= size; begin += RUN)
        for (index = 0; index < RUN; index += 8) {
            memcpy(&word, bytes + begin + index, 8);
            found |= word & mask;
        }
    for (; !found && begin < size; begin += 8) {
        word = 0;
        memcpy(&word, bytes + begin, (size_t)(size - begin < 8 ? size - begin : 8));
        found |= word & mask;
    }
    return found != 0;
}

WIDER static int any_bit_wider(const unsigned char *bytes, long long size, uint64_t mask)
{
    return any_bit(bytes, size, mask);
}

static int has_bits(const unsigned char *bytes, long long size, uint64_t mask)
{
    return HAS_WIDER ? any_bit_wider(bytes, size, mask) : any_bit(bytes, size, mask);
}

/* Whether the numbers may be others than those in memory. */
int is_negated(PyObject *tensor)
{
    return told(&torch.is_neg, tensor) != 0;
}

/* Whether any number differs from zero, of which there are two; -1 where they are of a kind that is not known, and any bit
 * is set. */
static int any_number(PyObject *tensor, Block *block)
{
    int wide = width_of(tensor, block);
    if (wide < 0) return has_bits(block->bytes, block->size, ~(uint64_t)0) ? -1 : 0;
    return has_bits(block->bytes, block->size, wide ? 0x7fffffffffffffffu : 0x7fffffff7fffffffu);
}

static PyObject *spare; /* a sample that nobody has any more: at each look one is made, and one is dropped */

static PyObject *sample_of(const unsigned char *bytes, Py_ssize_t size)
{
    PyObject *found = size < SAMPLE ? NULL : spare;
    if (size < SAMPLE) return PyBytes_FromStringAndSize((const char *)bytes, size);
    bytes += (size - SAMPLE) / 2;
    if (found == NULL) return PyBytes_FromStringAndSize((const char *)bytes, SAMPLE);
    spare = NULL;
    memcpy(PyBytes_AsString(found), bytes, SAMPLE);
    return found;
}

/* Takes the reference. */
void drop_sample(PyObject *sample)
{
    int kept = spare == NULL && sample != NULL && Py_REFCNT(sample) == 1 && PyBytes_CheckExact(sample) &&
               PyBytes_Size(sample) == SAMPLE;
    if (kept) spare = sample;
    else Py_XDECREF(sample);
}

/* Whether norms of such numbers are found here, and not by torch: see `digest.norms`. */
int has_near_norm(PyObject *tensor, Block *block)
{
    return block->size <= LARGE && width_of(tensor, block) >= 0;
}

/* Whether a tensor surely has no number that is not finite, for its kind. */
static int is_of_whole_numbers(PyObject *tensor)
{
    PyObject *dtype = get(tensor, READ_dtype);
    int whole = dtype != NULL && (dtype == torch.int64 || dtype == torch.boolean);
    Py_XDECREF(dtype);
    if (dtype == NULL) PyErr_Clear();
    return whole;
}

/* A look at a block, with a new reference to a sample: DONE, MISSED, or -1 with an exception. With `finite` numbers are
 * looked through unless their state is `known`; with `norm` they are, and it is told theirs. */
int take_look(PyObject *tensor, Block *block, int finite, int known, Look *seen, double *norm)
{
    const unsigned char *bytes = block->bytes;
    double sums[LANES] = {0}, *squares = norm != NULL ? sums : NULL;
    long long size = block->size;
    uint32_t sum = 0;
    int wide = -2, checks = norm != NULL || (finite && !known), found;
    if (size > LARGE) return MISSED;
    if (checks && norm == NULL && block->wide < 0 && is_of_whole_numbers(tensor)) checks = 0;
    seen->version = number(get(tensor, READ__version)); /* one that was made in inference mode has none */
    /* Where the numbers are others than those in memory, sums over views as whole numbers are of others. Small blocks are
     * hashed as they lie, and a sign makes no number zero or infinite. */
    if (size > SMALL && ((uintptr_t)bytes % 8 || (block->wide < 0 && told(&torch.is_conj, tensor)))) return MISSED;
    if (size > SMALL && told(&torch.is_neg, tensor)) return MISSED;
    if (checks && (wide = width_of(tensor, block)) < 0) return MISSED;
    if (checks && size <= SMALL && !looked_through(bytes, size, wide, squares)) return MISSED;
    if (!known) {
        int any = bits_within(bytes, size < HEAD ? size : HEAD) ? 1 : any_number(tensor, block);
        if (any < 0) return MISSED;
        known = any ? NONZERO : ZERO;
    }
    if (size <= SMALL) found = add_bytes(&sum, bytes, (Py_ssize_t)size) ? DONE : -1;
    else found = add_block(&sum, bytes, (Py_ssize_t)size, checks ? wide : -1, squares);
    if (found != DONE) return found;
    if (norm != NULL) *norm = norm_of(sums);
    seen->sample = sample_of(bytes, (Py_ssize_t)size);
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
    found = block_of(tensor, 0, &block) ? take_look(tensor, &block, finite, known, &seen, NULL) : MISSED;
    if (found < 0) return NULL;
    if (found != DONE) Py_RETURN_NONE;
    return Py_BuildValue("iKLLN", seen.state, (unsigned long long)seen.digest, seen.pointer, seen.size, seen.sample);
}

/* Adds what a batch holds to a checksum, as `digest._walk`: no, where Python has to look. */
static int add_nested(uint32_t *sum, PyObject *value, int depth)
{
    int list = PyList_CheckExact(value), whole = 1;
    Py_ssize_t index, count;
    if (is_plain(value)) {
        Block block;
        Look seen;
        if (!readable(value, 0, &block) || take_look(value, &block, 0, NONZERO, &seen, NULL) != DONE) return 0;
        drop_sample(seen.sample);
        return add_bytes(sum, &seen.digest, sizeof seen.digest);
    }
    if (!depth) return 0;
    if (value == Py_None || PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
        PyBool_Check(value) || PyBytes_CheckExact(value)) {
        PyObject *text = PyObject_Repr(value);
        Py_ssize_t length;
        const char *read = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &length);
        whole = read != NULL && add_bytes(sum, read, length);
        Py_XDECREF(text);
        return whole;
    }
    if (PyDict_CheckExact(value)) {
        PyObject *name, *item;
        Py_ssize_t place = 0, length;
        while (whole && PyDict_Next(value, &place, &name, &item)) {
            const char *text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
            whole = text != NULL && add_bytes(sum, text, length) && add_nested(sum, item, depth - 1);
        }
        return whole;
    }
    if (!list && !PyTuple_CheckExact(value)) return 0;
    count = list ? PyList_Size(value) : PyTuple_Size(value);
    for (index = 0; whole && index < count; index++)
        whole = add_nested(sum, list ? PyList_GetItem(value, index) : PyTuple_GetItem(value, index), depth - 1);
    return whole;
}

/* As `digest.digest_nested`: no, where Python has to find it. */
int hash_nested(PyObject *value, int depth, uint64_t *digest)
{
    uint32_t sum = 0;
    int found = add_nested(&sum, value, depth);
    PyErr_Clear();
    *digest = finished(sum, 0);
    return found;
}

/* `nested(value, depth)`; None where Python has to find it. */
PyObject *digest_of_nested(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    uint64_t digest;
    (void)module;
    if (count == 2 && hash_nested(given[0], (int)PyLong_AsLong(given[1]), &digest))
        return PyLong_FromUnsignedLongLong(digest);
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* `norms(tensors)`: a list of what `digest.norms` finds of each, None where Python has to find it. */
PyObject *norms_of_each(PyObject *module, PyObject *tensors)
{
    Py_ssize_t index, count = PyList_CheckExact(tensors) ? PyList_Size(tensors) : 0;
    PyObject *norms = PyList_New(count);
    (void)module;
    for (index = 0; norms != NULL && index < count; index++) {
        PyObject *tensor = PyList_GetItem(tensors, index), *norm = NULL;
        double sums[LANES] = {0};
        Block block;
        if (readable(tensor, 0, &block) && has_near_norm(tensor, &block)) {
            add_squares(block.bytes, block.size, block.wide, sums);
            norm = PyFloat_FromDouble(norm_of(sums));
        } else {
            Py_INCREF(Py_None);
            norm = Py_None;
        }
        if (norm == NULL) Py_CLEAR(norms);
        else PyList_SetItem(norms, index, norm);
    }
    return norms;
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
        return pointer > 0 && number(call_method(&torch.data_ptr, tensor)) == pointer ? 1 : -1;
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
