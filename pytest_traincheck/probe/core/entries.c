/* Whether modules have the plain attributes that they had, as `Attributes._look` asks of each. */

#include "core.h"

/* Whether it has as many entries as when they were last looked at, and the very objects for those that are plain. */
static int has_same_entries(Facts *info, PyObject *module)
{
    PyObject *entries = entries_in(module), *plain = info->plain, *name, *value;
    Py_ssize_t place = 0;
    int same = entries != NULL && plain != NULL && PyDict_CheckExact(plain) && PyDict_Size(entries) == info->entries;
    while (same && PyDict_Next(plain, &place, &name, &value)) same = PyDict_GetItemWithError(entries, name) == value;
    Py_XDECREF(entries);
    PyErr_Clear();
    return same;
}

/* Whether nothing is to be written of a module, or it is none of those that are looked at. */
static int is_as_before(PyObject *object)
{
    Facts *info = (Facts *)object;
    PyObject *module;
    int same, alive = PyObject_TypeCheck(object, FactsType) && info->ref != NULL ? pointed_to(info->ref, &module) : -1;
    if (alive <= 0) return alive == 0;
    same = 1;
    if (is_unset(info->wrapper) && (!is_unset(info->root) || info->mod))
        same = (!info->told || info->told == info->mod) && has_same_entries(info, module);
    Py_DECREF(module);
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
