/* Functions that leave no row of their own, as `watch` of `families/base.py` observes them: in most calls behind the first
 * steps there is nothing to tell. */

#include "core.h"

/* When there is nothing to tell, in the order of `base.py`. */
enum { MEASURED, AVERAGED, ALONE };

static int has_nothing_to_tell(int when, Core *core)
{
    PyObject *steps;
    switch (when) {
    case MEASURED:
        return truth(core->sketches, name_wanted) == 0 && truth(core->measures, name_early) == 0 &&
               truth(core->measures, name_wanted) == 0;
    case AVERAGED:
        steps = attribute(core->by_hand, name__steps);
        Py_XDECREF(steps);
        return steps != NULL && PyLong_CheckExact(steps) && whole(core->by_hand, name__steps, 1) == 0 &&
               truth(core->measures, name_early) == 0;
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
    nothing = core != NULL && has_nothing_to_tell(self->which, core);
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
