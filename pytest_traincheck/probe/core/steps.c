/* Steps of optimizers: the hooks that torch calls around each, as `families/optimizer.py` has them. */

#include "core.h"

/* `ended` is told of each step where not every one is observed, `apart` are the entries of groups that are looked at by
 * themselves, `code` says which code a closure has, and `apis` what the classes of optimizers have. */

static PyObject *by_closure; /* the names of what a step is given by name */

/* What a step is given: a closure, None where it has none, and how that is said. */
typedef struct {
    PyObject *closure;
    int placed, named;
} Step;

/* What torch hands to its hooks: the optimizer, its arguments and it before them, and those by name. Whether a step has no
 * argument but a closure, as it is for torch's own optimizers. */
static int is_plain_step(PyObject *const *given, Py_ssize_t count, Step *step)
{
    if (count != 3 || !PyTuple_CheckExact(given[1]) || !PyDict_CheckExact(given[2])) return 0;
    step->placed = PyTuple_Size(given[1]) == 2;
    step->named = PyDict_Size(given[2]) == 1;
    step->closure = step->placed  ? PyTuple_GetItem(given[1], 1)
                    : step->named ? PyDict_GetItemWithError(given[2], name_closure)
                                  : Py_None;
    return step->closure != NULL && PyTuple_Size(given[1]) + PyDict_Size(given[2]) == 1 + step->placed + step->named &&
           !(step->placed && step->named);
}

static int is_suspended(const Switches *probe)
{
    const Switches *patches = (const Switches *)probe->patches;
    return patches == NULL || !PyObject_TypeCheck((PyObject *)patches, SwitchesType) || patches->depth ||
           patches->put_to_sleep;
}

/* The groups of an optimizer, where they are an attribute like any other: a new reference, or NULL. */
PyObject *groups_of(PyObject *optimizer)
{
    PyObject *entries = PyObject_GenericGetAttr(optimizer, name___dict__);
    PyObject *groups = entries == NULL ? NULL : PyDict_GetItemWithError(entries, name_param_groups);
    if (groups != NULL && !PyList_CheckExact(groups)) groups = NULL;
    Py_XINCREF(groups);
    Py_XDECREF(entries);
    PyErr_Clear();
    return groups;
}

/* Before */

/* What writes changes before a step: in the call that it lies in, or outside every one, `quiet` as there. No, where Python
 * has to say. */
static int emit_before(Core *core, ThreadState *state, int quiet, Emit *emit)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    Call *outer = depth > 0 ? (Call *)PyList_GetItem(state->stack, depth - 1) : NULL;
    if (outer == NULL) return emit_outside(core, state, quiet, emit);
    if (Py_TYPE(outer) != CallType) return 0;
    *emit = emit_in(core, state, outer);
    return 1;
}

/* Whether the learning rates are known, or written now, where they have been moved; -1 with an exception of the user's. */
static int rates_noted(Core *core, ThreadState *state, PyObject *info, PyObject *optimizer, PyObject *groups)
{
    PyObject *noted;
    Emit emit;
    if (same_rates(info, groups)) return 1;
    if (emit_before(core, state, 0, &emit) && note_rates(info, groups, &emit)) return 1;
    noted = PyObject_CallMethodObjArgs((PyObject *)core->recorder, name_note_rates, state, optimizer, NULL);
    Py_XDECREF(noted);
    return noted == NULL ? -1 : 1;
}

/* Whether groups are as they were last written, as `Optimizers.note_groups` asks. */
static int are_noted(Hook *self, Core *core, PyObject *info, PyObject *groups)
{
    PyObject *noted = attribute(info, name_noted);
    int same = noted != NULL && PyTuple_CheckExact(noted) && PyTuple_Size(noted) == 2 &&
               PyLong_AsLongLong(PyTuple_GetItem(noted, 0)) == core->variables->known &&
               are_same_groups(groups, PyTuple_GetItem(noted, 1), self->apart);
    Py_XDECREF(noted);
    PyErr_Clear();
    return same;
}

