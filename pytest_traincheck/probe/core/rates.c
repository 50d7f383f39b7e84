/* Learning rates, which are numbers in the groups of an optimizer: as `Optimizers.note_rates` and `look_again` have them. */

#include "core.h"

/* Whether the learning rates are the very objects that they were, as `Optimizers.note_rates` asks. */
int same_rates(PyObject *info, PyObject *groups)
{
    PyObject *rates = attribute(info, name_rates), *seen = attribute(info, name_seen);
    Py_ssize_t index, length = PyList_Size(groups);
    int same = rates != NULL && PyList_CheckExact(rates) && PyList_Size(rates) >= length && seen != NULL &&
               PyDict_CheckExact(seen);
    for (index = 0; same && index < length; index++) {
        PyObject *rate = PyList_GetItem(rates, index), *group = PyList_GetItem(groups, index);
        PyObject *place = PyLong_FromSsize_t(index), *now, *then;
        now = PyDict_CheckExact(group) ? PyDict_GetItemWithError(group, name_lr) : NULL;
        then = place == NULL ? NULL : PyDict_GetItemWithError(seen, place);
        same = now != NULL && now == then && PyObject_TypeCheck(rate, VarType) && ((Var *)rate)->state == VALUE;
        Py_XDECREF(place);
    }
    Py_XDECREF(rates);
    Py_XDECREF(seen);
    PyErr_Clear();
    return same;
}

/* What is known of the learning rate of a group that has another one now, which is a plain number: NULL where Python has to
 * look. `moved`: whether it has. */
static Var *rate_of(PyObject *rates, PyObject *seen, PyObject *groups, Py_ssize_t index, PyObject **rate, int *moved)
{
    PyObject *group = PyList_GetItem(groups, index), *place = PyLong_FromSsize_t(index);
    Var *var = index < PyList_Size(rates) ? (Var *)PyList_GetItem(rates, index) : NULL;
    *rate = PyDict_CheckExact(group) ? PyDict_GetItemWithError(group, name_lr) : NULL;
    if (place == NULL || *rate == NULL || var == NULL || !is_var((PyObject *)var) || !var->id) var = NULL;
    *moved = var != NULL && !(var->state == VALUE && PyDict_GetItemWithError(seen, place) == *rate);
    Py_XDECREF(place);
    return var != NULL && (!*moved || PyFloat_CheckExact(*rate)) ? var : NULL;
}

/* As `Variables.look_at_rate`, of one that has moved. */
static int write_rate(Var *var, Py_ssize_t index, PyObject *rate, PyObject *seen, Emit *emit)
{
    double value = PyFloat_AsDouble(rate);
    long long digest = checksum(0, &value, sizeof value) + 1;
    PyObject *place = PyLong_FromSsize_t(index);
    /* Remembered last: a rate that is the very object that it was is not looked at again. */
    int done = digest > 0 && place != NULL && may_write(var, VALUE, (uint64_t)digest, emit) &&
               write_look(var, VALUE, (uint64_t)digest, value, emit) == DONE && PyDict_SetItem(seen, place, rate) == 0;
    Py_XDECREF(place);
    return done;
}

/* As `Optimizers.note_rates`, where all are plain numbers: whether it was done. Where Python has to go on, it begins anew;
 * what was written already looks the same to it. */
int note_rates(PyObject *info, PyObject *groups, Emit *emit)
{
    PyObject *rates = attribute(info, name_rates), *seen = attribute(info, name_seen);
    Py_ssize_t index, length = PyList_Size(groups);
    int done = rates != NULL && PyList_CheckExact(rates) && seen != NULL && PyDict_CheckExact(seen);
    for (index = 0; done && index < length; index++) {
        PyObject *rate;
        int moved;
        Var *var = rate_of(rates, seen, groups, index, &rate, &moved);
        done = var != NULL && (!moved || write_rate(var, index, rate, seen, emit));
    }
    Py_XDECREF(rates);
    Py_XDECREF(seen);
    PyErr_Clear();
    return done;
}

/* What looks again at a learning rate, of one optimizer or, in a first walk, of all: whether each is a plain number. */
int rates_again(PyObject *info, PyObject *groups, Emit *emit)
{
    PyObject *rates = attribute(info, name_rates), *seen = attribute(info, name_seen);
    Py_ssize_t index, count = rates != NULL && PyList_CheckExact(rates) ? PyList_Size(rates) : -1;
    int done = count >= 0 && seen != NULL && PyDict_CheckExact(seen) && (!count || PyList_Size(groups) <= count);
    for (index = 0; done && index < count; index++) {
        Var *var = (Var *)PyList_GetItem(rates, index);
        PyObject *group = index < PyList_Size(groups) ? PyList_GetItem(groups, index) : NULL, *rate;
        if (!PyObject_TypeCheck((PyObject *)var, VarType) || !var->id) done = 0;
        if (done && emit != NULL) var->state = UNSEEN, var->digest = 0, var->key = 0;
        if (!done || group == NULL) continue;
        rate = PyDict_CheckExact(group) ? PyDict_GetItemWithError(group, name_lr) : NULL;
        done = rate != NULL && PyFloat_CheckExact(rate);
        if (!done || emit == NULL) continue;
        done = write_rate(var, index, rate, seen, emit);
    }
    Py_XDECREF(rates);
    Py_XDECREF(seen);
    PyErr_Clear();
    return done;
}
