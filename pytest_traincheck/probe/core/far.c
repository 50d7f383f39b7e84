/* Tensors of other devices. `devices.look_at_each` looks at many at once; what it has found is written where their turn
 * comes.
 */

#include "core.h"

/* A number that a method of a tensor returns; -1 without an exception where there is none. */
static long long told(PyObject *method, PyObject *tensor)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(method, tensor, NULL);
    long long found = answer == NULL ? -1 : PyLong_AsLongLong(answer);
    Py_XDECREF(answer);
    PyErr_Clear();
    return found;
}

/* Whether all of a tensor lies in the memory of a GPU, in one block: as `digest.local` and `devices.is_far`. One that lies
 * at `known`, where it was looked at before, was asked for all that then. */
int is_far(PyObject *tensor, long long known)
{
    PyObject *kind = (PyObject *)Py_TYPE(tensor), *storage, *held, *size;
    long long pointer;
    int found;
    if ((kind != torch.Tensor && kind != torch.Parameter) || truth(tensor, name_is_cuda) != 1) return 0;
    pointer = told(torch.data_ptr, tensor);
    if (pointer <= 0 || pointer == known) return pointer > 0;
    if (truth(tensor, name_is_nested) || truth(tensor, name_is_quantized)) return 0;
    held = PyObject_GetAttr(tensor, name_layout);
    Py_XDECREF(held);
    if (held != torch.strided || told(torch.storage_offset, tensor)) {
        PyErr_Clear();
        return 0;
    }
    held = PyObject_CallFunctionObjArgs(torch.is_contiguous, tensor, NULL);
    Py_XDECREF(held);
    storage = held == Py_True ? PyObject_CallFunctionObjArgs(torch.untyped_storage, tensor, NULL) : NULL;
    held = storage == NULL ? NULL : PyObject_CallMethodObjArgs(storage, name_nbytes, NULL);
    size = held == NULL ? NULL : PyObject_GetAttr(tensor, name_nbytes);
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
    inference = PyObject_CallFunctionObjArgs(torch.is_inference, tensor, NULL);
    version = inference == Py_False ? PyObject_GetAttr(tensor, name__version) : NULL;
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
