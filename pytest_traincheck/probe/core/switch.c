/* Exchanging what many observed functions consist of at once, as `InPlace` and `BuiltIn` do it one by one: where steps are
 * left out that is done twice for each that is observed. */

#include "core.h"

/* A function of Python's: the function, its own code, and the one that is observed. */
static int exchange_code(PyObject *plan, int observed)
{
    PyObject *function = PyTuple_GetItem(plan, 0), *now;
    if (!observed) {
        now = PyObject_GetAttr(function, name___code__);
        Py_XDECREF(now); /* the function holds it */
        if (now == NULL) return -1;
        if (now != PyTuple_GetItem(plan, 2)) return 0;
    }
    return PyObject_SetAttr(function, name___code__, PyTuple_GetItem(plan, observed ? 2 : 1)) < 0 ? -1 : 1;
}

/* A built-in function: of each of its fields the address, what it holds, and what it holds while it is observed. */
static int exchange_fields(PyObject *plan, int observed)
{
    Py_ssize_t index, count = PyTuple_Size(plan) / 3;
    for (index = 0; !observed && index < count; index++) {
        void **field = PyLong_AsVoidPtr(PyTuple_GetItem(plan, 3 * index));
        if (*field != PyLong_AsVoidPtr(PyTuple_GetItem(plan, 3 * index + 2))) return 0;
    }
    for (index = 0; index < count; index++) {
        Py_ssize_t place = 3 * (observed ? index : count - 1 - index);
        void **field = PyLong_AsVoidPtr(PyTuple_GetItem(plan, place));
        *field = PyLong_AsVoidPtr(PyTuple_GetItem(plan, place + (observed ? 2 : 1)));
    }
    return 1;
}

/* `exchange(plans, observed)`: a list that says of each whether it was done; not where a function that is to be given back
 * is no more as it was left. */
PyObject *exchange(PyObject *module, PyObject *given)
{
    PyObject *plans, *done;
    Py_ssize_t index, count;
    int observed;
    (void)module;
    if (!PyArg_ParseTuple(given, "O!p", &PyList_Type, &plans, &observed)) return NULL;
    count = PyList_Size(plans);
    done = PyList_New(count);
    for (index = 0; done != NULL && index < count; index++) {
        PyObject *plan = PyList_GetItem(plans, index), *answer;
        int found;
        if (!PyTuple_CheckExact(plan) || PyTuple_Size(plan) < 3) {
            PyErr_SetString(PyExc_TypeError, "a plan is a tuple of three things or more");
            found = -1;
        } else if (PyLong_CheckExact(PyTuple_GetItem(plan, 0))) {
            found = exchange_fields(plan, observed);
        } else {
            found = exchange_code(plan, observed);
        }
        if (found < 0) {
            Py_CLEAR(done);
            break;
        }
        answer = found ? Py_True : Py_False;
        Py_INCREF(answer);
        PyList_SetItem(done, index, answer);
    }
    return done;
}
