/* What holds on to what a hook needs: the probe, the functions of Python's that do whatever is unusual, and what is
 * particular to a kind of hook. */

#include "core.h"

static PyTypeObject *HookType;

#define EACH(do) \
    do(probe) do(enter) do(leave) do(api) do(family) do(asked) do(ended) do(apart) do(code) do(apis) do(number)

/* A new hook; what it does not need stays NULL. */
Hook *new_hook(PyObject *probe, PyObject *enter, PyObject *leave)
{
    Switches *switches = switches_of(probe);
    Hook *self = switches == NULL ? NULL : (Hook *)PyType_GenericAlloc(HookType, 0);
    if (self == NULL) return NULL;
    Py_INCREF(probe), self->probe = switches;
    Py_INCREF(enter), self->enter = enter;
    Py_INCREF(leave), self->leave = leave;
    return self;
}

/* A function for each of `count` methods, as a tuple; takes the reference to the hook, which they hold. */
PyObject *functions_of(Hook *hook, PyMethodDef *methods, Py_ssize_t count)
{
    PyObject *made = PyTuple_New(count);
    Py_ssize_t index;
    for (index = 0; made != NULL && index < count; index++) {
        PyObject *function = PyCFunction_NewEx(&methods[index], (PyObject *)hook, NULL);
        if (function == NULL || PyTuple_SetItem(made, index, function) < 0) Py_CLEAR(made);
    }
    Py_DECREF(hook);
    return made;
}

static int hook_traverse(Hook *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
#define VISIT(field) Py_VISIT(self->field);
    EACH(VISIT)
    return 0;
}

/* It is not cleared: code that is on its way out may still call it, and the cycle ends at the probe. */
static void hook_dealloc(Hook *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
#define FREE(field) Py_XDECREF(self->field);
    EACH(FREE)
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyType_Slot hook_slots[] = {
    {Py_tp_dealloc, hook_dealloc},
    {Py_tp_traverse, hook_traverse},
    {0, NULL},
};

static PyType_Spec hook_spec = {
    "pytest_traincheck.probe.core._core.Hook", sizeof(Hook), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, hook_slots,
};

int add_hook(PyObject *module)
{
    HookType = make_type(module, &hook_spec);
    return HookType == NULL ? -1 : 0;
}
