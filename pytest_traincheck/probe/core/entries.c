/* Whether modules have the plain attributes that they had, as `Attributes._look` asks of each. */

#include "core.h"

/* Whether it has as many entries as when they were last looked at, and the very objects for those that are plain. */
static int has_same_entries(PyObject *info, PyObject *module)
{
    PyObject *entries = PyObject_GenericGetAttr(module, name___dict__), *plain = attribute(info, name_plain), *name, *value;
    Py_ssize_t place = 0;
    int same = entries != NULL && PyDict_CheckExact(entries) && plain != NULL && PyDict_CheckExact(plain) &&
               PyDict_Size(entries) == whole(info, name_entries, -1);
    while (same && PyDict_Next(plain, &place, &name, &value)) same = PyDict_GetItemWithError(entries, name) == value;
    Py_XDECREF(plain);
    Py_XDECREF(entries);
    PyErr_Clear();
    return same;
}

/* Whether nothing is to be written of a module, or it is none of those that are looked at. */
static int is_as_before(PyObject *info)
{
    PyObject *ref = attribute(info, name_ref), *wrapper = attribute(info, name_wrapper), *root = attribute(info, name_root);
    PyObject *module = ref == NULL || (PyObject *)Py_TYPE(ref) != torch.ref ? NULL : PyObject_CallNoArgs(ref);
    long long mod = whole(info, name_mod, -1), told = whole(info, name_told, -1);
    int same = module != NULL && wrapper != NULL && root != NULL && mod >= 0 && told >= 0;
    if (same && module != Py_None && wrapper == Py_None && (root != Py_None || mod))
        same = (!told || told == mod) && has_same_entries(info, module);
    Py_XDECREF(module);
    Py_XDECREF(root);
    Py_XDECREF(wrapper);
    Py_XDECREF(ref);
    PyErr_Clear();
    return same;
}

/* `same_attributes(infos, most)`: whether that holds for the first of these; no, where Python has to find out. */
PyObject *same_attributes(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t index, length = count == 2 && PyList_CheckExact(given[0]) ? PyList_Size(given[0]) : -1;
    long long most = length < 0 ? 0 : PyLong_AsLongLong(given[1]);
    int same = length >= 0;
    (void)module;
    if (length > most) length = (Py_ssize_t)most;
    for (index = 0; same && index < length; index++) same = is_as_before(PyList_GetItem(given[0], index));
    PyErr_Clear();
    return PyBool_FromLong(same);
}
