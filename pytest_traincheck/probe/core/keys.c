/* Summary keys of arguments and results, equal to those of `summary.key_of`, for what calls are mostly given. */

#include "core.h"

#define ITEMS 16
#define TEXT 80

/* A tuple that takes the references it is given; all of them are released where one is missing. */
static PyObject *tuple_of(Py_ssize_t count, PyObject **items)
{
    PyObject *made = NULL;
    Py_ssize_t index, whole = 1;
    for (index = 0; index < count; index++) whole = whole && items[index] != NULL;
    if (whole) made = PyTuple_New(count);
    for (index = 0; index < count; index++) {
        if (made != NULL) PyTuple_SetItem(made, index, items[index]);
        else Py_XDECREF(items[index]);
    }
    return made;
}

static PyObject *same(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* Sizes may be symbols (inside a tracer), whose hash is code of Python's. */
static int plain_sizes(PyObject *shape)
{
    Py_ssize_t index, count;
    if ((PyObject *)Py_TYPE(shape) != torch.Size) return 0;
    count = PyTuple_Size(shape);
    for (index = 0; index < count; index++)
        if (!PyLong_CheckExact(PyTuple_GetItem(shape, index))) return 0;
    return 1;
}

static PyObject *key_of_tensor(PyObject *value)
{
    PyObject *parts[4] = {NULL, NULL, NULL, NULL};
    PyObject *place = get(value, READ_is_cpu);
    int count = place == Py_True ? 3 : 4;
    if (place == NULL) return NULL;
    Py_DECREF(place);
    parts[1] = get(value, READ_shape);
    if (parts[1] == NULL) return NULL;
    if (!plain_sizes(parts[1])) {
        Py_DECREF(parts[1]);
        return NULL;
    }
    parts[0] = get(value, READ_dtype);
    parts[2] = get(value, READ_requires_grad);
    if (count == 4) parts[3] = PyObject_GetAttr(value, name_device);
    return tuple_of(count, parts);
}

static PyObject *key_of_items(PyObject *value, int depth)
{
    PyObject *parts[ITEMS + 1];
    PyObject *kind = (PyObject *)Py_TYPE(value);
    int list = PyList_CheckExact(value);
    Py_ssize_t index, count = list ? PyList_Size(value) : PyTuple_Size(value);
    if (depth == 0) return same(kind);
    if (count > ITEMS) count = ITEMS;
    parts[0] = same(kind);
    for (index = 0; index < count; index++) {
        PyObject *item = list ? PyList_GetItem(value, index) : PyTuple_GetItem(value, index);
        parts[index + 1] = item == NULL ? NULL : key_of(item, depth - 1);
        if (parts[index + 1] == NULL) {
            for (; index >= 0; index--) Py_DECREF(parts[index]);
            return NULL;
        }
    }
    return tuple_of(count + 1, parts);
}

static PyObject *key_of_text(PyObject *text)
{
    return PyUnicode_GetLength(text) <= TEXT ? same(text) : PyUnicode_Substring(text, 0, TEXT);
}

/* What a batch or a model's output names, whatever methods its class has. */
static PyObject *key_of_named(PyObject *value, int depth)
{
    PyObject *parts[ITEMS + 1], *name, *item;
    Py_ssize_t place = 0, made = 0;
    if (depth == 0) return Py_TYPE(Py_TYPE(value)) == &PyType_Type ? same((PyObject *)Py_TYPE(value)) : NULL;
    parts[made++] = same((PyObject *)&PyDict_Type);
    while (made <= ITEMS && PyDict_Next(value, &place, &name, &item)) {
        PyObject *pair[2];
        pair[0] = PyUnicode_CheckExact(name) ? key_of_text(name) : NULL;
        pair[1] = pair[0] == NULL ? NULL : key_of(item, depth - 1);
        if (pair[1] != NULL) parts[made] = tuple_of(2, pair);
        else Py_XDECREF(pair[0]);
        if (pair[1] == NULL || parts[made] == NULL) {
            while (made > 0) Py_DECREF(parts[--made]);
            return NULL;
        }
        made++;
    }
    return tuple_of(made, parts);
}

/* Whether something is an object of a class of somebody's that is none of the kinds that are looked into otherwise; what
 * has a metaclass, as a `UserDict`, is left to Python. */
int is_object(PyObject *value)
{
    PyTypeObject *kind = Py_TYPE(value), *tensor = (PyTypeObject *)torch.Tensor, *module = (PyTypeObject *)torch.Module;
    if (Py_TYPE(kind) != &PyType_Type || !(PyType_GetFlags(kind) & Py_TPFLAGS_HEAPTYPE)) return 0;
    if (PyType_IsSubtype(kind, tensor) || PyType_IsSubtype(kind, module) || PyType_IsSubtype(kind, &PyType_Type)) return 0;
    return !PyTuple_Check(value) && !PyList_Check(value) && !PyDict_Check(value) && !PyLong_Check(value) &&
           !PyFloat_Check(value) && !PyUnicode_Check(value);
}

/* As `_tensors_of`: the tensors that an object holds, as a distribution does; its class, where it holds none. */
static PyObject *key_of_object(PyObject *value, int depth)
{
    PyObject *parts[ITEMS + 1], *entries, *name, *item;
    PyTypeObject *tensor = (PyTypeObject *)torch.Tensor;
    Py_ssize_t place = 0, made = 0;
    entries = depth ? PyObject_GenericGetAttr(value, name___dict__) : NULL;
    PyErr_Clear(); /* it may have no attributes of its own */
    parts[made++] = same((PyObject *)&PyDict_Type);
    while (entries != NULL && PyDict_CheckExact(entries) && made <= ITEMS && PyDict_Next(entries, &place, &name, &item)) {
        PyObject *pair[2];
        if (!PyUnicode_CheckExact(name) || !PyType_IsSubtype(Py_TYPE(item), tensor)) continue;
        pair[0] = key_of_text(name);
        pair[1] = pair[0] == NULL ? NULL : key_of(item, 0);
        if (pair[1] != NULL) parts[made] = tuple_of(2, pair);
        else Py_XDECREF(pair[0]);
        if (pair[1] == NULL || parts[made] == NULL) {
            while (made > 0) Py_DECREF(parts[--made]);
            Py_DECREF(entries);
            return NULL;
        }
        made++;
    }
    Py_XDECREF(entries);
    if (made > 1) return tuple_of(made, parts);
    Py_DECREF(parts[0]);
    return same((PyObject *)Py_TYPE(value));
}

/* Whether something to call holds nothing beside what it calls. */
static int is_bare(PyObject *value)
{
    PyObject *kind = (PyObject *)Py_TYPE(value), *entries;
    int index, bare;
    for (index = 0; index < 3; index++)
        if (kind == torch.callables[index]) return 1;
    if (kind != torch.partial) return 0;
    entries = PyObject_GenericGetAttr(value, name___dict__);
    bare = entries != NULL && PyDict_CheckExact(entries) && PyDict_Size(entries) == 0;
    Py_XDECREF(entries);
    PyErr_Clear();
    return bare;
}

/* Whether its class is all that is told of it, as of what hands out parameters one by one. */
int is_iterator(PyObject *value)
{
    PyObject *kind = (PyObject *)Py_TYPE(value);
    return kind == torch.iterators[0] || kind == torch.iterators[1];
}

/* The same of a module, unless its class is one that says itself what it is equal to. */
int is_module(PyObject *value)
{
    PyTypeObject *kind = Py_TYPE(value);
    return Py_TYPE(kind) == &PyType_Type && PyType_IsSubtype(kind, (PyTypeObject *)torch.Module);
}

PyObject *key_of(PyObject *value, int depth)
{
    PyObject *kind = (PyObject *)Py_TYPE(value);
    PyObject *pair[2];
    int index;
    if (kind == torch.Tensor || kind == torch.Parameter) return key_of_tensor(value);
    if (value == Py_None) return same(value);
    if (PyUnicode_CheckExact(value)) return key_of_text(value);
    if (PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value)) {
        if (PyFloat_CheckExact(value) && PyFloat_AsDouble(value) != PyFloat_AsDouble(value)) return NULL;
        pair[0] = same(kind);
        pair[1] = same(value);
        return tuple_of(2, pair);
    }
    if (PyList_CheckExact(value) || PyTuple_CheckExact(value) || kind == torch.Size) return key_of_items(value, depth);
    if (PyDict_Check(value)) return key_of_named(value, depth);
    if (is_bare(value) || is_iterator(value) || is_module(value)) return same(kind);
    for (index = 0; index < 4; index++)
        if (kind == torch.named[index]) {
            pair[0] = same(kind);
            pair[1] = PyObject_Str(value);
            return tuple_of(2, pair);
        }
    return is_object(value) ? key_of_object(value, depth) : NULL;
}