static void set_whole(PyObject *object, PyObject *name, long long value)
{
    PyObject *number = PyLong_FromLongLong(value);
    if (number != NULL) PyObject_SetAttr(object, name, number);
    Py_XDECREF(number);
    PyErr_Clear();
}

/* How often attributes were looked at before steps of an optimizer, the times included that were only counted; -1 where
 * that is not known. */
static long long looks_of(Core *core, PyObject *id)
{
    PyObject *looks = attribute((PyObject *)core->attributes, name__looks);
    PyObject *found = looks == NULL || !PyDict_CheckExact(looks) ? NULL : PyDict_GetItemWithError(looks, id);
    long long count = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(looks);
    PyErr_Clear();
    return count;
}

/* As `Attributes.look`, which the first few times does more than to count. No, with an exception of the user's. */
static int look_again(Core *core, ThreadState *state, PyObject *id, long long looks, Call *call)
{
    PyObject *table, *next;
    if (looks < core->attributes->looks_left) {
        PyObject *done;
        Py_INCREF(call);
        done = PyObject_CallMethodObjArgs((PyObject *)core->recorder, name_look_at_attributes, id, call, NULL);
        if (done == NULL) forget(state, call);
        Py_DECREF(call);
        Py_XDECREF(done);
        return done != NULL;
    }
    table = attribute((PyObject *)core->attributes, name__looks), next = PyLong_FromLongLong(looks + 1);
    if (table != NULL && next != NULL) PyDict_SetItem(table, id, next);
    Py_XDECREF(table);
    Py_XDECREF(next);
    PyErr_Clear();
    set_whole((PyObject *)core->attributes, name__steps, whole((PyObject *)core->attributes, name__steps, 0) + 1);
    return 1;
}

/* Gradients that were changed behind the pass, as where they are clipped: whether that was written, or there are none. */
static int gradients_seen(Core *core, ThreadState *state)
{
    PyObject *slots;
    Emit emit;
    int done;
    if (core->variables->gradients_dirty || !emit_before(core, state, 1, &emit)) return 0;
    slots = slots_of(core);
    done = slots != NULL && look_at_numbers(core, state, slots, 0, &emit);
    Py_XDECREF(slots);
    return done;
}

/* Whether nothing is to be done before a step but to open it; -1 with an exception of the user's. `id`: the optimizer's
 * number, a new reference. */
static int is_ready(Hook *self, Core *core, ThreadState *state, PyObject *optimizer, PyObject **id)
{
    PyObject *info = known_of(core->optimizers->infos, optimizer);
    PyObject *groups = groups_of(optimizer);
    int ready = info != NULL && groups != NULL && truth(info, name_stepped) == 1 && !core->variables->replaced &&
                are_settled(core->modules, core->variables, Py_None) &&
                (nothing_changed(core, 1, 1) || (nothing_changed(core, 1, 0) && gradients_seen(core, state)));
    if (ready) ready = rates_noted(core, state, info, optimizer, groups);
    if (ready > 0) ready = are_noted(self, core, info, groups);
    *id = ready > 0 ? attribute(info, name_id) : NULL;
    Py_XDECREF(groups);
    Py_XDECREF(info);
    return ready > 0 ? *id != NULL : ready;
}

/* The code of the function that calls the hooks, as the recorder has to know it. */
static int is_noted_code(const Switches *recorder)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame(), *code;
    int same;
    if (frame == NULL) return 0;
    code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    same = code == recorder->step_code;
    Py_XDECREF(code);
    return same;
}

