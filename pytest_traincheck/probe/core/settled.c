/* What has to be sure before nothing is done: that names, groups of optimizers and tensors are as they were. Each says no
 * where it cannot tell, and Python finds out. */

#include "core.h"

/* How many parameters, buffers and modules a module has itself; -1 where Python has to count. */
static long long entries_of(PyObject *module)
{
    PyObject *kinds[3] = {name__parameters, name__buffers, name__modules};
    PyObject *entries = entries_in(module);
    long long total = 0;
    int kind;
    for (kind = 0; entries != NULL && kind < 3; kind++) {
        PyObject *held = PyDict_GetItemWithError(entries, kinds[kind]);
        /* `Sequential` has an ordered one when a member was deleted, and torch once had no other. */
        if (held == NULL || (!PyDict_CheckExact(held) && (PyObject *)Py_TYPE(held) != torch.ordered)) break;
        total += PyDict_Size(held);
    }
    Py_XDECREF(entries);
    if (kind == 3) return total;
    PyErr_Clear();
    return -1;
}

/* As `Root.current_shape`: -2 where a module has died, -1 where Python has to count. */
static long long shape(PyObject *members)
{
    Py_ssize_t index, length = PyList_CheckExact(members) ? PyList_Size(members) : -1;
    long long total = length < 0 ? -1 : 0;
    for (index = 0; index < length; index++) {
        PyObject *module;
        long long entries;
        int alive = pointed_to(PyList_GetItem(members, index), &module);
        if (alive <= 0) return alive < 0 ? -1 : -2;
        entries = entries_of(module);
        Py_DECREF(module);
        if (entries < 0) return -1;
        total += entries;
    }
    return total;
}

/* `shape(members)`: None where Python has to count. */
PyObject *shape_of(PyObject *module, PyObject *members)
{
    long long found = shape(members);
    (void)module;
    if (found == -1) Py_RETURN_NONE;
    return PyLong_FromLongLong(found);
}

static int has_its_shape(PyObject *root)
{
    PyObject *members = PyObject_GetAttr(root, name_members);
    long long now = members == NULL ? -1 : shape(members);
    Py_XDECREF(members);
    if (members == NULL) PyErr_Clear();
    return now >= 0 && now == whole(root, name_shape, -1);
}

/* Whether these roots, or all, have as many entries as before. */
static int roots_settled(const Switches *modules, PyObject *among)
{
    PyObject *roots, *key, *root;
    Py_ssize_t place = 0, index;
    int settled = 1;
    if (PyTuple_CheckExact(among)) {
        for (index = 0; settled && index < PyTuple_Size(among); index++)
            settled = has_its_shape(PyTuple_GetItem(among, index));
        return settled;
    }
    roots = among == Py_None ? modules->roots : NULL;
    if (roots == NULL || !PyDict_CheckExact(roots)) return 0;
    while (settled && PyDict_Next(roots, &place, &key, &root)) {
        Py_INCREF(root);
        settled = has_its_shape(root);
        Py_DECREF(root);
    }
    return settled;
}

/* Whether modules that held no tensors have as many entries as before. */
static int empty_ones_settled(const Switches *modules)
{
    PyObject *empty = modules->empty;
    Py_ssize_t index, length = empty != NULL && PyList_CheckExact(empty) ? PyList_Size(empty) : -1;
    int settled = length >= 0;
    for (index = 0; settled && index < length; index++) {
        PyObject *module, *entry = PyList_GetItem(empty, index);
        int alive = PyTuple_CheckExact(entry) ? pointed_to(PyTuple_GetItem(entry, 0), &module) : -1;
        settled = alive >= 0;
        if (alive > 0) {
            settled = entries_of(module) == PyLong_AsLongLong(PyTuple_GetItem(entry, 1));
            Py_DECREF(module);
        }
    }
    PyErr_Clear();
    return settled;
}

/* Whether `Recorder.before_entry` has nothing to do. */
int are_settled(const Switches *modules, const Switches *variables, PyObject *among)
{
    PyObject *pending = modules->pending;
    int settled = pending != NULL && PyList_CheckExact(pending) && PyList_Size(pending) == 0 && !variables->unseen &&
                  modules->generation == variables->known && roots_settled(modules, among) && empty_ones_settled(modules);
    PyErr_Clear();
    return settled;
}

