/* Looks at gradients, which are looked through for what is not finite and written with their norms, as `Variables` has
 * them: walks as in `walks.c`.
 */

#include "core.h"

/* Whose norms are found here, and whose by torch. */
enum { NEAR_NORM = 1, OTHER_NORM = 2 };

/* As `gradient_of`, of a tensor that a place holds and that is `trained`, or is not. Gradients that have changed are put into
 * `near`, or, without it, into Python's lists, of which there need not be any. */
int gradient_in(Slot *slot, PyObject *tensor, int trained, int full, Emit *emit, PyObject *present, PyObject *readables,
                int far, Present *near)
{
    PyObject *gradient = NULL, *entry;
    Var *var = (Var *)slot->grad, *flag = (Var *)slot->flag;
    Block block;
    int found = MISSED, leaf;
    if (!is_var((PyObject *)var) || !is_var((PyObject *)flag)) return MISSED;
    if (trained < 0 || flag->state != (trained ? TRUE_ : FALSE_)) return MISSED;
    if (!trained && (var->state == UNSEEN || var->state == ABSENT)) return DONE;
    leaf = says(tensor, READ_is_leaf);
    if (leaf < 0) return MISSED;
    if (leaf) {
        gradient = get(tensor, READ_grad);
        if (gradient == NULL) {
            PyErr_Clear();
            return MISSED;
        }
    }
    if (gradient == NULL || gradient == Py_None) {
        if (var->state != ABSENT) {
            if (!may_write(var, ABSENT, 0, emit)) goto done;
            found = write_change(emit, var->id, var->state, ABSENT, 0, Py_NAN) < 0 ? -1 : DONE;
            var->state = ABSENT, var->digest = 0, var->key = 0;
        } else {
            found = DONE;
        }
        goto done;
    }
    if (!full) {
        int same = same_as_before(var, gradient);
        if (same) {
            found = same > 0 ? DONE : MISSED;
            goto done;
        }
    }
    if (near == NULL && present == Py_None) goto done;
    if (!readable_again(gradient, var, &block) && !(far && is_far(gradient, 0))) goto done;
    if (near != NULL) {
        Changed *changed = &near->all[near->count++];
        near->kinds |= has_near_norm(gradient, &block) ? NEAR_NORM : OTHER_NORM;
        Py_INCREF(var);
        changed->var = var, changed->gradient = gradient, changed->block = block;
        return DONE; /* with the reference to the gradient */
    }
    entry = PyTuple_Pack(3, (PyObject *)var, gradient, tensor);
    found = entry == NULL || PyList_Append(present, entry) < 0 || PyList_Append(readables, gradient) < 0 ? -1 : DONE;
    Py_XDECREF(entry);
done:
    Py_XDECREF(gradient);
    return found;
}

/* As the first half of `Variables.look_at_gradients`, of one place. */
static int gradient_of(Slot *slot, Holder *holder, int full, Emit *emit, PyObject *present, PyObject *readables, int far,
                       Present *near)
{
    PyObject *tensor;
    int found;
    if (slot->grad == Py_None || slot->flag == Py_None) return DONE;
    found = held_by(slot, holder, &tensor);
    if (found <= 0) return found == 0 ? DONE : MISSED;
    found = gradient_in(slot, tensor, says(tensor, READ_requires_grad), full, emit, present, readables, far, near);
    Py_DECREF(tensor);
    return found;
}

Py_ssize_t look_at_gradients(PyObject *slots, Py_ssize_t index, int full, Emit *emit, PyObject *present,
                             PyObject *readables, int far, Present *near)
{
    Py_ssize_t length = PyList_Size(slots);
    Holder holder = {0};
    int found = DONE;
    for (; index < length; index++) {
        PyObject *slot = PyList_GetItem(slots, index);
        if (!is_slot(slot)) break;
        found = gradient_of((Slot *)slot, &holder, full, emit, present, readables, far, near);
        if (found != DONE) break;
    }
    let_go(&holder);
    return found < 0 ? -1 : index;
}

/* `gradients(slots, start, full, emit, present, readables)`: with None for the last three it stops where one has changed. */
PyObject *walk_gradients(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t index;
    (void)module;
    if (count != 6 || !PyList_CheckExact(given[0])) {
        PyErr_SetString(PyExc_TypeError, "gradients() takes a list of slots and five arguments more");
        return NULL;
    }
    index = PyLong_AsSsize_t(given[1]);
    if (PyErr_Occurred()) return NULL;
    return as_index(look_at_gradients(given[0], index, given[2] == Py_True, emit_of(given[3]), given[4], given[5], 1, NULL));
}

/* As `Variables._measure`, of one gradient that is finite: where its norm does not say so, it is looked through. Python does
 * the rest where it is not: DONE, MISSED, or -1 with an exception. It has this `norm`, or none; where it is to be `found`, it
 * is found here. `block`: where it lies, NULL where that is not known; Python can read other layouts as well. */
static int look_at_one(Var *var, PyObject *gradient, Block *block, double norm, int finds, Emit *emit, PyObject *ahead)
{
    Block asked;
    Look seen;
    int found, known = norm > 0 && norm < Py_HUGE_VAL ? NONZERO : 0;
    if (ahead != NULL && says(gradient, READ_is_cpu) == 0) {
        found = look_ahead(ahead, gradient, 1, known, &seen);
    } else {
        if (block == NULL && !block_of(gradient, 0, &asked)) return MISSED;
        found = take_look(gradient, block != NULL ? block : &asked, 1, known, &seen, finds ? &norm : NULL);
    }
    if (found != DONE) return found;
    /* That one is not finite is for Python to remember. */
    if (seen.state == NONFINITE || !may_write(var, seen.state, seen.digest, emit)) {
        drop_sample(seen.sample);
        return MISSED;
    }
    remember(var, gradient, &seen);
    return write_look(var, seen.state, seen.digest, norm, emit);
}

