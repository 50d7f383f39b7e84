/* Where a tensor's numbers lie. torch tells all of it at once through the table of functions that array libraries have for
 * each other (DLPack's `__dlpack_c_exchange_api__`); a torch without one is asked attribute by attribute. */

#include "core.h"

/* DLPack 1: what its header `dlpack.h` lays down, as far as it is used. */
typedef struct {
    void *data;
    int32_t device, device_number, dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} Exchanged;

typedef struct {
    uint32_t major, minor;
    void *before, *allocate, *take, *give;
    int (*view)(void *tensor, Exchanged *found);
} Exchange;

enum { ON_CPU = 1, FLOAT = 2 };

static const Exchange *table;

/* Looks for torch's table; there need not be one. */
void find_exchange(void)
{
    PyObject *capsule = PyObject_GetAttrString(torch.Tensor, "__dlpack_c_exchange_api__");
    table = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (table != NULL && (table->major != 1 || table->view == NULL)) table = NULL;
    Py_XDECREF(capsule); /* it is an attribute of the class, and what it points to stays */
    PyErr_Clear();
}

/* `use_exchange(wanted)`: whether the table is used from now on, for tests. */
PyObject *use_exchange(PyObject *module, PyObject *wanted)
{
    (void)module;
    table = NULL;
    if (wanted == Py_True) find_exchange();
    return PyBool_FromLong(table != NULL);
}

static int is_strided(PyObject *tensor)
{
    PyObject *layout = get(tensor, READ_layout);
    int found = layout == torch.strided;
    if (layout == NULL) PyErr_Clear();
    Py_XDECREF(layout);
    return found;
}

/* Whether rows follow each other without gaps; the stride of a dimension with one place says nothing. */
static int is_contiguous(const Exchanged *found, long long *places)
{
    int64_t expected = 1;
    int index, contiguous = 1;
    for (index = found->dimensions - 1; index >= 0; index--) {
        if (found->shape[index] != 1 && found->strides[index] != expected) contiguous = 0;
        expected *= found->shape[index];
    }
    *places = expected;
    return contiguous || expected == 0;
}

/* Which of two kinds the numbers of a block are of: 0 narrow, 1 wide, -1 another. */
int width_of(PyObject *tensor, Block *block)
{
    if (block->wide == UNASKED) {
        PyObject *dtype = get(tensor, READ_dtype);
        block->wide = dtype == torch.float32 ? 0 : dtype == torch.float64 ? 1 : -1;
        if (dtype == NULL) PyErr_Clear();
        Py_XDECREF(dtype);
    }
    return block->wide;
}

/* What a key says of a tensor on the CPU but whether it is trained: 1, or 0, without an exception, where torch's table does
 * not tell. `kind` is odd, and another one for each dtype. */
int told_at_once(PyObject *tensor, uint64_t *kind, int *dimensions, const int64_t **shape)
{
    Exchanged found;
    if (table == NULL) return 0;
    if (table->view(tensor, &found) != 0) {
        PyErr_Clear();
        return 0;
    }
    *kind = (uint64_t)found.lanes << 32 | (uint64_t)found.bits << 16 | (uint64_t)found.code << 8 | 1;
    *dimensions = found.dimensions;
    *shape = found.shape;
    return found.device == ON_CPU;
}

/* Whether it does: 1, 0, or -1 where torch does not tell. */
static int block_exchanged(PyObject *tensor, Block *block)
{
    Exchanged found;
    long long places;
    if (table->view(tensor, &found) != 0) { /* it has no address, or numbers of a kind that DLPack does not know */
        PyErr_Clear();
        return -1;
    }
    if (found.device != ON_CPU || found.lanes != 1 || found.bits % 8) return 0;
    if (!is_contiguous(&found, &places)) return 0;
    block->bytes = (const unsigned char *)found.data + found.offset;
    block->size = places * (found.bits / 8);
    block->wide = found.code == FLOAT && found.bits == 32 ? 0 : found.code == FLOAT && found.bits == 64 ? 1 : -1;
    return found.data != NULL && block->size > 0;
}

/* Where a tensor of an exact class lies, if that is one block of memory on the CPU: 1, or 0 without an exception.
 * Its memory may be smaller than it says. `checked`: it is known to be one. */
int block_of(PyObject *tensor, int checked, Block *block)
{
    long long pointer;
    int found;
    if (!is_plain(tensor)) return 0;
    if (table != NULL && (found = block_exchanged(tensor, block)) >= 0) return found;
    if (!checked && (says(tensor, READ_is_cpu) != 1 || !is_strided(tensor))) return 0;
    pointer = number(call_method(&torch.data_ptr, tensor));
    if (pointer <= 0) return 0; /* what a transform has wrapped has no address */
    if (!checked && (truth(tensor, name_is_nested) || truth(tensor, name_is_quantized) ||
                     told(&torch.is_contiguous, tensor) != 1))
        return 0;
    block->bytes = (const unsigned char *)(uintptr_t)pointer;
    block->size = number(get(tensor, READ_nbytes));
    block->wide = UNASKED;
    return block->size > 0;
}

/* Whether the memory of a tensor is as large as it says. Memory that begins with a single number has room for it, whatever
 * was left of it: there is no smaller allocation. */
static int lies_within(PyObject *tensor, const Block *block)
{
    PyObject *storage;
    long long held;
    if (number(call_method(&torch.storage_offset, tensor))) return 0;
    if (block->size <= (long long)sizeof(double)) return 1;
    storage = call_method(&torch.untyped_storage, tensor);
    held = storage == NULL ? -1 : number(call_method(&torch.nbytes, storage));
    PyErr_Clear();
    Py_XDECREF(storage);
    return held >= block->size;
}

/* Whether a tensor is one block of memory on the CPU that can be read: as `digest.local` and `_is_block`. One that lies at
 * `known`, where it was looked at before, was asked for all that then. */
int readable(PyObject *tensor, long long known, Block *block)
{
    if (!block_of(tensor, 0, block)) return 0;
    return known > 0 ? (long long)(uintptr_t)block->bytes == known : lies_within(tensor, block);
}

/* The same of a gradient, which is another tensor after each backward pass, and mostly where the last one was. */
int readable_again(PyObject *gradient, const Var *var, Block *block)
{
    if (!block_of(gradient, 0, block)) return 0;
    if (var->pointer && (long long)(uintptr_t)block->bytes == var->pointer && block->size == var->size) return 1;
    return lies_within(gradient, block);
}
