/* What observed functions call when they begin and end: `families/base.py` and `module_calls.py`, as far as a call is
 * like one that has been before. A hook holds the two functions of Python's that do the rest. */

#include "core.h"

/* `api`, `measuring`, `own_frame` and `packed` are those of a function, `number` that of its `api` in the tables of the core
 * with this `serial`; `asked` is told of the calls of whole models. */

PyObject *in_python(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t index, others = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *result = NULL, *named = NULL, *args = PyTuple_New(count);
    if (args == NULL) return NULL;
    for (index = 0; index < count; index++) {
        Py_INCREF(given[index]);
        PyTuple_SetItem(args, index, given[index]);
    }
    if (others) {
        named = PyDict_New();
        if (named == NULL) goto done;
        for (index = 0; index < others; index++)
            if (PyDict_SetItem(named, PyTuple_GetItem(names, index), given[count + index]) < 0) goto done;
    }
    result = PyObject_Call(function, args, named);
done:
    Py_XDECREF(named);
    Py_DECREF(args);
    return result;
}

/* Whether the probe does more than to record calls at the moment, or nothing can be read without asking somebody. */
static int more_to_do(Core *core)
{
    return core->by_hand->waits || core->sketches->wanted || !undisturbed();
}

/* Functions */

#define MOST 32

/* The number of what a method descriptor is given: `self`, a tuple, and a dict or None. */
static long long flat_arguments_of(Core *core, PyObject *number, PyObject *const *given)
{
    PyObject *flat[MOST];
    Py_ssize_t index, count = PyTuple_Size(given[1]) + 1;
    if (count > MOST || (given[2] != Py_None && PyDict_Size(given[2]))) return -1;
    flat[0] = given[0];
    for (index = 1; index < count; index++) flat[index] = PyTuple_GetItem(given[1], index - 1);
    return arguments_of(core, number, flat, count, NULL, NULL);
}

static Call *function_begins(Hook *self, Core *core, ThreadState *state, PyObject *const *given, Py_ssize_t count,
                             PyObject *names)
{
    long long args;
    if (is_in_step(state) || !state->thread || more_to_do(core)) return NULL;
    if (self->measuring && core->measures->wanted) return NULL;
    if (self->serial != core->serial) {
        PyObject *number = number_of(core, self->api), *before = self->number;
        if (number == NULL) return NULL;
        Py_INCREF(number);
        self->number = number;
        self->serial = core->serial;
        Py_XDECREF(before);
    }
    args = self->packed ? flat_arguments_of(core, self->number, given)
                        : arguments_of(core, self->number, given, count, given + count, names);
    return begin(core, state, self->api, self->number, args, self->own_frame, 0);
}

static PyObject *function_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    if (core != NULL) {
        Py_ssize_t depth = PyList_Size(state->stack);
        Call *outer = depth > 0 ? (Call *)PyList_GetItem(state->stack, depth - 1) : NULL;
        Call *call = NULL;
        if (outer != NULL && Py_TYPE(outer) == CallType && outer->api == self->api && !is_in_step(state)) {
            Py_DECREF(core);
            Py_RETURN_NONE; /* a function within one of the same name is part of it */
        }
        if (outer == NULL || Py_TYPE(outer) == CallType)
            call = function_begins(self, core, state, given, count, names);
        Py_XINCREF(call);
        Py_DECREF(core);
        if (call != NULL) return (PyObject *)call;
    }
    PyErr_Clear();
    return in_python(self->enter, given, count, names);
}

static PyObject *function_leave(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    if (count == 2 && names == NULL && Py_TYPE(given[0]) == CallType) {
        Call *call = (Call *)given[0];
        Core *core = core_of(self->probe, &state, &recorded);
        int done = core != NULL && call->kwargs == torch.no_kwargs && !core->sketches->wanted &&
                   !(self->measuring && core->measures->wanted) && undisturbed() &&
                   end(core, state, call, given[1]) == DONE;
        Py_XDECREF(core);
        if (recorded < 0) return NULL;
        if (done) Py_RETURN_NONE;
    }
    PyErr_Clear();
    return in_python(self->leave, given, count, names);
}

/* Modules */

/* What is known of a module that is no wrapper: a new reference, or NULL. It may be part of no model, as a loss is; what a
 * compiler made of one has no number then, and is not recorded. */
static Facts *info_of(Core *core, PyObject *module)
{
    Facts *info = facts_of(core, module);
    if (info == NULL || is_unset(info->wrapper)) return info;
    Py_DECREF((PyObject *)info);
    return NULL;
}

/* `module.training`, where nothing but the module's own dictionary is asked for it; -1 elsewhere. */
int is_training(PyObject *module, const Facts *info)
{
    PyObject *entries, *found;
    if (!info->plainly_trained) return -1;
    entries = entries_in(module);
    found = entries == NULL ? NULL : PyDict_GetItemWithError(entries, name_training);
    Py_XDECREF(entries); /* the module holds it */
    return found == Py_True ? 1 : found == Py_False ? 0 : -1;
}