/* The same of a list of Python's, with a list of norms: where it has stopped, -1 with an exception. */
static Py_ssize_t look_at_present(PyObject *present, PyObject *norms, Py_ssize_t index, Emit *emit, PyObject *ahead)
{
    Py_ssize_t length = PyList_Size(present);
    int found = DONE;
    for (; index < length; index++) {
        PyObject *entry = PyList_GetItem(present, index);
        double norm = PyFloat_AsDouble(PyList_GetItem(norms, index));
        found = look_at_one((Var *)PyTuple_GetItem(entry, 0), PyTuple_GetItem(entry, 1), NULL, norm, 0, emit, ahead);
        if (found != DONE) break;
    }
    return found < 0 ? -1 : index;
}

/* `measured(present, norms, start, emit, ahead)`. */
PyObject *walk_measured(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Py_ssize_t index;
    Emit *emit;
    (void)module;
    if (count != 5 || !PyList_CheckExact(given[0]) || !PyList_CheckExact(given[1])) {
        PyErr_SetString(PyExc_TypeError, "measured() takes gradients, their norms, and three arguments more");
        return NULL;
    }
    index = PyLong_AsSsize_t(given[2]);
    if (PyErr_Occurred()) return NULL;
    emit = emit_of(given[3]);
    return emit == NULL ? PyLong_FromSsize_t(index) : 
        as_index(look_at_present(given[0], given[1], index, emit, ahead_of(given[4])));
}

/* A norm that torch has found, as `float` of it; -1 where that cannot be read. */
static double norm_in(PyObject *tensor)
{
    Block block;
    int wide = block_of(tensor, 1, &block) ? width_of(tensor, &block) : -1;
    if (wide == 0 && block.size == sizeof(float)) return *(const float *)block.bytes;
    if (wide == 1 && block.size == sizeof(double)) return *(const double *)block.bytes;
    return -1;
}

/* As `digest.norms`, of gradients on the CPU; NULL, without an exception, where Python has to find them. */
static PyObject *norms_of(ThreadState *state, const Present *near)
{
    PyObject *gradients = PyList_New(near->count), *found = NULL, *norms = PyList_New(0);
    Py_ssize_t index, count = near->count;
    for (index = 0; gradients != NULL && index < count; index++) {
        Py_INCREF(near->all[index].gradient);
        PyList_SetItem(gradients, index, near->all[index].gradient);
    }
    if (gradients != NULL) found = quietly(state, torch.norms, gradients);
    /* A tuple; what is no sequence, or too short, has no items and so no norms. */
    for (index = 0; found != NULL && norms != NULL && index < count; index++) {
        PyObject *item = PySequence_GetItem(found, index);
        double norm = item != NULL ? norm_in(item) : -1;
        PyObject *value = norm != -1 ? PyFloat_FromDouble(norm) : NULL;
        if (value == NULL || PyList_Append(norms, value) < 0) Py_CLEAR(norms);
        Py_XDECREF(value);
        Py_XDECREF(item);
    }
    if (found == NULL) Py_CLEAR(norms);
    Py_XDECREF(found);
    Py_XDECREF(gradients);
    PyErr_Clear();
    return norms;
}

/* Looks at all that have changed: whether it was done. Norms are those that torch finds, or found here, or there are none. */
static int look_at_changed(Core *core, ThreadState *state, const Present *near, Emit *emit)
{
    int kinds = core->variables->with_norms ? near->kinds : 0, done = 1;
    PyObject *norms = kinds == OTHER_NORM ? norms_of(state, near) : NULL;
    Py_ssize_t index;
    if ((kinds & OTHER_NORM) && norms == NULL) return 0;
    for (index = 0; done && index < near->count; index++) {
        Changed *changed = &near->all[index];
        double norm = norms == NULL ? Py_NAN : PyFloat_AsDouble(PyList_GetItem(norms, index));
        /* While torch finds norms other threads may run, so that it is asked again where a gradient lies. */
        done = look_at_one(changed->var, changed->gradient, norms == NULL ? &changed->block : NULL, norm, kinds == NEAR_NORM,
                           emit, NULL) == DONE;
    }
    Py_XDECREF(norms);
    return done;
}

/* As `Variables.look_at_gradients` where all of them are on the CPU: whether it was done. */
int look_at_numbers(Core *core, ThreadState *state, PyObject *slots, int full, Emit *emit)
{
    Py_ssize_t all = PyList_Size(slots);
    Present near = {PyMem_Malloc((size_t)(all ? all : 1) * sizeof(Changed)), 0, 0};
    int done = near.all != NULL && may_read_gradients(core, 0) &&
               look_at_gradients(slots, 0, full, emit, Py_None, Py_None, 0, &near) == all;
    if (done && near.count) {
        done = look_at_changed(core, state, &near, emit);
        if (done) core->variables->suspicious = 0;
    }
    while (near.count) {
        const Changed *changed = &near.all[--near.count];
        Py_DECREF(changed->gradient);
        Py_DECREF(changed->var);
    }
    PyMem_Free(near.all);
    PyErr_Clear();
    return done;
}