/* `names_settled(modules, variables, among)` */
PyObject *names_settled(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    const Switches *modules, *variables;
    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "names_settled() takes modules, variables and roots");
        return NULL;
    }
    modules = switches_of(given[0]), variables = switches_of(given[1]);
    if (modules == NULL || variables == NULL) return NULL;
    return PyBool_FromLong(are_settled(modules, variables, given[2]));
}

/* Groups of optimizers */

static int same_members(PyObject *group, PyObject *ids)
{
    PyObject *members = PyDict_GetItemWithError(group, name_params);
    Py_ssize_t index, length;
    if (members == NULL || !PyList_CheckExact(members) || !PyTuple_CheckExact(ids)) return 0;
    length = PyList_Size(members);
    if (PyTuple_Size(ids) != length) return 0;
    for (index = 0; index < length; index++)
        if (PyLong_AsVoidPtr(PyTuple_GetItem(ids, index)) != PyList_GetItem(members, index)) return 0;
    return 1;
}

/* Whether a group consists of these objects, as `optimizers._objects` gives them. */
static int same_group(PyObject *group, PyObject *before, PyObject *apart)
{
    PyObject *values, *name, *value;
    Py_ssize_t place = 0, index = 0;
    if (!PyDict_CheckExact(group) || !PyTuple_CheckExact(before) || PyTuple_Size(before) != 2) return 0;
    values = PyTuple_GetItem(before, 1);
    if (!PyTuple_CheckExact(values) || !same_members(group, PyTuple_GetItem(before, 0))) return 0;
    while (PyDict_Next(group, &place, &name, &value)) {
        int left_out = PyUnicode_CheckExact(name) ? PySet_Contains(apart, name) : -1;
        if (left_out < 0) return 0;
        if (left_out) continue;
        if (index + 2 > PyTuple_Size(values) || PyTuple_GetItem(values, index) != name ||
            PyTuple_GetItem(values, index + 1) != value)
            return 0;
        index += 2;
    }
    return index == PyTuple_Size(values);
}

/* Whether groups consist of what they did, but for the names that are looked at apart. */
int are_same_groups(PyObject *groups, PyObject *before, PyObject *apart)
{
    Py_ssize_t index, length;
    int same = PyList_CheckExact(groups) && PyList_CheckExact(before);
    length = same ? PyList_Size(groups) : 0;
    same = same && PyList_Size(before) == length;
    for (index = 0; same && index < length; index++)
        same = same_group(PyList_GetItem(groups, index), PyList_GetItem(before, index), apart);
    PyErr_Clear();
    return same;
}

/* `same_groups(groups, before, apart)` */
PyObject *same_groups(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    return PyBool_FromLong(count == 3 && are_same_groups(given[0], given[1], given[2]));
}

/* Whether this thread is the only one that works with gradients, as `Backwards._reads_all`; no other one can begin to
 * before Python runs again. */
static int reads_all(PyObject *leaves, PyObject *several)
{
    PyObject *thread;
    int known;
    if (!PyDict_CheckExact(leaves)) return 0;
    if (PyDict_Size(leaves) == 0) return 1;
    thread = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    known = thread != NULL && several == Py_False && PyDict_Contains(leaves, thread) == 1;
    Py_XDECREF(thread);
    PyErr_Clear();
    return known;
}

/* `nothing_new(slots, values, gradients, leaves, several)`: as `Variables.nothing_new`. */
PyObject *nothing_new(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    int same = count == 5 && PyList_CheckExact(given[0]);
    (void)module;
    if (same && given[1] == Py_True) same = all_same(given[0], 1, 0);
    if (same && given[2] == Py_True) same = reads_all(given[3], given[4]) && all_same(given[0], 0, 1);
    PyErr_Clear();
    return PyBool_FromLong(same);
}

/* The same of a recorder; with `training` also whether it has begun a pass before. */
int may_read_gradients(Core *core, int training)
{
    PyObject *leaves = core->backwards->leaves, *several = core->backwards->several;
    return leaves != NULL && several != NULL && reads_all(leaves, several) && (!training || PyDict_Size(leaves) > 0);
}

int nothing_changed(Core *core, int values, int gradients)
{
    PyObject *slots = slots_of(core);
    int same = slots != NULL && (!gradients || (!core->variables->gradients_dirty && may_read_gradients(core, 0))) &&
               all_same(slots, values, gradients);
    Py_XDECREF(slots);
    PyErr_Clear();
    return same;
}
