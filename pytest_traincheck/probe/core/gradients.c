/* Looks at gradients, which are looked through for what is not finite and written with their norms, as `Variables` has
 * them: walks as in `walks.c`.
 */

#include "core.h"

/* Whose norms are found here, and whose by torch. */
enum { NEAR_NORM = 1, OTHER_NORM = 2 };

/* As `gradient_of`, of a tensor that a place holds and that is `trained`, or is not. */
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
    if (present == Py_None || !(readable_again(gradient, var, &block) || (far && is_far(gradient, 0)))) goto done;
    if (near != NULL) {
        near->kinds |= has_near_norm(gradient, &block) ? NEAR_NORM : OTHER_NORM;
        near->blocks[PyList_Size(present)] = block;
    }
    entry = PyTuple_Pack(3, (PyObject *)var, gradient, tensor);
    found = entry == NULL || PyList_Append(present, entry) < 0 || PyList_Append(readables, gradient) < 0 ? -1 : DONE;
    Py_XDECREF(entry);
done:
    Py_XDECREF(gradient);
    return found;
}

/* As the first half of `Variables.look_at_gradients`, of one place. `near` is told where the gradient lies. */
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

/* As `Variables._measure`, of gradients that are finite: where there is no norm that says so, they are looked through. Python
 * does the rest where one is not. Norms are those of `norms`, or found here where it `finds` them, or there are none.
 * `near`: where they lie, of those that were found by a walk; Python can read other layouts as well. */
static Py_ssize_t look_at_present(PyObject *present, PyObject *norms, int finds, Py_ssize_t index, Emit *emit,
                                  PyObject *ahead, const Present *near)
{
    Py_ssize_t length = PyList_Size(present);
    for (; index < length; index++) {
        PyObject *entry = PyList_GetItem(present, index);
        double norm = norms == NULL ? Py_NAN : PyFloat_AsDouble(PyList_GetItem(norms, index));
        Var *var = (Var *)PyTuple_GetItem(entry, 0);
        PyObject *gradient = PyTuple_GetItem(entry, 1);
        Block block;
        Look seen;
        int found, telling = norm > 0 && norm < Py_HUGE_VAL;
        if (ahead != NULL && says(gradient, READ_is_cpu) == 0) {
            found = look_ahead(ahead, gradient, 1, telling ? NONZERO : 0, &seen);
            if (found == DONE && seen.state == NONFINITE) { /* which is for Python to remember */
                drop_sample(seen.sample);
                break;
            }
        } else {
            if (near != NULL) block = near->blocks[index];
            found = near == NULL && !block_of(gradient, 0, &block) ? MISSED
                    : take_look(gradient, &block, 1, telling ? NONZERO : 0, &seen, finds ? &norm : NULL);
        }
        if (found < 0) return -1;
        if (found != DONE) break;
        if (!may_write(var, seen.state, seen.digest, emit)) {
            drop_sample(seen.sample);
            break;
        }
        remember(var, gradient, &seen);
        if (write_look(var, seen.state, seen.digest, norm, emit) < 0) return -1;
    }
    return index;
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
        as_index(look_at_present(given[0], given[1], 0, index, emit, ahead_of(given[4]), NULL));
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
static PyObject *norms_of(ThreadState *state, PyObject *gradients)
{
    PyObject *found = quietly(state, torch.norms, gradients), *norms = PyList_New(0);
    Py_ssize_t index, count = PyList_Size(gradients);
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
    PyErr_Clear();
    return norms;
}

/* As `Variables.look_at_gradients` where all of them are on the CPU: whether it was done. */
int look_at_numbers(Core *core, ThreadState *state, PyObject *slots, int full, Emit *emit)
{
    PyObject *present = PyList_New(0), *readables = PyList_New(0), *norms = NULL;
    Py_ssize_t all = PyList_Size(slots);
    Present near = {PyMem_Malloc((size_t)(all ? all : 1) * sizeof(Block)), 0};
    int done = present != NULL && readables != NULL && near.blocks != NULL && may_read_gradients(core, 0) &&
               look_at_gradients(slots, 0, full, emit, present, readables, 0, &near) == all;
    if (done && PyList_Size(present)) {
        int kinds = core->variables->with_norms ? near.kinds : 0;
        norms = kinds == OTHER_NORM ? norms_of(state, readables) : NULL;
        done = norms != NULL || !(kinds & OTHER_NORM);
        /* While torch finds norms other threads may run. */
        done = done && look_at_present(present, norms, kinds == NEAR_NORM, 0, emit, NULL, norms == NULL ? &near : NULL) ==
                           PyList_Size(present);
        if (done) core->variables->suspicious = 0;
    }
    PyMem_Free(near.blocks);
    Py_XDECREF(present);
    Py_XDECREF(readables);
    Py_XDECREF(norms);
    PyErr_Clear();
    return done;
}
