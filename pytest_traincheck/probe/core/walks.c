/* Looks at all places of a list, as `Variables` has them: parameters and buffers, and what `gradients.c` has.
 *
 * Each walk begins at a place and says at which it has stopped, because something about it is unusual and nothing was
 * done yet; Python looks at that one, and the walk goes on behind it.
 */

#include "core.h"

#define DRIFTS 16 /* as there */

void let_go(Holder *holder)
{
    Py_CLEAR(holder->entries);
}

/* Where the owner of a place has its entries: 1, 0 where it has died, -1 where Python has to find out. */
static int find_holder(const Slot *slot, Holder *holder)
{
    PyObject *owner, *own, *entries;
    int alive = pointed_to(slot->owner, &owner);
    if (alive <= 0) return alive;
    own = entries_in(owner);
    Py_DECREF(owner);
    entries = own == NULL ? NULL : PyDict_GetItemWithError(own, slot->parameter ? name__parameters : name__buffers);
    Py_XDECREF(own); /* its owner holds it */
    if (entries == NULL || !PyDict_CheckExact(entries)) {
        PyErr_Clear();
        return -1;
    }
    Py_INCREF(entries);
    let_go(holder);
    holder->owner = slot->owner, holder->entries = entries, holder->parameter = slot->parameter;
    return 1;
}

/* What a place holds now, a new reference: 1, 0 where it holds nothing, -1 where Python has to find out. As `Slot.tensor`.
 * `holder`: where the place before it was, for whoever looks at many in a row. */
int held_by(const Slot *slot, Holder *holder, PyObject **tensor)
{
    PyObject *found;
    *tensor = NULL;
    if (slot->key == Py_None) return -1;
    if (holder->entries == NULL || holder->owner != slot->owner || holder->parameter != slot->parameter) {
        int known = find_holder(slot, holder);
        if (known <= 0) return known;
    }
    found = PyDict_GetItemWithError(holder->entries, slot->key);
    if (found == NULL && PyErr_Occurred()) {
        PyErr_Clear();
        return -1;
    }
    if (found != NULL && (PyObject *)Py_TYPE(found) == (slot->parameter ? torch.Parameter : torch.Tensor)) {
        if (slot->parameter && slot->sharded) return 0;
        Py_INCREF(found);
        *tensor = found;
    }
    return *tensor != NULL ? 1 : found == NULL || found == Py_None ? 0 : -1;
}

/* The same of one place. */
int held(const Slot *slot, PyObject **tensor)
{
    Holder holder = {0};
    int found = held_by(slot, &holder, tensor);
    let_go(&holder);
    return found;
}

/* As `Var.looks_same`; -1: Python has to find out. */
int same_as_before(const Var *var, PyObject *tensor)
{
    if (var->another || var->key != (long long)(intptr_t)tensor || var->version < 0) return 0;
    return unchanged(tensor, var->version, var->pointer, var->size, var->sample);
}

/* Whether a look that finds this state and digest may be written, as far as that is a change. */
int may_write(const Var *var, int state, uint64_t digest, const Emit *emit)
{
    if (state == var->state && digest == var->digest) return 1;
    return emit != NULL && emit->outside == NULL && var->id && emit->rows->rows < emit->rows->room;
}

int write_look(Var *var, int state, uint64_t digest, double value, Emit *emit)
{
    if (state != var->state || digest != var->digest) {
        if (write_change(emit, var->id, var->state, state, digest, value) < 0) return -1;
        var->state = state;
        var->digest = digest;
    }
    return DONE;
}

void remember(Var *var, PyObject *tensor, Look *seen)
{
    PyObject *before = var->sample;
    var->key = (long long)(intptr_t)tensor;
    var->version = seen->version;
    var->pointer = seen->pointer;
    var->size = seen->size;
    var->sample = seen->sample;
    drop_sample(before);
}

