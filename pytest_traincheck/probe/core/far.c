/* Tensors of other devices. `devices.look_at_each` looks at many at once; what it has found is written where their turn
 * comes.
 */

#include "core.h"

#include <math.h>

/* Whether all of a tensor lies in the memory of a GPU, in one block: as `digest.local` and `devices.is_far`. One that lies
 * at `known`, where it was looked at before, was asked for all that then. */
int is_far(PyObject *tensor, long long known)
{
    PyObject *kind = (PyObject *)Py_TYPE(tensor), *storage, *held, *size;
    long long pointer;
    int found;
    if ((kind != torch.Tensor && kind != torch.Parameter) || says(tensor, READ_is_cuda) != 1) return 0;
    pointer = number(call_method(&torch.data_ptr, tensor));
    if (pointer <= 0 || pointer == known) return pointer > 0;
    if (truth(tensor, name_is_nested) || truth(tensor, name_is_quantized)) return 0;
    held = get(tensor, READ_layout);
    Py_XDECREF(held);
    if (held != torch.strided || number(call_method(&torch.storage_offset, tensor))) {
        PyErr_Clear();
        return 0;
    }
    held = call_method(&torch.is_contiguous, tensor);
    Py_XDECREF(held);
    storage = held == Py_True ? call_method(&torch.untyped_storage, tensor) : NULL;
    held = storage == NULL ? NULL : call_method(&torch.nbytes, storage);
    size = held == NULL ? NULL : get(tensor, READ_nbytes);
    found = size != NULL && PyObject_RichCompareBool(held, size, Py_GE) == 1;
    Py_XDECREF(size);
    Py_XDECREF(held);
    Py_XDECREF(storage);
    PyErr_Clear();
    return found;
}

/* What was found of a tensor, with a new reference to a sample: DONE, or MISSED. As `devices.Seen.look`. */
int look_ahead(PyObject *ahead, PyObject *tensor, int finite, int known, Look *seen)
{
    PyObject *key = PyLong_FromVoidPtr(tensor), *version = NULL, *inference = NULL;
    PyObject *entry = key == NULL ? NULL : PyDict_GetItemWithError(ahead, key);
    Py_XDECREF(key);
    seen->sample = NULL;
    if (entry == NULL || !PyTuple_Check(entry) || PyTuple_Size(entry) < 3) goto missed;
    seen->state = (int)PyLong_AsLong(PyTuple_GetItem(entry, 0));
    seen->digest = PyLong_AsUnsignedLongLong(PyTuple_GetItem(entry, 1));
    seen->pointer = PyLong_AsLongLong(PyTuple_GetItem(entry, 2));
    seen->size = 0;
    if (known) seen->state = known;
    else if (seen->state == NONFINITE && !finite) seen->state = NONZERO;
    inference = call_method(&torch.is_inference, tensor);
    version = inference == Py_False ? get(tensor, READ__version) : NULL;
    seen->version = version == NULL ? -1 : PyLong_AsLongLong(version);
    if (PyErr_Occurred()) goto missed;
    seen->sample = PyBytes_FromStringAndSize(NULL, 0);
missed:
    Py_XDECREF(version);
    Py_XDECREF(inference);
    if (seen->sample != NULL) return DONE;
    PyErr_Clear();
    return MISSED;
}

/* What the kernel of `gpu.py` is told, and what it has found. */

#define SMALL (16 * 1024)
#define BLOCK (512 * 256)
#define WIDTH 4

/* How the kernel reads a tensor, as `gpu._KINDS`: -1 where it cannot. */
static long long kind_of(PyObject *kinds, PyObject *tensor)
{
    PyObject *dtype = get(tensor, READ_dtype);
    PyObject *kind = dtype == NULL ? NULL : PyDict_GetItemWithError(kinds, dtype);
    long long found = kind != NULL ? PyLong_AsLongLong(kind) : dtype == NULL ? -1 : 0;
    Py_XDECREF(dtype);
    if (PyErr_Occurred()) found = -1;
    PyErr_Clear();
    return found;
}

