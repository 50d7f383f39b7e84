/* Functions that leave no row of their own, as `watch` of `families/base.py` observes them: in most calls behind the first
 * steps there is nothing to tell. */

#include "core.h"

/* When there is nothing to tell, in the order of `base.py`. */
enum { MEASURED, AVERAGED, ALONE };

typedef struct {
    PyObject_HEAD
    PyObject *probe, *enter;
    int when;
} Watch;

static PyTypeObject *WatchType;

static int has_nothing_to_tell(int when, Core *core)
{
    PyObject *leaves, *several, *steps;
    int alone;
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
        leaves = attribute(core->backwards, name__leaves);
        several = attribute(core->backwards, name__several);
        alone = leaves != NULL && several != NULL && PyDict_CheckExact(leaves) && PyDict_Size(leaves) > 0 &&
                reads_all(leaves, several);
        Py_XDECREF(leaves);
        Py_XDECREF(several);
        return alone;
    }
}

static PyObject *watch_enter(Watch *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded, nothing;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    nothing = core != NULL && has_nothing_to_tell(self->when, core);
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
    Watch *self;
    int when;
    (void)module;
    if (!PyArg_ParseTuple(given, "OiO", &probe, &when, &enter)) return NULL;
    self = (Watch *)PyType_GenericAlloc(WatchType, 0);
    if (self == NULL) return NULL;
    self->when = when;
    Py_INCREF(probe), self->probe = probe;
    Py_INCREF(enter), self->enter = enter;
    made = PyCFunction_NewEx(&enters, (PyObject *)self, NULL);
    Py_DECREF(self);
    return made;
}

static int watch_traverse(Watch *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->probe);
    Py_VISIT(self->enter);
    return 0;
}

/* It is not cleared: code that is on its way out may still call it, and the cycle ends at the probe. */
static void watch_dealloc(Watch *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->probe);
    Py_XDECREF(self->enter);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, watch_dealloc},
    {Py_tp_traverse, watch_traverse},
    {0, NULL},
};

static PyType_Spec spec = {
    "pytest_traincheck.probe.core._core.Watch", sizeof(Watch), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots,
};

int add_watches(PyObject *module)
{
    WatchType = make_type(module, &spec);
    return WatchType == NULL ? -1 : 0;
}