/* As `Variables._look` without the question whether numbers are finite: DONE, MISSED, or -1 with an exception. */
static int look_at(Var *var, PyObject *tensor, int drifts, Emit *emit, PyObject *ahead)
{
    Block block;
    Look seen;
    int found;
    if (var->state == NONFINITE) return MISSED;
    if (ahead != NULL && says(tensor, READ_is_cpu) == 0)
        found = look_ahead(ahead, tensor, 0, 0, &seen);
    else if (!readable(tensor, var->key == (long long)(intptr_t)tensor ? var->pointer : 0, &block))
        return MISSED;
    else
        found = take_look(tensor, &block, 0, 0, &seen, NULL);
    if (found != DONE) return found;
    if (!may_write(var, seen.state, seen.digest, emit) || (drifts && seen.digest != var->settled)) {
        drop_sample(seen.sample);
        return MISSED;
    }
    remember(var, tensor, &seen);
    return write_look(var, seen.state, seen.digest, Py_NAN, emit);
}

/* Whether the place that was the first to hold a tensor held it when it was last looked at. */
static int was_seen(PyObject *first, const PyObject *tensor)
{
    return is_var(first) && ((Var *)first)->key == (long long)(intptr_t)tensor && ((Var *)first)->state != UNSEEN;
}

static int look_at_first(Var *var, const Var *first, Emit *emit)
{
    if (!may_write(var, (int)first->state, first->digest, emit)) return MISSED;
    {
        PyObject *before = var->sample;
        var->key = first->key, var->version = first->version;
        var->pointer = first->pointer, var->size = first->size;
        Py_INCREF(first->sample);
        var->sample = first->sample;
        Py_XDECREF(before);
    }
    return write_look(var, (int)first->state, first->digest, Py_NAN, emit);
}

/* As `tracked.holds_another`. */
static int holds_another(const Slot *slot, const Var *var, PyObject *tensor)
{
    return var->key && var->key != (long long)(intptr_t)tensor && slot->grad != Py_None && slot->key != Py_None;
}

/* As `value_of`, of what a place holds. `trained`: whether it asks for gradients, where that is known. */
static int value_in(Slot *slot, PyObject *tensor, int trained, int what, Emit *emit, Emit *outside, const Pointers *own,
                    const Pointers *optimized, PyObject *ahead)
{
    Var *var = (Var *)slot->var, *flag = (Var *)slot->flag;
    int found, mine = 1, holds = 1, drifts = 0, full = what != VALUES, same = 0;
    if (holds_another(slot, var, tensor)) return MISSED;
    if (what == VALUES && (PyObject *)flag != Py_None) {
        if (trained == UNASKED) trained = says(tensor, READ_requires_grad);
        if (trained < 0 || flag->state != (trained ? TRUE_ : FALSE_)) return MISSED;
    }
    if (what == STEP) {
        mine = has_pointer(own, tensor);
        holds = (mine && own == optimized) || has_pointer(optimized, tensor);
        full = mine || !holds;
        if (slot->grad != Py_None && var->first == Py_None && !holds) {
            if (var->origin == Py_None && var->drifts < DRIFTS) return MISSED;
            drifts = var->origin != Py_None;
        }
    }
    if (!full) same = same_as_before(var, tensor);
    if (same)
        found = same > 0 ? DONE : MISSED;
    else if (was_seen(var->first, tensor))
        found = look_at_first(var, (const Var *)var->first, mine ? emit : outside);
    else
        found = look_at(var, tensor, drifts, mine ? emit : outside, ahead);
    if (found == DONE && what == STEP && slot->grad != Py_None && var->first == Py_None && holds) keep(&var->origin, Py_None);
    return found;
}

static int value_of(Slot *slot, Holder *holder, int what, Emit *emit, Emit *outside, const Pointers *own,
                    const Pointers *optimized, PyObject *ahead)
{
    PyObject *tensor;
    int found;
    if (what == BUFFERS && slot->grad != Py_None) return DONE;
    if (!is_var(slot->var)) return MISSED;
    if (what == VALUES && ((Var *)slot->var)->state == UNSEEN) return DONE;
    found = held_by(slot, holder, &tensor);
    if (found <= 0) return found == 0 ? DONE : MISSED;
    found = value_in(slot, tensor, UNASKED, what, emit, outside, own, optimized, ahead);
    Py_DECREF(tensor);
    return found;
}