/* Whether a step was opened here; -1 with an exception of the user's. */
static int step_begins(Hook *self, Core *core, ThreadState *state, PyObject *optimizer, const Step *step)
{
    PyObject *number, *id = NULL, *code = Py_None, *api = learnt(self->apis, optimizer);
    Call *call = NULL;
    long long looks;
    int ready, failed;
    if (api == NULL || state->in_step || is_suspended(self->probe) || !is_noted_code(core->recorder)) return 0;
    if (!is_steady(core, state) || (number = number_of(core, api)) == NULL) return 0;
    ready = is_ready(self, core, state, optimizer, &id);
    if (ready > 0 && step->closure != Py_None) code = PyObject_CallFunctionObjArgs(self->code, step->closure, NULL);
    failed = ready < 0 || code == NULL;
    if (!failed && ready && (looks = looks_of(core, id)) >= 0) {
        call = begin(core, state, api, number,
                     arguments_of(core, number, &step->closure, step->placed, &step->closure,
                                  step->named ? by_closure : NULL), 0, 0);
        if (call != NULL) {
            call->opt = PyLong_AsLongLong(id);
            if (look_again(core, state, id, looks, call) && follow_generators(core, state, call)) {
                state->in_step = 1;
                keep(&state->closure, code);
            } else failed = 1;
        }
    }
    if (step->closure != Py_None && ready > 0) Py_XDECREF(code);
    Py_XDECREF(id);
    return failed ? -1 : call != NULL;
}

/* A step that is not observed is only counted, as `Sampling.begins_unseen` does it. */
static int begins_unseen(Hook *self, Core *core)
{
    Switches *sampling = sampling_of(core->recorder);
    int done = sampling != NULL && sampling->asleep && sampling->entries_left == 0 &&
               sampling->inside == 0 && is_unset(core->recorder->limit) && is_suspended(self->probe);
    if (done) sampling->inside = 1;
    return done;
}

static PyObject *step_before(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    PyObject *found;
    Step step;
    int recorded, free, done = 0;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (core != NULL && names == NULL && count == 3) {
        done = begins_unseen(self, core);
        if (!done && is_plain_step(given, count, &step)) done = step_begins(self, core, state, given[0], &step);
    }
    if (done) {
        Py_DECREF(core);
        if (done < 0) return NULL;
        Py_RETURN_NONE;
    }
    PyErr_Clear();
    free = core != NULL && !state->in_step; /* within another step nothing is opened for this one */
    found = in_python(self->enter, given, count, names);
    if (found != NULL && free && count == 3 && state->in_step == 1 && PyList_Size(state->stack)) {
        Call *call = (Call *)PyList_GetItem(state->stack, PyList_Size(state->stack) - 1);
        if (Py_TYPE(call) == CallType && call->opt) learn(self->apis, given[0], (PyObject *)call);
    }
    Py_XDECREF(core);
    return found;
}

/* After */

static Py_ssize_t count_members(PyObject *groups)
{
    Py_ssize_t index, count = 0;
    for (index = 0; index < PyList_Size(groups); index++) {
        PyObject *group = PyList_GetItem(groups, index);
        PyObject *members = PyDict_CheckExact(group) ? PyDict_GetItemWithError(group, name_params) : NULL;
        if (members == NULL || !PyList_CheckExact(members)) return -1;
        count += PyList_Size(members);
    }
    return count;
}

static void add_members(Pointers *set, PyObject *groups)
{
    Py_ssize_t index, place;
    for (index = 0; index < PyList_Size(groups); index++) {
        PyObject *members = PyDict_GetItemWithError(PyList_GetItem(groups, index), name_params);
        for (place = 0; place < PyList_Size(members); place++) add_pointer(set, PyList_GetItem(members, place));
    }
}

/* The groups of all optimizers, as `Optimizers.all_tensors` asks: a new reference, NULL where Python has to find out.
 * `most` is told of how many members they are. */
static PyObject *groups_of_all(Core *core, Py_ssize_t *most)
{
    PyObject *infos = core->optimizers->infos, *found = PyList_New(0), *key, *info;
    Py_ssize_t place = 0;
    int done = found != NULL && infos != NULL && PyDict_CheckExact(infos);
    *most = 0;
    while (done && PyDict_Next(infos, &place, &key, &info)) {
        PyObject *ref = attribute(info, name_ref), *optimizer = NULL, *groups = NULL;
        if (ref != NULL && pointed_to(ref, &optimizer) > 0) groups = groups_of(optimizer);
        done = groups != NULL && count_members(groups) >= 0 && PyList_Append(found, groups) == 0;
        if (done) *most += count_members(groups);
        Py_XDECREF(groups);
        Py_XDECREF(optimizer);
        Py_XDECREF(ref);
    }
    PyErr_Clear();
    if (done) return found;
    Py_XDECREF(found);
    return NULL;
}