/* As `call_key`: arguments by position, then by name with their names, then how many are by position. */
PyObject *key_of_arguments(PyObject *const *given, Py_ssize_t count, PyObject *const *named, PyObject *names)
{
    PyObject *parts[2 * ITEMS + 1];
    Py_ssize_t index, others = names == NULL ? 0 : PyTuple_Size(names), made = 0;
    if (count + others > 2 * ITEMS) return NULL;
    for (index = 0; index < count; index++) {
        parts[made] = key_of(given[index], 2);
        if (parts[made] == NULL) goto missed;
        made++;
    }
    for (index = 0; index < others; index++) {
        PyObject *pair[2];
        pair[0] = same(PyTuple_GetItem(names, index));
        pair[1] = key_of(named[index], 2);
        parts[made] = tuple_of(2, pair);
        if (parts[made] == NULL) goto missed;
        made++;
    }
    if (others) {
        parts[made] = PyLong_FromSsize_t(count);
        if (parts[made] == NULL) goto missed;
        made++;
    }
    return tuple_of(made, parts);
missed:
    while (made > 0) Py_DECREF(parts[--made]);
    return NULL;
}

int is_single(PyObject *key)
{
    PyObject *shape = PyTuple_GetItem(key, 1);
    Py_ssize_t index, count = PyTuple_Size(shape);
    for (index = 0; index < count; index++)
        if (PyLong_AsLongLong(PyTuple_GetItem(shape, index)) != 1) return 0;
    return 1;
}

/* `call_key(args, kwargs)`: as in `families/base.py`; None: Python has to make it. */
PyObject *call_key(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    PyObject *flat[2 * ITEMS], *names = NULL, *key = NULL, *name, *value;
    Py_ssize_t index, place = 0, others, number;
    (void)module;
    if (count != 2 || !PyTuple_CheckExact(given[0]) || !PyDict_CheckExact(given[1])) Py_RETURN_NONE;
    number = PyTuple_Size(given[0]);
    others = PyDict_Size(given[1]);
    if (number + others > 2 * ITEMS) Py_RETURN_NONE;
    for (index = 0; index < number; index++) flat[index] = PyTuple_GetItem(given[0], index);
    if (others) {
        names = PyTuple_New(others);
        if (names == NULL) return NULL;
        for (index = 0; PyDict_Next(given[1], &place, &name, &value); index++) {
            PyTuple_SetItem(names, index, same(name));
            flat[number + index] = value;
        }
    }
    key = key_of_arguments(flat, number, flat + number, names);
    Py_XDECREF(names);
    if (key != NULL) return key;
    PyErr_Clear();
    Py_RETURN_NONE;
}
