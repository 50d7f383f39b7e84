/* `Core`: what the short ways of one `Recorder` share, as a type of Python's. */

#include "core.h"

PyTypeObject *CoreType;

static unsigned long long serials;

/* In the order in which `short_ways.py` hands them over. */
#define WITH_SWITCHES(each) \
    each(recorder) each(by_hand) each(sketches) each(measures) each(following) each(given_to_models) each(variables) \
    each(modules) each(backwards) each(optimizers) each(attributes)
#define PARTS(each) WITH_SWITCHES(each) each(evaluations)

static int is_state(PyObject *state, PyObject *call)
{
    return Py_TYPE(state) == ThreadStateType && (call == NULL || Py_TYPE(call) == CallType);
}

/* `begin(state, api, key, mod, frames)`: the open call, None where Python has to open it. */
static PyObject *core_begin(Core *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *number;
    Call *call;
    long long mod;
    int frames;
    if (count != 5 || !is_state(given[0], NULL) || !((ThreadState *)given[0])->thread) Py_RETURN_NONE;
    mod = PyLong_AsLongLong(given[3]);
    frames = (int)PyLong_AsLong(given[4]);
    if (PyErr_Occurred()) return NULL;
    number = number_of(self, given[1]);
    if (number == NULL) Py_RETURN_NONE;
    Py_INCREF(given[2]);
    call = begin(self, (ThreadState *)given[0], given[1], number, known_by_key(self->args, number, given[2]), frames, mod);
    if (call == NULL) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    Py_INCREF(call);
    return (PyObject *)call;
}

/* `end(state, call, result)`: whether the call is closed; else Python has to do it. */
static PyObject *core_end(Core *self, PyObject *const *given, Py_ssize_t count)
{
    int done = count == 3 && is_state(given[0], given[1]) && undisturbed() &&
               end(self, (ThreadState *)given[0], (Call *)given[1], given[2]) == DONE;
    return PyBool_FromLong(done);
}

/* `emit(clock, thread, seq, ctx, src, outside)`: what writes changes in a call, or outside every one. */
static PyObject *core_emit(Core *self, PyObject *args)
{
    PyObject *clock, *made, *all, *outside = Py_None;
    long long thread, seq, ctx, src;
    if (!PyArg_ParseTuple(args, "OLLLL|O", &clock, &thread, &seq, &ctx, &src, &outside)) return NULL;
    all = Py_BuildValue("OOLLLLO", (PyObject *)self->rows, clock, thread, seq, ctx, src, outside);
    made = all == NULL ? NULL : PyObject_CallObject((PyObject *)EmitType, all);
    Py_XDECREF(all);
    return made;
}

/* `Core(threads, clock, (apis, ctx, args, ret), (kinds, lines), infos, parts, rows)`; `parts`: the recorder, and what of it
 * is asked, in the order of `PARTS`. */
static PyObject *core_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *threads, *clock, *apis, *ctx, *arguments, *ret, *kinds, *lines, *infos, *parts, *rows;
    Py_ssize_t place = 0;
    Core *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO(O!O!O!O!)(O!O!)O!O!O!", &threads, &clock, &PyDict_Type, &apis, &PyDict_Type, &ctx,
                          &PyDict_Type, &arguments, &PyDict_Type, &ret, &PyDict_Type, &kinds, &PyDict_Type, &lines,
                          &PyDict_Type, &infos, &PyTuple_Type, &parts, RowsType, &rows))
        return NULL;
#define COUNT(field) +1
    if (PyTuple_Size(parts) != 0 PARTS(COUNT)) {
        PyErr_SetString(PyExc_TypeError, "parts of another recorder");
        return NULL;
    }
#define CHECK(field) if (switches_of(PyTuple_GetItem(parts, place++)) == NULL) return NULL;
    WITH_SWITCHES(CHECK)
    place = 0;
    self = (Core *)PyType_GenericAlloc(type, 0);
    if (self == NULL) return NULL;
    self->serial = ++serials;
#define KEEP(field, value) (Py_INCREF(value), self->field = (void *)(value))
    KEEP(threads, threads), KEEP(clock, clock), KEEP(apis, apis), KEEP(ctx, ctx), KEEP(args, arguments);
    KEEP(ret, ret), KEEP(kinds, kinds), KEEP(lines, lines), KEEP(infos, infos), KEEP(rows, rows);
#define KEEP_PART(field) KEEP(field, PyTuple_GetItem(parts, place)), place++;
    PARTS(KEEP_PART)
    self->plain_threads = PyObject_TypeCheck(threads, (PyTypeObject *)torch.local);
    return (PyObject *)self;
}

static PyObject *core_forget(Core *self, PyObject *nothing)
{
    (void)nothing;
    memset(self->codes, 0, sizeof self->codes);
    memset(self->places, 0, sizeof self->places);
    Py_RETURN_NONE;
}

#define EACH(do) \
    do(threads) do(clock) do(apis) do(ctx) do(args) do(ret) do(kinds) do(lines) do(infos) do(rows) PARTS(do)

static int core_traverse(Core *self, visitproc visit, void *arg)
{
    int place;
    Py_VISIT(Py_TYPE(self));
#define VISIT(field) Py_VISIT(self->field);
    EACH(VISIT)
    for (place = 0; place < MODULES; place++) Py_VISIT(self->known[place].facts);
    return 0;
}

/* Only when it is unreachable: nobody calls a short way with it any more. */
static int core_clear(Core *self)
{
#define CLEAR(field) Py_CLEAR(self->field);
    EACH(CLEAR)
    forget_facts(self);
    return 0;
}

static void core_dealloc(Core *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    core_clear(self);
    free_entries(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef core_methods[] = {
    {"begin", (PyCFunction)(void (*)(void))core_begin, METH_FASTCALL, "Open a call that is like an earlier one."},
    {"end", (PyCFunction)(void (*)(void))core_end, METH_FASTCALL, "Close a call that is like an earlier one."},
    {"emit", (PyCFunction)core_emit, METH_VARARGS, "What writes changes in a call."},
    {"forget", (PyCFunction)core_forget, METH_NOARGS, "Forget what was learnt of code: it is given back, or changed."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef core_members[] = {
    {"lookups", T_LONGLONG, offsetof(Core, lookups), READONLY, "How often arguments and results were looked up by key."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot core_slots[] = {
    {Py_tp_doc, "The short ways of one `Recorder`."},
    {Py_tp_new, core_new},
    {Py_tp_dealloc, core_dealloc},
    {Py_tp_traverse, core_traverse},
    {Py_tp_clear, core_clear},
    {Py_tp_methods, core_methods},
    {Py_tp_members, core_members},
    {0, NULL},
};

static PyType_Spec core_spec = {
    "pytest_traincheck.probe.core._core.Core", sizeof(Core), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, core_slots,
};

int add_core(PyObject *module)
{
    CoreType = make_type(module, &core_spec);
    return CoreType == NULL ? -1 : 0;
}