/* Whether a call of a whole model is none that is looked at because no gradients are recorded. */
static int is_plain_call(const Core *core)
{
    int recorded = asked(&torch.grad_enabled);
    return recorded == 1 || (recorded == 0 && core->recorder->evaluated);
}

/* As what `_open` does where values have moved, if nothing is to be seen of it. */
static int values_settled(Core *core)
{
    if (!core->recorder->values_moved || asked(&torch.grad_enabled) == 1) return 1;
    if (!nothing_changed(core, 1, 0)) return 0;
    core->recorder->values_moved = 0;
    return 1;
}

/* Tells of the line that a model is called from, where that is the first call from there without gradients. No, with an
 * exception of the user's. */
static int place_told(Hook *self, ThreadState *state, Call *call)
{
    PyObject *places, *src, *told = NULL;
    int known;
    places = attribute(self->asked, name__places);
    src = PyLong_FromLongLong(call->src);
    known = places != NULL && PySet_Check(places) && src != NULL ? PySet_Contains(places, src) : -1;
    Py_XDECREF(places);
    Py_XDECREF(src);
    PyErr_Clear();
    if (known == 1) return 1;
    Py_INCREF(call);
    told = PyObject_CallMethodObjArgs(self->asked, name_noticed, call, NULL);
    if (told == NULL) forget(state, call);
    Py_DECREF(call);
    Py_XDECREF(told);
    return told != NULL;
}

/* Whether a call of a whole model is like the ones before: names are settled, and nothing is asked about it beside. */
static int enters_as_before(Hook *self, Core *core, ThreadState *state, Facts *info, int training)
{
    PyObject *among;
    int settled;
    if (!is_plain_call(core) || within_backward() || !is_steady(core, state)) return 0;
    if (((Switches *)self->asked)->opened) return 0;
    among = is_unset(info->root) ? PyTuple_New(0) : PyTuple_Pack(1, info->root);
    settled = among != NULL && are_settled(core->modules, core->variables, among);
    Py_XDECREF(among);
    if (settled && !is_unset(info->root)) {
        PyObject *slots = attribute(info->root, name_slots);
        PyObject *number = is_unset(info->api) ? NULL : number_of_facts(core, info);
        settled = slots != NULL && PyList_CheckExact(slots) && number != NULL &&
                  (PyList_Size(slots) == 0 || was_looked_at(core, number, info->mod, training ? TRAINING : 0));
        Py_XDECREF(slots);
    }
    settled = settled && values_settled(core);
    PyErr_Clear();
    return settled;
}

static Call *module_begins(Hook *self, Core *core, ThreadState *state, PyObject *const *given, Py_ssize_t count,
                           PyObject *names)
{
    PyObject *number;
    Facts *info;
    Call *call = NULL;
    int training, entry = !state->modules;
    if (is_in_step(state) || !state->thread || more_to_do(core)) return NULL;
    info = info_of(core, given[0]);
    training = info == NULL ? -1 : is_training(given[0], info);
    if (training < 0 || (training && core->measures->early) ||
        (entry && !enters_as_before(self, core, state, info, training))) {
        Py_XDECREF((PyObject *)info);
        return NULL;
    }
    number = is_unset(info->api) || info->mod <= 0 ? NULL : number_of_facts(core, info);
    if (number != NULL) {
        long long args = arguments_of(core, number, given + 1, count - 1, given + count, names);
        call = begin(core, state, info->api, number, args, 1, info->mod);
    }
    if (call != NULL) {
        call->flags = (training ? TRAINING : 0) | (entry ? ENTRY : 0);
        call->opens = 1;
        state->modules += 1;
    }
    Py_DECREF((PyObject *)info);
    return call;
}

/* Whether a module is a model, and not a loss or another one without variables. */
static int is_model(Core *core, PyObject *module)
{
    Facts *info = info_of(core, module);
    PyObject *slots = info == NULL || is_unset(info->root) ? NULL : attribute(info->root, name_slots);
    int found = slots != NULL && PyList_CheckExact(slots) && PyList_Size(slots) > 0;
    Py_XDECREF(slots);
    Py_XDECREF((PyObject *)info);
    return found;
}

/* Tells of what a model in training is given, by whichever names, where that is followed. No, with an exception of the
 * user's. */
static int inputs_told(Core *core, ThreadState *state, Call *call, PyObject *module, PyObject *const *given,
                       Py_ssize_t count)
{
    PyObject *inputs;
    Py_ssize_t index;
    int told;
    if (!core->following->wanted || !(call->flags & TRAINING) || !is_model(core, module)) return 1;
    inputs = PyTuple_New(count);
    for (index = 0; inputs != NULL && index < count; index++) {
        Py_INCREF(given[index]);
        PyTuple_SetItem(inputs, index, given[index]);
    }
    told = inputs != NULL && follow_inputs(core, state, call, inputs);
    Py_XDECREF(inputs);
    return told;
}

