/* `Fields`, `Place` and `Emit`: what `Var` and `Slot` of `variable.py` consist of, and what writes changes. */

#include "core.h"

PyTypeObject *VarType, *SlotType, *EmitType;

#define NUMBER(type, name) {#name, T_LONGLONG, offsetof(type, name), 0, NULL}
#define OBJECT(type, name) {#name, T_OBJECT, offsetof(type, name), 0, NULL}

static PyObject *none_in(PyObject *self, PyObject **const *places, int count)
{
    int index;
    if (self == NULL) return NULL;
    for (index = 0; index < count; index++) {
        Py_INCREF(Py_None);
        *places[index] = Py_None;
    }
    return self;
}

static void ended(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* Fields of a Var */

#define VAR(do) do(kind) do(name) do(first) do(sample) do(elements) do(origin)

static PyObject *var_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Var *self = (Var *)PyType_GenericAlloc(type, 0);
    (void)args, (void)kwargs;
    if (self == NULL) return NULL;
#define PLACE(field) &self->field,
    {
        PyObject **const places[] = {VAR(PLACE)};
        return none_in((PyObject *)self, places, sizeof places / sizeof *places);
    }
}

static int var_traverse(Var *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
#define VISIT(field) Py_VISIT(self->field);
    VAR(VISIT)
    return 0;
}

static int var_clear(Var *self)
{
#define CLEAR(field) Py_CLEAR(self->field);
    VAR(CLEAR)
    return 0;
}

static void var_dealloc(Var *self)
{
    PyObject_GC_UnTrack(self);
    var_clear(self);
    ended((PyObject *)self);
}

static PyMemberDef var_members[] = {
    OBJECT(Var, kind), OBJECT(Var, name), OBJECT(Var, first), OBJECT(Var, sample), OBJECT(Var, elements),
    OBJECT(Var, origin), NUMBER(Var, root), NUMBER(Var, opt), NUMBER(Var, id), NUMBER(Var, state), NUMBER(Var, key),
    NUMBER(Var, version), NUMBER(Var, pointer), NUMBER(Var, size), NUMBER(Var, drifts),
    {"digest", T_ULONGLONG, offsetof(Var, digest), 0, NULL}, {"settled", T_ULONGLONG, offsetof(Var, settled), 0, NULL},
    {"volatile", T_BOOL, offsetof(Var, another), 0, NULL}, {NULL, 0, 0, 0, NULL},
};

static PyType_Slot var_slots[] = {
    {Py_tp_doc, "What is remembered of one variable."},
    {Py_tp_new, var_new},
    {Py_tp_dealloc, var_dealloc},
    {Py_tp_traverse, var_traverse},
    {Py_tp_clear, var_clear},
    {Py_tp_members, var_members},
    {0, NULL},
};

static PyType_Spec var_spec = {
    "pytest_traincheck.probe.core._core.Fields", sizeof(Var), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, var_slots,
};

/* Fields of a Slot */

#define SLOT(do) do(owner) do(key) do(var) do(grad) do(flag)

static PyObject *slot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Slot *self = (Slot *)PyType_GenericAlloc(type, 0);
    (void)args, (void)kwargs;
    if (self == NULL) return NULL;
    {
        PyObject **const places[] = {SLOT(PLACE)};
        return none_in((PyObject *)self, places, sizeof places / sizeof *places);
    }
}

static int slot_traverse(Slot *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    SLOT(VISIT)
    return 0;
}

static int slot_clear(Slot *self)
{
    SLOT(CLEAR)
    return 0;
}

static void slot_dealloc(Slot *self)
{
    PyObject_GC_UnTrack(self);
    slot_clear(self);
    ended((PyObject *)self);
}

