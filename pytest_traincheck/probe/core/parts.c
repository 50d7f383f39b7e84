/* Parts of a training step: `zero_grad`, a loss function, `backward`, clipping, a module's mode, and the step of a
 * schedule, as `families/base.py` and the families of these have them. */

#include "core.h"

/* Which part, in the order of `base.py`. */
enum { ZERO_GRAD, LOSS, BACKWARD, CLIP, MODE, SCHEDULE };

/* `api` is None where it follows from the class, and `apis` what the classes have. */

/* Beginning */

static long long optimizer_id(Core *core, PyObject *optimizer)
{
    PyObject *info = known_of(core->optimizers->infos, optimizer);
    long long id = info == NULL ? -1 : whole(info, name_id, -1);
    Py_XDECREF(info);
    return id;
}

/* The number of a module; 0 where it is none, or has none yet. */
static long long module_id(Core *core, PyObject *object)
{
    Facts *info = facts_of(core, object);
    long long id = info == NULL ? 0 : info->mod;
    Py_XDECREF((PyObject *)info);
    return id;
}

static int is_known_module(Core *core, PyObject *object)
{
    Facts *info = facts_of(core, object);
    Py_XDECREF((PyObject *)info);
    return info != NULL;
}

/* An attribute that an object has itself, a new reference, or NULL. */
static PyObject *own(PyObject *object, PyObject *name)
{
    PyObject *entries = entries_in(object), *found = entries == NULL ? NULL : PyDict_GetItemWithError(entries, name);
    Py_XINCREF(found);
    Py_XDECREF(entries);
    PyErr_Clear();
    return found;
}

/* Whether a schedule is one that steps, and not one that is being made. `opt`: the optimizer that it is for. */
static int is_running(Core *core, PyObject *schedule, long long *opt)
{
    PyObject *initial = own(schedule, name__is_initial), *optimizer = own(schedule, name_optimizer);
    *opt = optimizer == NULL ? -1 : optimizer_id(core, optimizer);
    Py_XDECREF(optimizer);
    Py_XDECREF(initial);
    return *opt >= 0 && initial == Py_False;
}

/* Whether the rates of the optimizer that a schedule is for are known, or written now. */
static int rates_noted(Core *core, PyObject *args, Emit *emit)
{
    PyObject *schedule = PyTuple_CheckExact(args) && PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    PyObject *optimizer = schedule == NULL ? NULL : own(schedule, name_optimizer), *info, *groups;
    int noted;
    if (optimizer == NULL) return 0;
    info = known_of(core->optimizers->infos, optimizer);
    groups = groups_of(optimizer);
    noted = info != NULL && groups != NULL && note_rates(info, groups, emit);
    Py_XDECREF(groups);
    Py_XDECREF(info);
    Py_DECREF(optimizer);
    return noted;
}

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
static int stays_as_it_is(Core *core, PyObject *const *given, Py_ssize_t count)
{
    Facts *info = count == 2 ? facts_of(core, given[0]) : NULL;
    int training = info == NULL ? -1 : is_training(given[0], info);
    Py_XDECREF((PyObject *)info);
    return training >= 0 && given[1] == (training ? Py_True : Py_False);
}

/* Whether a call that gives a module a mode says nothing: another one has made it or, while the probe sleeps, it changes
 * nothing. As `_is_inner` and `_observed` of `base.py`. */
static int is_inner(const Hook *self, Core *core, const ThreadState *state, PyObject *const *given, Py_ssize_t count)
{
    return is_asleep(core) ? stays_as_it_is(core, given, count) : is_within_itself(self, state);
}

/* Whether a call that gives a module a mode wakes nobody: none sleeps, or it is the mode that the module has. */
static int wakes_nobody(Core *core, PyObject *const *given, Py_ssize_t count)
{
    return is_unset(core->recorder->sampling) || stays_as_it_is(core, given, count);
}

/* Whether there is nothing to do before the call but to open it. `mod`: of the call around it, then the module that it is
 * about, 0 for that one; `opt`: the optimizer that it is of. */