static PyObject *module_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    if (core != NULL) {
        /* The token is made first: what can fail or collect garbage comes before the call is opened. */
        PyObject *token = PyTuple_New(2);
        Call *call = token == NULL || count == 0 ? NULL : module_begins(self, core, state, given, count, names);
        if (call != NULL) {
            Py_ssize_t others = names == NULL ? 0 : PyTuple_Size(names);
            Py_INCREF(given[0]);
            PyTuple_SetItem(token, 0, given[0]);
            Py_INCREF(call);
            PyTuple_SetItem(token, 1, (PyObject *)call);
            int told = !(call->flags & ENTRY) ? 1
                       : asked(&torch.grad_enabled) == 1
                           ? inputs_told(core, state, call, given[0], given + 1, count - 1 + others)
                           : place_told(self, state, call);
            if (!told) {
                state->modules -= call->opens;
                Py_CLEAR(token);
            }
            Py_DECREF(core);
            return token;
        }
        Py_DECREF(core);
        Py_XDECREF(token);
    }
    PyErr_Clear();
    return in_python(self->enter, given, count, names);
}

/* Whether all was looked at that is looked at when a whole model returns: its buffers. Where Python has to do it, it
 * begins anew; what was looked at already looks the same to it. */
static int leaves_as_before(Core *core, ThreadState *state, const Call *call, PyObject *module)
{
    Facts *info = info_of(core, module);
    PyObject *root, *slots;
    int buffered, done;
    Emit emit;
    if (info == NULL) return 0;
    root = is_unset(info->root) ? Py_None : info->root;
    Py_INCREF(root);
    Py_DECREF((PyObject *)info);
    done = is_plain_call(core) && is_steady(core, state);
    buffered = done && root != Py_None ? truth(root, name_buffered) : 0;
    if (buffered) {
        slots = attribute(root, name_slots);
        emit = emit_in(core, state, call);
        done = buffered > 0 && slots != NULL && PyList_CheckExact(slots) &&
               look_at_values(slots, 0, BUFFERS, &emit, NULL, NULL, NULL, NULL) == PyList_Size(slots);
        Py_XDECREF(slots);
    }
    Py_DECREF(root);
    PyErr_Clear();
    return done;
}

static PyObject *module_leave(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    if (count == 2 && names == NULL && PyTuple_CheckExact(given[0])) {
        Call *call = (Call *)PyTuple_GetItem(given[0], 1);
        Core *core = core_of(self->probe, &state, &recorded);
        int done = core != NULL && call != NULL && Py_TYPE(call) == CallType &&
                   !core->sketches->wanted &&
                   !(call->flags & TRAINING && core->measures->early) && undisturbed() &&
                   (!(call->flags & ENTRY) || leaves_as_before(core, state, call, PyTuple_GetItem(given[0], 0))) &&
                   end(core, state, call, given[1]) == DONE;
        if (done) state->modules -= call->opens;
        Py_XDECREF(core);
        if (recorded < 0) return NULL;
        if (done) Py_RETURN_NONE;
    }
    PyErr_Clear();
    return in_python(self->leave, given, count, names);
}

/* Making them */

static PyMethodDef function_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))function_enter, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"leave", (PyCFunction)(void (*)(void))function_leave, METH_FASTCALL | METH_KEYWORDS, NULL},
};

static PyMethodDef module_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))module_enter, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"leave", (PyCFunction)(void (*)(void))module_leave, METH_FASTCALL | METH_KEYWORDS, NULL},
};

PyObject *function_hooks(PyObject *module, PyObject *given)
{
    PyObject *probe, *api, *enter, *leave;
    int measuring, own_frame, packed;
    Hook *self;
    (void)module;
    if (!PyArg_ParseTuple(given, "OOpppOO", &probe, &api, &measuring, &own_frame, &packed, &enter, &leave)) return NULL;
    self = new_hook(probe, enter, leave);
    if (self == NULL) return NULL;
    HOLD(self, api, api);
    self->measuring = measuring;
    self->own_frame = own_frame;
    self->packed = packed;
    return functions_of(self, function_methods, 2);
}

PyObject *module_hooks(PyObject *module, PyObject *given)
{
    PyObject *probe, *asked, *enter, *leave;
    Hook *self;
    (void)module;
    if (!PyArg_ParseTuple(given, "OOOO", &probe, &asked, &enter, &leave)) return NULL;
    self = switches_of(asked) == NULL ? NULL : new_hook(probe, enter, leave);
    if (self == NULL) return NULL;
    HOLD(self, asked, asked);
    return functions_of(self, module_methods, 2);
}