static PyMemberDef slot_members[] = {
    {"_owner", T_OBJECT, offsetof(Slot, owner), 0, NULL}, {"_key", T_OBJECT, offsetof(Slot, key), 0, NULL},
    {"_parameter", T_BOOL, offsetof(Slot, parameter), 0, NULL}, {"_sharded", T_BOOL, offsetof(Slot, sharded), 0, NULL},
    OBJECT(Slot, var), OBJECT(Slot, grad), OBJECT(Slot, flag), {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slot_slots[] = {
    {Py_tp_doc, "A place that holds a parameter or buffer."},
    {Py_tp_new, slot_new},
    {Py_tp_dealloc, slot_dealloc},
    {Py_tp_traverse, slot_traverse},
    {Py_tp_clear, slot_clear},
    {Py_tp_members, slot_members},
    {0, NULL},
};

static PyType_Spec slot_spec = {
    "pytest_traincheck.probe.core._core.Place", sizeof(Slot), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slot_slots,
};

/* `Emit(rows, clock, thread, seq, ctx, src, outside)`, called with var, old state, new state, digest and value: writes a
 * change. With `outside`, which is None or gives context and line, these are asked for with the first one. */

static PyObject *emit_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *rows, *clock, *outside;
    long long thread, seq, ctx, src;
    Emit *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OLLLLO", RowsType, &rows, &clock, &thread, &seq, &ctx, &src, &outside)) return NULL;
    self = (Emit *)PyType_GenericAlloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(rows), self->rows = (Rows *)rows;
    Py_INCREF(clock), self->clock = clock;
    if (outside != Py_None) Py_INCREF(outside), self->outside = outside;
    self->thread = thread, self->seq = seq, self->ctx = ctx, self->src = src;
    return (PyObject *)self;
}

static int find_outside(Emit *self)
{
    PyObject *outside = self->outside, *found = PyObject_CallNoArgs(outside);
    int done = found != NULL && PyArg_ParseTuple(found, "LL", &self->ctx, &self->src);
    Py_XDECREF(found);
    if (!done) return -1;
    if (self->outside != NULL) {
        self->outside = NULL;
        Py_DECREF(outside);
    }
    return 0;
}

static PyObject *emit_call(Emit *self, PyObject *args, PyObject *kwargs)
{
    long long subject, old, now;
    unsigned long long digest;
    double value;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "LLLKd", &subject, &old, &now, &digest, &value)) return NULL;
    if (self->outside != NULL && find_outside(self) < 0) return NULL;
    if (write_change(self, subject, old, now, digest, value) < 0) return NULL;
    Py_RETURN_NONE;
}

static int emit_traverse(Emit *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->rows);
    Py_VISIT(self->clock);
    Py_VISIT(self->outside);
    return 0;
}

static int emit_clear(Emit *self)
{
    Py_CLEAR(self->outside); /* what is written to stays until the end, and is in no cycle by it */
    return 0;
}

static void emit_dealloc(Emit *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->rows);
    Py_XDECREF(self->clock);
    Py_XDECREF(self->outside);
    ended((PyObject *)self);
}

static PyType_Slot emit_slots[] = {
    {Py_tp_doc, "Writes changes that happened in one call."},
    {Py_tp_new, emit_new},
    {Py_tp_call, emit_call},
    {Py_tp_dealloc, emit_dealloc},
    {Py_tp_traverse, emit_traverse},
    {Py_tp_clear, emit_clear},
    {0, NULL},
};

static PyType_Spec emit_spec = {
    "pytest_traincheck.probe.core._core.Emit", sizeof(Emit), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, emit_slots,
};

/* Whether an object is of a class that derives from one of the core's; the last one that did is kept. */
static int derives(PyObject *object, PyTypeObject *from, PyTypeObject **last)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == *last) return 1;
    if (!PyObject_TypeCheck(object, from)) return 0;
    Py_INCREF(type);
    Py_XDECREF(*last);
    *last = type;
    return 1;
}

int is_var(PyObject *object)
{
    static PyTypeObject *last;
    return derives(object, VarType, &last);
}

int is_slot(PyObject *object)
{
    static PyTypeObject *last;
    return derives(object, SlotType, &last);
}

int add_fields(PyObject *module)
{
    VarType = make_type(module, &var_spec);
    SlotType = VarType == NULL ? NULL : make_type(module, &slot_spec);
    EmitType = SlotType == NULL ? NULL : make_type(module, &emit_spec);
    return EmitType == NULL ? -1 : 0;
}