Emit *emit_of(PyObject *object)
{
    return Py_TYPE(object) == EmitType ? (Emit *)object : NULL;
}

Py_ssize_t look_at_values(PyObject *slots, Py_ssize_t index, int what, Emit *emit, Emit *outside, const Pointers *own,
                          const Pointers *optimized, PyObject *ahead)
{
    Py_ssize_t length = PyList_Size(slots);
    Holder holder = {0};
    int found = DONE;
    for (; index < length; index++) {
        PyObject *slot = PyList_GetItem(slots, index);
        if (!is_slot(slot)) break;
        found = value_of((Slot *)slot, &holder, what, emit, outside, own, optimized, ahead);
        if (found != DONE) break;
    }
    let_go(&holder);
    return found < 0 ? -1 : index;
}

PyObject *as_index(Py_ssize_t index)
{
    return index < 0 ? NULL : PyLong_FromSsize_t(index);
}

/* What `devices.look_at_each` has found, where it has found anything. */
PyObject *ahead_of(PyObject *object)
{
    return PyDict_CheckExact(object) && PyDict_Size(object) ? object : NULL;
}

/* `values(slots, start, what, emit, outside, own, optimized, ahead)`. Without `emit` it stops where something has changed. */
PyObject *walk_values(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Pointers own = {0}, optimized = {0};
    Py_ssize_t index;
    int what;
    (void)module;
    if (count != 8 || !PyList_CheckExact(given[0])) {
        PyErr_SetString(PyExc_TypeError, "values() takes a list of slots and seven arguments more");
        return NULL;
    }
    index = PyLong_AsSsize_t(given[1]);
    what = (int)PyLong_AsLong(given[2]);
    if (PyErr_Occurred()) return NULL;
    if (what == STEP && !pointers_in(given[5], &own)) return NULL;
    if (what == STEP && !pointers_in(given[6], &optimized)) index = -1;
    else index = look_at_values(given[0], index, what, emit_of(given[3]), emit_of(given[4]), &own, &optimized,
                                ahead_of(given[7]));
    free_pointers(&own);
    free_pointers(&optimized);
    return as_index(index);
}

/* As the first half of `Variables.look_again`, of one place: what nobody knows any more is looked at in full. */
static int again(Slot *slot, Emit *emit)
{
    PyObject *tensor;
    Var *var = (Var *)slot->var, *flag = (Var *)slot->flag;
    Block block;
    Look seen;
    int found;
    if (!is_var((PyObject *)var) || emit == NULL) return MISSED;
    if (var->state != UNSEEN) return DONE;
    found = held(slot, &tensor);
    if (found <= 0) return found == 0 ? DONE : MISSED;
    found = MISSED;
    if (!var->id || emit->outside != NULL || emit->rows->rows + 2 > emit->rows->room) goto done;
    if ((PyObject *)flag != Py_None && (!is_var((PyObject *)flag) || !flag->id || flag->state != UNSEEN)) goto done;
    if (var->first != Py_None) {
        found = was_seen(var->first, tensor) ? look_at_first(var, (const Var *)var->first, emit) : MISSED;
    } else if (readable(tensor, 0, &block)) {
        found = take_look(tensor, &block, 1, 0, &seen, NULL);
        if (found == DONE) {
            remember(var, tensor, &seen);
            found = write_look(var, seen.state, seen.digest, Py_NAN, emit);
        }
    }
    if (found == DONE && (PyObject *)flag != Py_None) {
        int state = says(tensor, READ_requires_grad) ? TRUE_ : FALSE_;
        found = write_look(flag, state, (uint64_t)state, Py_NAN, emit);
    }
done:
    Py_DECREF(tensor);
    return found;
}