/* The size in bytes of a tensor on a GPU that is one block there: 0 for another tensor, -1 where Python has to copy it. */
static long long size_of(PyObject *tensor, long long *pointer)
{
    PyObject *layout, *size;
    long long found;
    if (says(tensor, READ_is_cuda) != 1) return 0;
    layout = get(tensor, READ_layout);
    Py_XDECREF(layout);
    if (layout != torch.strided) {
        PyErr_Clear();
        return 0;
    }
    size = get(tensor, READ_nbytes);
    found = size == NULL ? -1 : PyLong_AsLongLong(size);
    Py_XDECREF(size);
    PyErr_Clear();
    if (found <= 0) return found;
    *pointer = number(call_method(&torch.data_ptr, tensor));
    if (*pointer <= 0 || (found > SMALL && *pointer % 8)) return -1;
    return told(&torch.is_contiguous, tensor) == 1 && !told(&torch.is_neg, tensor) && !told(&torch.is_conj, tensor)
               ? found : -1;
}

/* `gpu_entries(tensors, kinds)`: the number of the GPU that tensors lie on, what the kernel is told of them, and in how
 * many blocks of threads they are looked at; those that do not are passed over. None where Python has to find out. */
PyObject *gpu_entries(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t index, length, filled = 0;
    long long device = -1, blocks = 0;
    uint64_t *entries;
    PyObject *found;
    (void)module;
    if (count != 2 || !PyList_CheckExact(given[0]) || !PyDict_CheckExact(given[1])) Py_RETURN_NONE;
    length = PyList_Size(given[0]);
    entries = PyMem_Malloc((size_t)(length ? length : 1) * WIDTH * sizeof *entries);
    if (entries == NULL) return PyErr_NoMemory();
    for (index = 0; index < length; index++) {
        PyObject *tensor = PyList_GetItem(given[0], index);
        long long pointer = 0, size = size_of(tensor, &pointer), kind, place;
        if (size == 0) continue;
        kind = size < 0 ? -1 : kind_of(given[1], tensor);
        place = number(call_method(&torch.get_device, tensor));
        if (kind < 0 || place < 0 || (device >= 0 && place != device)) {
            PyMem_Free(entries);
            Py_RETURN_NONE;
        }
        device = place;
        entries[filled++] = (uint64_t)pointer;
        entries[filled++] = (uint64_t)size;
        entries[filled++] = (uint64_t)blocks;
        entries[filled++] = (uint64_t)kind;
        blocks += size <= SMALL ? 1 : (size + BLOCK - 1) / BLOCK;
    }
    found = Py_BuildValue("Ly#L", device, (const char *)entries, filled * (Py_ssize_t)sizeof *entries, blocks);
    PyMem_Free(entries);
    return found;
}

/* The least bits, without the sign, of what is not finite, by kind. */
static const uint64_t infinite[] = {UINT64_MAX, 0x7f800000u, 0x7ff0000000000000u, 0x7c00, 0x7f80};

/* `gpu_found(tensors, entries, looks, squares)`: what the kernel has found of each entry, by the `id` of its tensor, as
 * `devices.Seen`. The last two are bytes; of the squares there may be none. */