static int is_ready(Hook *self, Core *core, PyObject *const *given, Py_ssize_t count, PyObject *number, long long *mod,
                    long long *opt)
{
    long long outer = *mod;
    *mod = *opt = 0;
    switch (self->which) {
    case ZERO_GRAD:
        if (!is_known_module(core, given[0])) *opt = optimizer_id(core, given[0]);
        return *opt >= 0 && are_settled(core->modules, core->variables, torch.nothing);
    case LOSS:
        return was_looked_at(core, number, outer, 0);
    case CLIP:
        return 1;
    case SCHEDULE:
        return is_running(core, given[0], opt);
    case MODE:
        *mod = module_id(core, given[0]);
        return *mod > 0 && wakes_nobody(core, given, count) &&
               are_settled(core->modules, core->variables, torch.nothing);
    default:
        return !within_backward() && core->optimizers->met &&
               are_settled(core->modules, core->variables, torch.nothing) && nothing_changed(core, 0, 1);
    }
}

/* Whether the parts of a kind may be given arguments by name. How a module is told its mode, and what a schedule is, is read by
 * place. */
static int takes_names(const Hook *self)
{
    return self->which != MODE && self->which != SCHEDULE;
}

/* What is given by name, as a dictionary: a new reference, or NULL with an exception. */
static PyObject *by_name(PyObject *const *values, PyObject *names)
{
    Py_ssize_t index, count = PyTuple_Size(names);
    PyObject *found = PyDict_New();
    for (index = 0; found != NULL && index < count; index++)
        if (PyDict_SetItem(found, PyTuple_GetItem(names, index), values[index]) < 0) Py_CLEAR(found);
    return found;
}

static Call *part_begins(Hook *self, Core *core, ThreadState *state, PyObject *const *given, Py_ssize_t count,
                         PyObject *names)
{
    Py_ssize_t index, depth = PyList_Size(state->stack);
    Call *outer = depth > 0 ? (Call *)PyList_GetItem(state->stack, depth - 1) : NULL, *call = NULL;
    PyObject *number, *args, *named, *api = self->api != Py_None ? self->api : learnt(self->apis, given[0]);
    int method = self->which == ZERO_GRAD || self->which == MODE || self->which == SCHEDULE;
    long long opt = 0, mod = outer != NULL && Py_TYPE(outer) == CallType ? outer->mod : 0;
    if (api == NULL || is_in_step(state) || (outer != NULL && (Py_TYPE(outer) != CallType || outer->api == api))) return NULL;
    number = number_of(core, api);
    /* Made first: what may collect garbage, and so run code of the user's, comes before anything is asked. */
    args = number == NULL ? NULL : PyTuple_New(count);
    if (args == NULL) return NULL;
    named = names == NULL ? torch.no_kwargs : by_name(given + count, names);
    if (named == NULL) {
        Py_DECREF(args);
        return NULL;
    }
    if (names == NULL) Py_INCREF(named);
    for (index = 0; index < count; index++) {
        Py_INCREF(given[index]);
        PyTuple_SetItem(args, index, given[index]);
    }
    if (is_steady(core, state) && is_ready(self, core, given, count, number, &mod, &opt))
        call = begin(core, state, api, number,
                     arguments_of(core, number, given + method, count - method, given + count, names), 1, mod);
    if (call != NULL) {
        call->opt = opt;
        keep(&call->family, self->family);
        keep(&call->given, args);
        keep(&call->kwargs, named);
    }
    Py_DECREF(args);
    Py_DECREF(named);
    return call;
}

/* Whether a call is part of one that is recorded: it lies in another of its family, of which the outermost is told. */
static int is_left_out(const Hook *self, Core *core, ThreadState *state, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t index, depth = PyList_Size(state->stack);
    if (self->which == MODE && is_inner(self, core, state, given, count)) return 1;
    if (self->which < CLIP || state->in_step || !is_steady(core, state)) return 0;
    if (self->which == MODE && !wakes_nobody(core, given, count)) return 0;
    for (index = 0; index < depth; index++) {
        Call *call = (Call *)PyList_GetItem(state->stack, index);
        if (Py_TYPE(call) == CallType && Py_TYPE(call->family) == Py_TYPE(self->family)) return 1;
    }
    return 0;
}

