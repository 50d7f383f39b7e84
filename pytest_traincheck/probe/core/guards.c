/* `unseen` and `quiet`, as in `context.py`: between two of their instructions no signal handler can run. */

#include "core.h"

PyTypeObject *UnseenType, *QuietType;

static PyObject *call_exit(PyObject *guard)
{
    return PyObject_CallMethodObjArgs(guard, name___exit__, Py_None, Py_None, Py_None, NULL);
}

/* A guard that has been entered, a new reference. */
static PyObject *entered(PyObject *kind)
{
    PyObject *guard = PyObject_CallNoArgs(kind);
    PyObject *done = guard == NULL ? NULL : PyObject_CallMethodObjArgs(guard, name___enter__, NULL);
    if (done == NULL) {
        Py_CLEAR(guard);
    }
    Py_XDECREF(done);
    return guard;
}

/* unseen */

typedef struct {
    PyObject_HEAD
    PyObject *recorder, *where, *grad, *function;
} Unseen;

static PyObject *unseen_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *recorder, *where;
    Unseen *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO", &recorder, &where)) return NULL;
    self = (Unseen *)PyType_GenericAlloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(recorder);
    self->recorder = recorder;
    Py_INCREF(where);
    self->where = where;
    self->grad = ask(&torch.grad_enabled);
    if (self->grad == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *unseen_enter(Unseen *self, PyObject *nothing)
{
    (void)nothing;
    Py_CLEAR(self->function);
    self->function = entered(torch.guards[DISABLED_FUNCTIONS]);
    if (self->function == NULL) return NULL;
    Py_RETURN_NONE;
}

static PyObject *unseen_exit(Unseen *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *done = self->function == NULL ? NULL : call_exit(self->function);
    if (self->function != NULL && done == NULL) return NULL;
    Py_XDECREF(done);
    if (count == 3 && given[1] != Py_None) {
        PyObject *state = PyObject_GetAttr(self->recorder, name_threads);
        done = state == NULL ? NULL
                             : PyObject_CallMethodObjArgs(self->recorder, name_abandon, state, Py_None, self->grad,
                                                          self->where, given[1], NULL);
        Py_XDECREF(state);
        if (done == NULL) return NULL;
        Py_DECREF(done);
    }
    Py_RETURN_TRUE;
}

static int unseen_traverse(Unseen *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->recorder);
    return 0;
}

static int unseen_clear(Unseen *self)
{
    Py_CLEAR(self->recorder);
    Py_CLEAR(self->where);
    Py_CLEAR(self->grad);
    Py_CLEAR(self->function);
    return 0;
}

static void unseen_dealloc(Unseen *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    unseen_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef unseen_methods[] = {
    {"__enter__", (PyCFunction)unseen_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))unseen_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot unseen_slots[] = {
    {Py_tp_doc, "A place for the probe's own work that reads and runs nothing."},
    {Py_tp_new, unseen_new},
    {Py_tp_dealloc, unseen_dealloc},
    {Py_tp_traverse, unseen_traverse},
    {Py_tp_clear, unseen_clear},
    {Py_tp_methods, unseen_methods},
    {0, NULL},
};

static PyType_Spec unseen_spec = {
    "pytest_traincheck.probe.core._core.unseen", sizeof(Unseen), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    unseen_slots,
};

/* quiet */

typedef struct {
    PyObject_HEAD
    ThreadState *state;
    PyObject *grad;
    PyObject *sync_mode; /* what torch does where a device is waited for, if that is more than nothing */
    Py_ssize_t before;
    int profiled;
} Quiet;

static PyObject *quiet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *state;
    Quiet *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!", ThreadStateType, &state)) return NULL;
    self = (Quiet *)PyType_GenericAlloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(state);
    self->state = (ThreadState *)state;
    self->before = PyList_Size(self->state->guards);
    return (PyObject *)self;
}