/* As `Variables.look_after_step`, as far as it need not ask whether numbers are finite. */
static int moved(Core *core, ThreadState *state, const Call *call, PyObject *optimizer)
{
    PyObject *slots = slots_of(core), *groups = groups_of(optimizer), *all = NULL;
    Pointers own = {0}, every = {0};
    Py_ssize_t index, members = groups == NULL ? -1 : count_members(groups), most;
    Emit emit = emit_in(core, state, call);
    int done = slots != NULL && members >= 0 && !core->variables->suspicious &&
               (all = groups_of_all(core, &most)) != NULL && make_pointers(&own, members) && make_pointers(&every, most);
    if (done) {
        add_members(&own, groups);
        for (index = 0; index < PyList_Size(all); index++) add_members(&every, PyList_GetItem(all, index));
        done = look_at_values(slots, 0, STEP, &emit, NULL, &own, &every, NULL) == PyList_Size(slots);
    }
    free_pointers(&every);
    free_pointers(&own);
    Py_XDECREF(all);
    Py_XDECREF(groups);
    Py_XDECREF(slots);
    PyErr_Clear();
    return done;
}

/* Whether a step was closed here; -1 with an exception of the user's. */
static int step_ends(Hook *self, Core *core, ThreadState *state, PyObject *optimizer)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    Call *call = depth > 0 ? (Call *)PyList_GetItem(state->stack, depth - 1) : NULL;
    long long steps = whole(core->evaluations, name__steps, -1);
    int done;
    if (call == NULL || state->in_step != 1 || steps < 0 || !is_step(call)) return 0;
    if (is_suspended(self->probe) || !is_steady(core, state)) return 0;
    Py_INCREF(call);
    done = moved(core, state, call, optimizer) && end(core, state, call, Py_None) == DONE;
    if (done) {
        state->in_step = 0;
        keep(&state->closure, Py_None);
        set_whole(core->evaluations, name__steps, steps + 1);
        core->recorder->values_moved = 1;
        if (!follow_step(core, state, call)) done = -1; /* behind the row, of which there is one */
    }
    Py_DECREF(call);
    return done;
}

static PyObject *step_after(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    Step step;
    int recorded, done = 0, sampled, counted = 0;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (core != NULL) {
        sampled = !is_unset(core->recorder->sampling);
        if (sampled && names == NULL && count == 3) counted = unobserved_step_ended(core, state, self->probe->patches, given[0]);
        if (!counted && names == NULL && is_plain_step(given, count, &step))
            done = step_ends(self, core, state, given[0]);
        if (done > 0) counted = !sampled || observed_step_ended(core, self->probe->patches, given[0]);
        Py_DECREF(core);
        if (done < 0 || counted < 0) return NULL;
    }
    PyErr_Clear();
    if (counted) Py_RETURN_NONE;
    return done ? PyObject_CallFunctionObjArgs(self->ended, given[0], NULL) : in_python(self->leave, given, count, names);
}

/* Making them */

static PyMethodDef methods[] = {
    {"before", (PyCFunction)(void (*)(void))step_before, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"after", (PyCFunction)(void (*)(void))step_after, METH_FASTCALL | METH_KEYWORDS, NULL},
};

/* `step_hooks(probe, before, after, ended, apart, code)` */
PyObject *step_hooks(PyObject *module, PyObject *given)
{
    PyObject *probe, *before, *after, *ended, *apart, *code;
    Hook *self;
    (void)module;
    if (!PyArg_ParseTuple(given, "OOOOOO", &probe, &before, &after, &ended, &apart, &code)) return NULL;
    if (by_closure == NULL && (by_closure = PyTuple_Pack(1, name_closure)) == NULL) return NULL;
    self = new_hook(probe, before, after);
    if (self == NULL) return NULL;
    HOLD(self, ended, ended);
    HOLD(self, apart, apart);
    HOLD(self, code, code);
    if ((self->apis = PyDict_New()) != NULL) return functions_of(self, methods, 2);
    Py_DECREF(self);
    return NULL;
}
