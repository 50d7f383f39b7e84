/* CRC-32, as `zlib.crc32` has it. With the multiplication of polynomials that x86 processors have, the bytes are folded
 * into sixteen that have the same checksum; elsewhere `zlib` is asked. */

#include "core.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define FOLDS 1
#include <immintrin.h>
#else
#define FOLDS 0
#endif

#ifndef PyBUF_READ
#define PyBUF_READ 0x100        /* the limited API of 3.10 has what takes it, and not the name */
#endif

/* Of `zlib`: -1 with an exception. */
static long long asked_for(uint32_t before, const void *bytes, Py_ssize_t size)
{
    PyObject *view = PyMemoryView_FromMemory((char *)bytes, size, PyBUF_READ), *number = PyLong_FromUnsignedLong(before);
    PyObject *found = view == NULL || number == NULL ? NULL : PyObject_CallFunctionObjArgs(torch.crc32, view, number, NULL);
    long long checksum = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(found);
    Py_XDECREF(number);
    Py_XDECREF(view);
    return checksum;
}

#if FOLDS
#define POLYNOMIAL 0xEDB88320u

static uint32_t table[256];
static uint64_t by_four[2], by_one[2]; /* what moves sixteen bytes past four times as many, or past as many */

/* A power of x modulo the polynomial, as the multiplication takes it: lowest bit first, and one bit further. */
static uint64_t power(int exponent)
{
    uint32_t found = 0x80000000u;
    for (; exponent; exponent--) found = found >> 1 ^ (found & 1 ? POLYNOMIAL : 0);
    return (uint64_t)found << 1;
}

static void prepare(void)
{
    uint32_t index;
    int bit;
    for (index = 0; index < 256; index++) {
        uint32_t found = index;
        for (bit = 0; bit < 8; bit++) found = found >> 1 ^ (found & 1 ? POLYNOMIAL : 0);
        table[index] = found;
    }
    by_four[0] = power(4 * 128 + 32), by_four[1] = power(4 * 128 - 32);
    by_one[0] = power(128 + 32), by_one[1] = power(128 - 32);
}

static uint32_t byte_by_byte(uint32_t state, const unsigned char *bytes, size_t size)
{
    for (; size; size--) state = table[(state ^ *bytes++) & 0xff] ^ state >> 8;
    return state;
}

__attribute__((target("pclmul,sse2"))) static inline __m128i folded(__m128i block, __m128i by, const unsigned char *next)
{
    __m128i low = _mm_clmulepi64_si128(block, by, 0x00), high = _mm_clmulepi64_si128(block, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), _mm_loadu_si128((const __m128i *)next));
}

/* At least 64 bytes. */
__attribute__((target("pclmul,sse2"))) static uint32_t fold(uint32_t state, const unsigned char *bytes, size_t size)
{
    __m128i blocks[4], by = _mm_set_epi64x((long long)by_four[1], (long long)by_four[0]), whole;
    unsigned char rest[16];
    int index;
    for (index = 0; index < 4; index++) blocks[index] = _mm_loadu_si128((const __m128i *)(bytes + 16 * index));
    blocks[0] = _mm_xor_si128(blocks[0], _mm_cvtsi32_si128((int)state));
    for (bytes += 64, size -= 64; size >= 64; bytes += 64, size -= 64)
        for (index = 0; index < 4; index++) blocks[index] = folded(blocks[index], by, bytes + 16 * index);
    by = _mm_set_epi64x((long long)by_one[1], (long long)by_one[0]);
    whole = blocks[0];
    for (index = 1; index < 4; index++) {
        unsigned char next[16];
        _mm_storeu_si128((__m128i *)next, blocks[index]);
        whole = folded(whole, by, next);
    }
    for (; size >= 16; bytes += 16, size -= 16) whole = folded(whole, by, bytes);
    _mm_storeu_si128((__m128i *)rest, whole);
    return byte_by_byte(byte_by_byte(0, rest, sizeof rest), bytes, size);
}

static int can_fold(void)
{
    static int known = -1;
    if (known < 0) {
        known = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse2");
        if (known) prepare();
    }
    return known;
}
#endif

/* The checksum of some bytes behind those that `before` is of, 0 for none; -1 with an exception. */
long long checksum(uint32_t before, const void *bytes, Py_ssize_t size)
{
#if FOLDS
    if (can_fold()) {
        uint32_t (*way)(uint32_t, const unsigned char *, size_t) = size >= 64 ? fold : byte_by_byte;
        return (uint32_t)~way(~before, bytes, (size_t)size);
    }
#endif
    return asked_for(before, bytes, size);
}

/* `checksum(before, bytes)`, for tests. */
PyObject *checksum_of(PyObject *module, PyObject *given)
{
    unsigned int before;
    const char *bytes;
    Py_ssize_t size;
    long long found;
    (void)module;
    if (!PyArg_ParseTuple(given, "Iy#", &before, &bytes, &size)) return NULL;
    found = checksum(before, bytes, size);
    return found < 0 ? NULL : PyLong_FromLongLong(found);
}
