/* `Call` and `ThreadState`: what `context.py` has as classes, with the same attributes. */

#include "core.h"

PyTypeObject *CallType, *ThreadStateType;

#define NUMBER(type, name) {#name, T_LONGLONG, offsetof(type, name), 0, NULL}
#define OBJECT(type, name) {#name, T_OBJECT, offsetof(type, name), 0, NULL}

PyTypeObject *make_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL) return NULL;
    Py_INCREF(type);
    if (PyModule_AddObject(module, strrchr(spec->name, '.') + 1, type) < 0) {
        Py_DECREF(type);
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

int truth(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    int answer = found == Py_True ? 1 : found == Py_False ? 0 : -1;
    if (found == NULL) PyErr_Clear();
    Py_XDECREF(found);
    return answer;
}

void keep(PyObject **place, PyObject *value)
{
    PyObject *before = *place;
    Py_INCREF(value);
    *place = value;
    Py_XDECREF(before);
}

/* Call */

static int call_traverse(Call *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->api);
    Py_VISIT(self->family);
    Py_VISIT(self->given);
    Py_VISIT(self->kwargs);
    return 0;
}

static int call_clear(Call *self)
{
    Py_CLEAR(self->api);
    Py_CLEAR(self->family);
    Py_CLEAR(self->given);
    Py_CLEAR(self->kwargs);
    return 0;
}

static void call_dealloc(Call *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    call_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

Call *new_call(void)
{
    Call *self = (Call *)PyType_GenericAlloc(CallType, 0);
    if (self == NULL) return NULL;
    keep(&self->family, Py_None);
    keep(&self->given, torch.nothing);
    keep(&self->kwargs, torch.no_kwargs);
    return self;
}

static PyObject *call_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *api;
    Call *self = new_call();
    (void)type, (void)kwargs;
    if (self == NULL) return NULL;
    if (!PyArg_ParseTuple(args, "LLOLLLLL", &self->seq, &self->parent, &api, &self->number, &self->ctx, &self->args,
                          &self->src, &self->mod)) {
        Py_DECREF(self);
        return NULL;
    }
    keep(&self->api, api);
    return (PyObject *)self;
}

static PyMemberDef call_members[] = {
    NUMBER(Call, seq), NUMBER(Call, parent), NUMBER(Call, number), NUMBER(Call, ctx), NUMBER(Call, args),
    NUMBER(Call, src), NUMBER(Call, mod), NUMBER(Call, opt), NUMBER(Call, flags), NUMBER(Call, opens),
    OBJECT(Call, api), OBJECT(Call, family), OBJECT(Call, given), OBJECT(Call, kwargs), {NULL, 0, 0, 0, NULL},
};

static PyType_Slot call_slots[] = {
    {Py_tp_doc, "A call that has begun and not ended."},
    {Py_tp_new, call_new},
    {Py_tp_dealloc, call_dealloc},
    {Py_tp_traverse, call_traverse},
    {Py_tp_clear, call_clear},
    {Py_tp_members, call_members},
    {0, NULL},
};

static PyType_Spec call_spec = {
    "pytest_traincheck.probe.core._core.Call", sizeof(Call), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, call_slots,
};

/* ThreadState */

static int state_traverse(ThreadState *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->stack);
    Py_VISIT(self->guards);
    Py_VISIT(self->closure);
    return 0;
}

static int state_clear(ThreadState *self)
{
    Py_CLEAR(self->stack);
    Py_CLEAR(self->guards);
    Py_CLEAR(self->closure);
    return 0;
}

static void state_dealloc(ThreadState *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    state_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *state_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    ThreadState *self = (ThreadState *)PyType_GenericAlloc(type, 0);
    (void)args, (void)kwargs;
    if (self == NULL) return NULL;
    keep(&self->closure, Py_None);
    self->stack = PyList_New(0);
    self->guards = PyList_New(0);
    if (self->stack == NULL || self->guards == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyMemberDef state_members[] = {
    {"stack", T_OBJECT, offsetof(ThreadState, stack), READONLY, NULL},
    {"guards", T_OBJECT, offsetof(ThreadState, guards), READONLY, NULL},
    {"busy", T_BOOL, offsetof(ThreadState, busy), 0, NULL},
    NUMBER(ThreadState, thread), NUMBER(ThreadState, modules), NUMBER(ThreadState, in_step),
    OBJECT(ThreadState, closure), {NULL, 0, 0, 0, NULL},
};

static PyType_Slot state_slots[] = {
    {Py_tp_doc, "Open calls of one thread."},
    {Py_tp_new, state_new},
    {Py_tp_dealloc, state_dealloc},
    {Py_tp_traverse, state_traverse},
    {Py_tp_clear, state_clear},
    {Py_tp_members, state_members},
    {0, NULL},
};

static PyType_Spec state_spec = {
    "pytest_traincheck.probe.core._core.ThreadState", sizeof(ThreadState), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    state_slots,
};

int add_objects(PyObject *module)
{
    CallType = make_type(module, &call_spec);
    ThreadStateType = make_type(module, &state_spec);
    return CallType == NULL || ThreadStateType == NULL ? -1 : 0;
}
