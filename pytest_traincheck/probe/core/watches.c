/* Functions that leave no row of their own, as `watch` of `families/base.py` observes them, and those that are `nested`, as
 * `observe` does: in most calls, or in most behind the first steps, there is nothing to tell. */

#include "core.h"

typedef PyObject *(*Fast)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* When there is nothing to tell, in the order of `base.py`. */
enum { MEASURED, AVERAGED, ALONE, INNER };

static int is_asleep(Core *core)
{
    const Switches *sampling = sampling_of(core->recorder);
    return sampling != NULL && sampling->asleep;
}

/* Whether the innermost open call of this thread is one of the same function. */
static int is_within_itself(const Hook *self, const ThreadState *state)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    PyObject *outer = depth > 0 ? PyList_GetItem(state->stack, depth - 1) : NULL;
    return outer != NULL && Py_TYPE(outer) == CallType && ((Call *)outer)->api == self->api;
}

/* Whether a module is told to be in the mode that it is in, as the opposite of `Train.is_rare`. */
int stays_as_it_is(Core *core, PyObject *const *given, Py_ssize_t count)
{
    Facts *info = count == 2 ? facts_of(core, given[0]) : NULL;
    int training = info == NULL ? -1 : is_training(given[0], info);
    Py_XDECREF((PyObject *)info);
    return training >= 0 && given[1] == (training ? Py_True : Py_False);
}

/* Whether a call of one that is `nested` is left out: another one has made it or, while the probe sleeps, it changes
 * nothing. */
int is_inner(const Hook *self, Core *core, const ThreadState *state, PyObject *const *given, Py_ssize_t count)
{
    return is_asleep(core) ? stays_as_it_is(core, given, count) : is_within_itself(self, state);
}

static int has_nothing_to_tell(const Hook *self, Core *core, const ThreadState *state, PyObject *const *given,
                               Py_ssize_t count)
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
    case ALONE:
        return may_read_gradients(core, 1);
    default:
        return is_inner(self, core, state, given, count);
    }
}

static PyObject *watch_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded, nothing;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    nothing = core != NULL && has_nothing_to_tell(self, core, state, given, count);
    Py_XDECREF(core);
    PyErr_Clear();
    if (nothing) Py_RETURN_NONE;
    return in_python(self->enter, given, count, names);
}

static PyMethodDef enters = {"enter", (PyCFunction)(void (*)(void))watch_enter, METH_FASTCALL | METH_KEYWORDS, NULL};

/* `watch_hook(probe, when, enter, api)`; only calls that lie within one another have an `api`. */
PyObject *watch_hook(PyObject *module, PyObject *given)
{
    PyObject *probe, *enter, *api = Py_None, *made;
    Hook *self;
    int when;
    (void)module;
    if (!PyArg_ParseTuple(given, "OiO|O", &probe, &when, &enter, &api)) return NULL;
    self = new_hook(probe, enter, Py_None);
    if (self == NULL) return NULL;
    HOLD(self, api, api);
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
