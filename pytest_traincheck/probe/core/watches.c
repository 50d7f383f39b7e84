/* Functions of which in most calls, or in most behind the first steps, there is nothing to tell: those that `watch` of
 * `families/base.py` observes, which leave no row of their own, and families that say `when`. */

#include "core.h"

typedef PyObject *(*Fast)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* When there is nothing to tell, in the order of `base.py`. */
enum { MEASURED, AVERAGED, ALONE, FETCHED };

static int has_nothing_to_tell(const Hook *self, Core *core)
{
    PyObject *steps;
    switch (self->which) {
    case MEASURED:
        return !core->sketches->wanted && !core->measures->early &&
               !core->measures->wanted;
    case AVERAGED:
        steps = attribute((PyObject *)core->by_hand, name__steps);
        Py_XDECREF(steps);
        return steps != NULL && PyLong_CheckExact(steps) && whole((PyObject *)core->by_hand, name__steps, 1) == 0 &&
               !core->measures->early;
    case FETCHED:
        return !core->measures->wanted && !core->measures->fetches;
    default:
        return may_read_gradients(core, 1);
    }
}

static PyObject *watch_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded, nothing;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    nothing = core != NULL && has_nothing_to_tell(self, core);
    Py_XDECREF(core);
    PyErr_Clear();
    if (nothing) Py_RETURN_NONE;
    return in_python(self->enter, given, count, names);
}

static PyMethodDef enters = {"enter", (PyCFunction)(void (*)(void))watch_enter, METH_FASTCALL | METH_KEYWORDS, NULL};

/* `watch_hook(probe, when, enter)` */
PyObject *watch_hook(PyObject *module, PyObject *given)
{
    PyObject *probe, *enter, *made;
    Hook *self;
    int when;
    (void)module;
    if (!PyArg_ParseTuple(given, "OiO", &probe, &when, &enter)) return NULL;
    self = new_hook(probe, enter, Py_None);
    if (self == NULL) return NULL;
    self->which = when;
    made = PyCFunction_NewEx(&enters, (PyObject *)self, NULL);
    Py_DECREF(self);
    return made;
}

/* Functions that are left alone for some steps */

static PyObject *hushed_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    if (self->probe->hushed) Py_RETURN_NONE;
    if (self->which) {
        Fast fast = (Fast)(void (*)(void))PyCFunction_GetFunction(self->enter);
        return fast(PyCFunction_GetSelf(self->enter), given, count, names);
    }
    return in_python(self->enter, given, count, names);
}

static PyMethodDef hushes = {"enter", (PyCFunction)(void (*)(void))hushed_enter, METH_FASTCALL | METH_KEYWORDS, NULL};

/* `unless_hushed(patches, enter)`: a hook that is told of nothing while `patches` are hushed. */
PyObject *unless_hushed(PyObject *module, PyObject *given)
{
    PyObject *patches, *enter, *made;
    Hook *self;
    (void)module;
    if (!PyArg_ParseTuple(given, "OO", &patches, &enter)) return NULL;
    self = new_hook(patches, enter, Py_None);
    if (self == NULL) return NULL;
    self->which = PyCFunction_Check(enter) && PyCFunction_GetFlags(enter) == (METH_FASTCALL | METH_KEYWORDS);
    made = PyCFunction_NewEx(&hushes, (PyObject *)self, NULL);
    Py_DECREF(self);
    return made;
}