static PyObject *part_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    PyObject *found;
    int recorded;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    if (core != NULL) {
        Call *call;
        if (count > 0 && is_left_out(self, core, state, given, count)) {
            Py_DECREF(core);
            Py_RETURN_NONE;
        }
        call = count > 0 && (names == NULL || takes_names(self)) ? part_begins(self, core, state, given, count, names) : NULL;
        Py_XINCREF(call);
        if (call != NULL) {
            if (self->which == BACKWARD && !follow_loss(core, state, call)) Py_CLEAR(call);
            Py_DECREF(core);
            return (PyObject *)call;
        }
        Py_DECREF(core);
    }
    PyErr_Clear();
    found = in_python(self->enter, given, count, names);
    if (found != NULL && count > 0 && self->api == Py_None) learn(self->apis, given[0], found);
    return found;
}

/* Ending */

/* Whether all was looked at that is looked at before the call is closed. Where Python has to do it, it begins anew: what
 * was looked at already looks the same to it, so that nothing is written twice. */
static int looked(Hook *self, Core *core, ThreadState *state, const Call *call)
{
    PyObject *slots;
    Emit emit;
    int done;
    switch (self->which) {
    case LOSS:
    case CLIP:
    case MODE:
        return 1;
    case SCHEDULE:
        emit = emit_in(core, state, call);
        return rates_noted(core, call->given, &emit);
    }
    if (core->variables->gradients_dirty || (self->which == BACKWARD && within_backward())) return 0;
    slots = slots_of(core);
    if (slots == NULL) return 0;
    emit = emit_in(core, state, call);
    if (self->which == BACKWARD)
        done = core->optimizers->met && look_at_numbers(core, state, slots, 1, &emit);
    else
        done = may_read_gradients(core, 0) &&
               look_at_gradients(slots, 0, 0, &emit, Py_None, Py_None, 0, NULL) == PyList_Size(slots);
    Py_DECREF(slots);
    PyErr_Clear();
    return done;
}

static PyObject *part_leave(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    if (count == 2 && names == NULL && Py_TYPE(given[0]) == CallType) {
        Call *call = (Call *)given[0];
        Core *core = core_of(self->probe, &state, &recorded);
        int done = core != NULL && is_steady(core, state) && looked(self, core, state, call) &&
                   end(core, state, call, given[1]) == DONE;
        if (done) {
            if (self->which == MODE) core->recorder->values_moved = 1;
            keep(&call->given, torch.nothing);
            keep(&call->kwargs, torch.no_kwargs);
        }
        Py_XDECREF(core);
        if (recorded < 0) return NULL;
        if (done) Py_RETURN_NONE;
    }
    PyErr_Clear();
    return in_python(self->leave, given, count, names);
}

/* Making them */

static PyMethodDef methods[] = {
    {"enter", (PyCFunction)(void (*)(void))part_enter, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"leave", (PyCFunction)(void (*)(void))part_leave, METH_FASTCALL | METH_KEYWORDS, NULL},
};

/* `part_hooks(probe, which, family, api, enter, leave)`: hooks that are called from the observed function's frame. */
PyObject *part_hooks(PyObject *module, PyObject *given)
{
    PyObject *probe, *family, *api, *enter, *leave;
    Hook *self;
    int which;
    (void)module;
    if (!PyArg_ParseTuple(given, "OiOOOO", &probe, &which, &family, &api, &enter, &leave)) return NULL;
    self = new_hook(probe, enter, leave);
    if (self == NULL) return NULL;
    self->which = which;
    HOLD(self, family, family);
    HOLD(self, api, api);
    if ((self->apis = PyDict_New()) != NULL) return functions_of(self, methods, 2);
    Py_DECREF(self);
    return NULL;
}