/* Calls a function with one argument. */
static int tell(PyObject *function, PyObject *given)
{
    PyObject *done = PyObject_CallFunctionObjArgs(function, given, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* A program may have torch warn, or raise, where a device is waited for. */
static int silence_waits(Quiet *self)
{
    PyObject *mode, *none;
    int done;
    if (torch.sync_mode == NULL || torch.set_sync_mode == NULL) return 0;
    mode = PyObject_CallNoArgs(torch.sync_mode);
    if (mode == NULL) return -1;
    if (PyLong_AsLong(mode) == 0) {
        Py_DECREF(mode);
        return 0;
    }
    Py_XDECREF(self->sync_mode);
    self->sync_mode = mode;
    none = PyLong_FromLong(0);
    done = none == NULL ? -1 : tell(torch.set_sync_mode, none);
    Py_XDECREF(none);
    return done;
}

static PyObject *quiet_enter(Quiet *self, PyObject *nothing)
{
    PyObject *profiled;
    int index;
    (void)nothing;
    self->state->busy = 1;
    Py_XDECREF(self->grad);
    self->grad = ask(&torch.grad_enabled);
    if (self->grad == NULL || tell(torch.set_grad, Py_False) < 0) return NULL;
    profiled = ask(&torch.profiling);
    if (profiled == NULL) return NULL;
    self->profiled = profiled == Py_True;
    Py_DECREF(profiled);
    if (self->profiled && tell(torch.record_functions, Py_False) < 0) return NULL;
    if (silence_waits(self) < 0) return NULL;
    for (index = 0; index < GUARDS; index++) {
        PyObject *guard = entered(torch.guards[index]);
        if (guard == NULL || PyList_Append(self->state->guards, guard) < 0) {
            Py_XDECREF(guard);
            return NULL;
        }
        Py_DECREF(guard);
    }
    Py_RETURN_NONE;
}

static PyObject *quiet_exit(Quiet *self, PyObject *const *given, Py_ssize_t count)
{
    PyObject *guards = self->state->guards;
    Py_ssize_t last;
    (void)given, (void)count;
    for (last = PyList_Size(guards) - 1; last >= self->before; last--) {
        PyObject *done, *guard = PyList_GetItem(guards, last);
        Py_INCREF(guard);
        if (PyList_SetSlice(guards, last, last + 1, NULL) < 0) {
            Py_DECREF(guard);
            return NULL;
        }
        done = call_exit(guard);
        Py_DECREF(guard);
        Py_XDECREF(done);
        if (done == NULL) return NULL;
    }
    if (self->sync_mode != NULL && tell(torch.set_sync_mode, self->sync_mode) < 0) return NULL;
    Py_CLEAR(self->sync_mode);
    if (self->profiled && tell(torch.record_functions, Py_True) < 0) return NULL;
    if (self->grad != NULL && tell(torch.set_grad, self->grad) < 0) return NULL;
    self->state->busy = 0;
    Py_RETURN_NONE;
}

static int quiet_traverse(Quiet *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->state);
    return 0;
}

static int quiet_clear(Quiet *self)
{
    Py_CLEAR(self->state);
    Py_CLEAR(self->grad);
    Py_CLEAR(self->sync_mode);
    return 0;
}

static void quiet_dealloc(Quiet *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    quiet_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* What a function of torch's returns for one argument, under `quiet(state)`; NULL with or without an exception. */
PyObject *quietly(ThreadState *state, PyObject *function, PyObject *given)
{
    PyObject *guard = PyObject_CallFunctionObjArgs((PyObject *)QuietType, (PyObject *)state, NULL), *found = NULL, *done;
    if (guard == NULL) return NULL;
    done = quiet_enter((Quiet *)guard, NULL);
    if (done != NULL) found = PyObject_CallFunctionObjArgs(function, given, NULL);
    Py_XDECREF(done);
    PyErr_Clear(); /* it is left in any case, and without an exception */
    done = quiet_exit((Quiet *)guard, NULL, 0);
    if (done == NULL) Py_CLEAR(found);
    Py_XDECREF(done);
    Py_DECREF(guard);
    return found;
}

static PyMethodDef quiet_methods[] = {
    {"__enter__", (PyCFunction)quiet_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))quiet_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot quiet_slots[] = {
    {Py_tp_doc, "The probe's own tensor work: no gradients, no autocast, none of the user's modes."},
    {Py_tp_new, quiet_new},
    {Py_tp_dealloc, quiet_dealloc},
    {Py_tp_traverse, quiet_traverse},
    {Py_tp_clear, quiet_clear},
    {Py_tp_methods, quiet_methods},
    {0, NULL},
};

static PyType_Spec quiet_spec = {
    "pytest_traincheck.probe.core._core.quiet", sizeof(Quiet), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, quiet_slots,
};

int add_guards(PyObject *module)
{
    UnseenType = make_type(module, &unseen_spec);
    QuietType = UnseenType == NULL ? NULL : make_type(module, &quiet_spec);
    return QuietType == NULL ? -1 : 0;
}