PyObject *gpu_found(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    char *entries, *looks, *squares;
    Py_ssize_t filled, index, place = 0, have, sums;
    PyObject *found;
    (void)module;
    if (count != 4 || !PyList_CheckExact(given[0])) {
        PyErr_SetString(PyExc_TypeError, "gpu_found() takes a list of tensors and three arguments more");
        return NULL;
    }
    if (PyBytes_AsStringAndSize(given[1], &entries, &filled) < 0 || PyBytes_AsStringAndSize(given[2], &looks, &have) < 0 ||
        PyBytes_AsStringAndSize(given[3], &squares, &sums) < 0)
        return NULL;
    filled /= WIDTH * (Py_ssize_t)sizeof(uint64_t);
    if (have < filled * 16 || (found = PyDict_New()) == NULL) {
        if (have < filled * 16) PyErr_SetString(PyExc_ValueError, "the kernel has told of fewer tensors than it was asked");
        return NULL;
    }
    for (index = 0; index < PyList_Size(given[0]) && place < filled; index++) {
        PyObject *tensor = PyList_GetItem(given[0], index), *key, *entry;
        uint64_t told_of[WIDTH], numbers[2], first, last;
        double norm = Py_NAN;
        int state, failed;
        long long pointer = 0;
        if (size_of(tensor, &pointer) <= 0) continue;
        memcpy(told_of, entries + place * (Py_ssize_t)sizeof told_of, sizeof told_of);
        memcpy(numbers, looks + place * 16, sizeof numbers);
        place += 1;
        if (told_of[3] && sums) {
            double sum = 0;
            first = told_of[2];
            last = first + (told_of[1] <= SMALL ? 1 : (told_of[1] + BLOCK - 1) / BLOCK);
            for (; first < last && (Py_ssize_t)(first + 1) * 8 <= sums; first++) {
                double part;
                memcpy(&part, squares + first * 8, sizeof part);
                sum += part;
            }
            norm = sqrt(sum);
        }
        state = numbers[1] >= infinite[told_of[3] < 5 ? told_of[3] : 0] ? NONFINITE : numbers[1] ? NONZERO : ZERO;
        key = PyLong_FromVoidPtr(tensor);
        entry = Py_BuildValue("iKKd", state, (unsigned long long)finished(numbers[0], told_of[1]),
                              (unsigned long long)told_of[0], norm);
        failed = key == NULL || entry == NULL || PyDict_SetItem(found, key, entry) < 0;
        Py_XDECREF(key);
        Py_XDECREF(entry);
        if (failed) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* Whether a place is looked at, as far as that is sure: as `Variables` has it. */
static int is_wanted(const Slot *slot, PyObject *tensor, int what, PyObject *own, PyObject *optimized)
{
    const Var *var = (const Var *)slot->var;
    PyObject *key;
    int mine, holds;
    if (what == BUFFERS) return slot->grad == Py_None;
    if (what == VALUES) return var->state != UNSEEN && same_as_before(var, tensor) != 1;
    key = PyLong_FromVoidPtr(tensor);
    mine = key == NULL ? -1 : PySet_Contains(own, key);
    holds = key == NULL ? -1 : PySet_Contains(optimized, key);
    Py_XDECREF(key);
    PyErr_Clear();
    return mine == 1 || holds != 1 || same_as_before(var, tensor) != 1;
}

/* `far(slots, what, own, optimized)`: the tensors on GPUs that a walk of `values` would stop at, and the
 * slots of which Python has to find out. */
PyObject *walk_far(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    PyObject *found;
    Py_ssize_t index;
    int what;
    (void)module;
    if (count != 4 || !PyList_CheckExact(given[0])) {
        PyErr_SetString(PyExc_TypeError, "far() takes a list of slots and three arguments more");
        return NULL;
    }
    what = (int)PyLong_AsLong(given[1]);
    if (PyErr_Occurred() || (found = PyList_New(0)) == NULL) return NULL;
    for (index = 0; index < PyList_Size(given[0]); index++) {
        const Slot *slot = (const Slot *)PyList_GetItem(given[0], index);
        PyObject *tensor;
        int failed, there = -1;
        if (!PyObject_TypeCheck((PyObject *)slot, SlotType) || !is_var(slot->var) || (there = held(slot, &tensor)) < 0) {
            if (PyList_Append(found, (PyObject *)slot) == 0) continue;
            Py_DECREF(found);
            return NULL;
        }
        if (!there) continue;
        failed = is_wanted(slot, tensor, what, given[2], given[3]) &&
                 is_far(tensor, ((const Var *)slot->var)->key == (long long)(intptr_t)tensor
                                    ? ((const Var *)slot->var)->pointer : 0) &&
                 PyList_Append(found, tensor) < 0;
        Py_DECREF(tensor);
        if (failed) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}
