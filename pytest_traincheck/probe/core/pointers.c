/* Sets of addresses, which live as long as a walk. */

#include "core.h"

static size_t place_of(const Pointers *set, const void *pointer)
{
    size_t place = ((uintptr_t)pointer >> 4) * 0x9E3779B97F4A7C15u >> 32 & (set->room - 1);
    while (set->table[place] != NULL && set->table[place] != pointer) place = (place + 1) & (set->room - 1);
    return place;
}

/* An empty set for so many at most: no, with an exception, where there is no memory. */
int make_pointers(Pointers *set, Py_ssize_t most)
{
    for (set->room = 8; set->room < 2 * (size_t)most; set->room *= 2);
    set->table = PyMem_Calloc(set->room, sizeof *set->table);
    if (set->table == NULL) PyErr_NoMemory();
    return set->table != NULL;
}

void add_pointer(Pointers *set, const void *pointer)
{
    set->table[place_of(set, pointer)] = pointer;
}

int has_pointer(const Pointers *set, const void *pointer)
{
    return set->table[place_of(set, pointer)] != NULL;
}

void free_pointers(Pointers *set)
{
    PyMem_Free(set->table);
    set->table = NULL;
}

/* The addresses in a set of Python's: no, with an exception, where it is none. */
int pointers_in(PyObject *ids, Pointers *set)
{
    PyObject *each = PyObject_GetIter(ids), *id;
    Py_ssize_t most = each == NULL ? -1 : PyObject_Size(ids);
    int done = most >= 0 && make_pointers(set, most);
    while (done && (id = PyIter_Next(each)) != NULL) {
        void *pointer = PyLong_AsVoidPtr(id);
        Py_DECREF(id);
        if (pointer != NULL) add_pointer(set, pointer);
    }
    Py_XDECREF(each);
    if (done && !PyErr_Occurred()) return 1;
    if (done) free_pointers(set);
    return 0;
}
