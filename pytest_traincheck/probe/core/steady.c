/* What a part of a training step asks before it takes a short way: whether steps are neither measured nor left out any
 * more, so that there is nothing to do but to look and to record, and at a few places to tell Python, which follows what
 * training is given. */

#include "core.h"

/* The probe's own objects */

PyObject *attribute(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_GetAttr(object, name);
    if (found == NULL) PyErr_Clear();
    return found;
}

/* An attribute that is a whole number, or `missing`. */
long long whole(PyObject *object, PyObject *name, long long missing)
{
    PyObject *found = PyObject_GetAttr(object, name);
    long long number = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(found);
    if (number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return missing;
    }
    return number;
}

/* What is known of an object in a table by its `id`, as `OptimizerInfo` and `ModuleInfo`: a new reference, or NULL. */
PyObject *known_of(PyObject *infos, PyObject *object)
{
    PyObject *ref, *key = PyLong_FromVoidPtr(object);
    PyObject *info = key == NULL || infos == NULL ? NULL : PyDict_GetItemWithError(infos, key);
    int same;
    Py_XDECREF(key);
    ref = info == NULL ? NULL : attribute(info, name_ref);
    same = ref != NULL && points_to(ref, object); /* the caller holds it */
    Py_XDECREF(ref);
    PyErr_Clear();
    if (!same) return NULL;
    Py_INCREF(info);
    return info;
}

/* The API that calls of an object of this class have had: a borrowed reference, or NULL. */
PyObject *learnt(PyObject *apis, PyObject *object)
{
    PyObject *key = PyLong_FromVoidPtr(Py_TYPE(object));
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(apis, key);
    Py_XDECREF(key);
    if (found == NULL) PyErr_Clear();
    return found == NULL ? NULL : PyTuple_GetItem(found, 1);
}

/* The class is kept, so that no other one gets its `id`. */
void learn(PyObject *apis, PyObject *object, PyObject *call)
{
    PyObject *key, *entry;
    if (Py_TYPE(call) != CallType) return;
    key = PyLong_FromVoidPtr(Py_TYPE(object));
    entry = key == NULL ? NULL : PyTuple_Pack(2, (PyObject *)Py_TYPE(object), ((Call *)call)->api);
    if (entry != NULL) PyDict_SetItem(apis, key, entry);
    Py_XDECREF(entry);
    Py_XDECREF(key);
    PyErr_Clear();
}

/* The state of things */

int is_unset(const PyObject *field)
{
    return field == NULL || field == Py_None;
}

/* What decides which steps are observed; NULL where every one is. */
Switches *sampling_of(const Switches *recorder)
{
    return is_unset(recorder->sampling) || !PyObject_TypeCheck(recorder->sampling, SwitchesType)
               ? NULL : (Switches *)recorder->sampling;
}

static int is_awake(const Switches *recorder)
{
    const Switches *sampling = sampling_of(recorder);
    return sampling == NULL ? is_unset(recorder->sampling) : !sampling->asleep && sampling->entries_left == 0;
}

/* As the opposite of `unobservable`; no, where that is not sure. */
int is_observable(void)
{
    PyObject *started = PyDict_GetItemWithError(torch.cuda, torch.started);
    int free = asked(&torch.transforming) == 0;
    if (free && started == Py_True && torch.capturing != NULL) {
        PyObject *capturing = PyObject_CallNoArgs(torch.capturing);
        free = capturing == Py_False;
        Py_XDECREF(capturing);
    } else if (started != Py_False) {
        free = 0;
    }
    PyErr_Clear();
    return free;
}

int is_steady(Core *core, ThreadState *state)
{
    return state->thread && !core->measures->wanted && !core->measures->early &&
           !core->sketches->wanted && core->sketches->calls_left == 0 && !core->by_hand->waits &&
           is_unset(core->recorder->limit) && is_awake(core->recorder) && is_observable() && undisturbed();
}

/* Whether this thread is within a backward pass; also where that is not known. */
int within_backward(void)
{
    PyObject *task = ask(&torch.graph_task);
    int outside = task != NULL && PyLong_AsLongLong(task) == -1 && !PyErr_Occurred();
    Py_XDECREF(task);
    PyErr_Clear();
    return !outside;
}

/* As `Variables.slots`: a new reference, or NULL where Python has to make the list. */
PyObject *slots_of(Core *core)
{
    PyObject *slots = core->variables->every;
    if (slots == NULL || !PyList_CheckExact(slots)) return NULL;
    Py_INCREF(slots);
    return slots;
}

int is_step(const Call *call)
{
    PyObject *type = Py_TYPE(call) == CallType ? attribute(call->api, name_type) : NULL;
    int found = type != NULL && PyUnicode_CheckExact(type) && PyUnicode_CompareWithASCIIString(type, "optimizer") == 0;
    Py_XDECREF(type);
    return found;
}

/* Whether what is called now is called by an optimizer's step itself, or by its closure; it may be one that was left by an
 * exception, which Python finds out. */
int is_in_step(const ThreadState *state)
{
    Py_ssize_t depth = state->in_step ? PyList_Size(state->stack) : 0;
    return state->in_step && (depth < 1 || is_step((Call *)PyList_GetItem(state->stack, depth - 1)));
}

/* Drops a call that is open, and whatever was opened within it. */
void forget(ThreadState *state, const Call *call)
{
    PyObject *kind, *error, *traceback;
    Py_ssize_t index, depth = PyList_Size(state->stack);
    PyErr_Fetch(&kind, &error, &traceback);
    for (index = depth - 1; index >= 0; index--)
        if (PyList_GetItem(state->stack, index) == (PyObject *)call) PyList_SetSlice(state->stack, index, depth, NULL);
    PyErr_Restore(kind, error, traceback);
}

/* Tells Python of a call that has been opened, where steps are followed; `given`: what the method `name` takes beside it.
 * No, with an exception: one of the user's, such as a signal handler raises. Then the call is as if it had not been. */
int follow(const Core *core, PyObject *name, ThreadState *state, Call *call, PyObject *given)
{
    PyObject *told;
    if (!core->following->wanted) return 1;
    Py_INCREF(call);
    told = PyObject_CallMethodObjArgs((PyObject *)core->following, name, state, call, given, NULL);
    if (told == NULL) forget(state, call);
    Py_XDECREF(told);
    Py_DECREF(call);
    return told != NULL;
}

/* What writes changes that happened in a call; it is no object of Python's, and holds nothing. */
Emit emit_in(Core *core, ThreadState *state, const Call *call)
{
    Emit emit;
    memset(&emit, 0, sizeof emit);
    emit.rows = core->rows;
    emit.clock = core->clock;
    emit.thread = state->thread;
    emit.seq = call->seq;
    emit.ctx = call->ctx;
    emit.src = call->src;
    return emit;
}

/* Whether calls like this one have been looked at so often that none is any more, as `Given.wants`. */
int was_looked_at(Core *core, PyObject *number, long long mod, int training)
{
    PyObject *left, *grad, *key, *found;
    int done;
    if (core->given_to_models->calls == 0) return 1;
    left = attribute((PyObject *)core->given_to_models, name__left);
    grad = ask(&torch.grad_enabled);
    key = grad == NULL ? NULL : Py_BuildValue("OLiO", number, mod, training, grad);
    found = key == NULL || left == NULL ? NULL : PyDict_GetItemWithError(left, key);
    done = found != NULL && PyLong_AsLongLong(found) == 0;
    Py_XDECREF(key);
    Py_XDECREF(grad);
    Py_XDECREF(left);
    PyErr_Clear();
    return done;
}