/* Where a walk over places of which nothing is known has stopped, -1 with an exception. */
Py_ssize_t look_at_all(PyObject *slots, Py_ssize_t index, Emit *emit)
{
    Py_ssize_t length = PyList_Size(slots);
    int found = DONE;
    for (; index < length; index++) {
        PyObject *slot = PyList_GetItem(slots, index);
        if (!is_slot(slot)) break;
        found = again((Slot *)slot, emit);
        if (found != DONE) break;
    }
    return found < 0 ? -1 : index;
}

/* Whether it can be said here what places hold, as far as it has to be when that is forgotten. */
int can_forget(PyObject *slots)
{
    Py_ssize_t index, length = PyList_Size(slots);
    for (index = 0; index < length; index++) {
        PyObject *tensor = NULL, *slot = PyList_GetItem(slots, index);
        const Slot *place = (const Slot *)slot;
        if (!is_slot(slot) || !is_var(place->var)) return 0;
        if (place->grad == Py_None || place->key == Py_None) continue;
        if (!is_var(place->grad) || held(place, &tensor) < 0) return 0;
        Py_XDECREF(tensor);
    }
    return 1;
}

/* As `Var.forget`. */
static void forget_var(PyObject *object)
{
    Var *var = (Var *)object;
    if (!is_var(object)) return;
    var->state = UNSEEN, var->digest = 0, var->key = 0;
    keep(&var->elements, Py_None);
    keep(&var->origin, Py_None);
}

/* As `Variables.forget`, where that is possible. */
void forget_all(PyObject *slots, char *replaced)
{
    Py_ssize_t index, length = PyList_Size(slots);
    for (index = 0; index < length; index++) {
        const Slot *slot = (const Slot *)PyList_GetItem(slots, index);
        PyObject *tensor = NULL;
        if (!*replaced && slot->grad != Py_None && slot->key != Py_None && held(slot, &tensor) > 0)
            *replaced = (char)holds_another(slot, (const Var *)slot->var, tensor);
        Py_XDECREF(tensor);
        forget_var(slot->var);
        forget_var(slot->grad);
        forget_var(slot->flag);
    }
}

/* `again(slots, start, emit)` */
PyObject *walk_again(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t index;
    (void)module;
    if (count != 3 || !PyList_CheckExact(given[0])) {
        PyErr_SetString(PyExc_TypeError, "again() takes a list of slots, where to begin, and what writes");
        return NULL;
    }
    index = PyLong_AsSsize_t(given[1]);
    if (PyErr_Occurred()) return NULL;
    return as_index(look_at_all(given[0], index, emit_of(given[2])));
}

/* Of what is asked for, whether it is sure that it seems not to have changed. */
static int is_same(Slot *slot, Holder *holder, int values, int gradients)
{
    int looks = values && is_var(slot->var) && ((Var *)slot->var)->state != UNSEEN;
    int asks = gradients && slot->grad != Py_None && slot->flag != Py_None, found, trained;
    PyObject *tensor;
    if (values && !is_var(slot->var)) return 0;
    if (!looks && !asks) return 1;
    found = held_by(slot, holder, &tensor);
    if (found <= 0) return found == 0;
    trained = asks ? says(tensor, READ_requires_grad) : UNASKED;
    found = looks ? value_in(slot, tensor, trained, VALUES, NULL, NULL, NULL, NULL, NULL) : DONE;
    if (found == DONE && asks) found = gradient_in(slot, tensor, trained, 0, NULL, Py_None, Py_None, 0, NULL);
    Py_DECREF(tensor);
    return found == DONE;
}

/* The same of all places of a list. */
int all_same(PyObject *slots, int values, int gradients)
{
    Py_ssize_t index, length = PyList_Size(slots);
    Holder holder = {0};
    int same = 1;
    for (index = 0; same && index < length; index++) {
        PyObject *slot = PyList_GetItem(slots, index);
        same = is_slot(slot) && is_same((Slot *)slot, &holder, values, gradients);
    }
    let_go(&holder);
    return same;
}
