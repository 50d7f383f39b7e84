/* Which steps are observed, as `sampling.py` has it, as far as one in so many is: counting those that are not, falling asleep
 * for a few of them, and waking. What begins a training, and how many steps make one, is left to it. */

#include "core.h"

#define PATIENCE 4 /* these three as there */
#define AGAIN 8
#define BRIEF 64

static PyObject *observed, *unobserved; /* the names of the measures */

/* The number of an optimizer that was seen at work; 0 for another one. */
static long long number_of_optimizer(Core *core, PyObject *optimizer)
{
    PyObject *info = known_of(core->optimizers->infos, optimizer);
    long long number = info == NULL ? 0 : whole(info, name_id, 0);
    Py_XDECREF(info);
    return number;
}

/* As the beginning of `Sampling._iterated`. */
static void count_iteration(Switches *sampling)
{
    sampling->iteration += 1;
    if (sampling->others > sampling->others_usual) sampling->others_usual = sampling->others;
    sampling->others = 0;
    sampling->whole = 1;
}

static int is_due(const Switches *sampling)
{
    return (sampling->iteration + 1) % sampling->every_so_many == 0;
}

/* Whether the learning rate goes the way that it went before; as `Sampling._turns`, where it is a plain number. */
static int goes_on(Switches *sampling, PyObject *optimizer)
{
    PyObject *seen = sampling->rate, *groups = groups_of(optimizer), *first, *rate = NULL, *before;
    double now, then;
    long way;
    int same = 0;
    first = groups != NULL && PyList_Size(groups) ? PyList_GetItem(groups, 0) : NULL;
    if (first != NULL && PyDict_CheckExact(first)) rate = PyDict_GetItemWithError(first, name_lr);
    if (rate != NULL && (PyFloat_CheckExact(rate) || PyLong_CheckExact(rate)) && seen != NULL &&
        PyTuple_CheckExact(seen) && PyTuple_Size(seen) == 2 && PyLong_CheckExact(PyTuple_GetItem(seen, 1))) {
        before = PyTuple_GetItem(seen, 0), way = PyLong_AsLong(PyTuple_GetItem(seen, 1));
        if (before == rate) {
            same = way == 0;
        } else if (PyFloat_CheckExact(before) && PyFloat_CheckExact(rate)) {
            now = PyFloat_AsDouble(rate), then = PyFloat_AsDouble(before);
            if ((now > then) - (now < then) == way) {
                PyObject *told = PyTuple_Pack(2, rate, PyTuple_GetItem(seen, 1));
                same = told != NULL;
                if (same) keep(&sampling->rate, told);
                Py_XDECREF(told);
            }
        }
    }
    Py_XDECREF(groups);
    PyErr_Clear();
    return same;
}

/* The functions that are observed, a `Patches`. */
static Switches *patches_in(PyObject *functions)
{
    return functions != NULL && PyObject_TypeCheck(functions, SwitchesType) ? (Switches *)functions : NULL;
}

/* Falling asleep */

/* After a step of an optimizer that was observed, as `Sampling.ended`: whether that is all there is to do. */
int observed_step_ended(Core *core, PyObject *functions, PyObject *optimizer)
{
    Switches *sampling = sampling_of(core->recorder), *patches = patches_in(functions);
    long long number = number_of_optimizer(core, optimizer);
    if (sampling == NULL || !number || !sampling->settled || sampling->asleep || sampling->timed || !sampling->slept ||
        sampling->every_so_many < 1 || sampling->every_so_many >= BRIEF)
        return 0;
    if (number != sampling->lead) {
        sampling->others += 1;
        return 1;
    }
    if (!is_due(sampling)) {
        if (patches == NULL || !patches->may_sleep) return 0;
        sampling->marked = 0;
        sampling->asleep = 1;
        patches->put_to_sleep = 1;
        patches->hushed = 1;
    }
    count_iteration(sampling);
    return 1;
}

/* Waking */

/* Whether the functions that are observed have been hushed, and nothing else. */
static int are_hushed(const Switches *patches)
{
    PyObject *sleeping;
    int only;
    if (patches == NULL || !patches->hushed || !patches->put_to_sleep || patches->depth) return 0;
    sleeping = attribute((PyObject *)patches, name__sleeping);
    only = sleeping != NULL && PyList_CheckExact(sleeping) && PyList_Size(sleeping) == 0;
    Py_XDECREF(sleeping);
    return only;
}

/* As `Optimizers.look_again`; without `emit` whether that can be done. */
static int all_rates_again(Core *core, Emit *emit)
{
    PyObject *infos = core->optimizers->infos, *key, *info;
    Py_ssize_t place = 0;
    int done = infos != NULL && PyDict_CheckExact(infos);
    while (done && PyDict_Next(infos, &place, &key, &info)) {
        PyObject *ref, *optimizer = NULL, *groups;
        int alive;
        Py_INCREF(info);
        ref = attribute(info, name_ref);
        alive = ref == NULL ? -1 : pointed_to(ref, &optimizer);
        Py_XDECREF(ref);
        if (alive > 0) {
            groups = groups_of(optimizer);
            done = groups != NULL && rates_again(info, groups, emit);
            Py_XDECREF(groups);
            Py_DECREF(optimizer);
        } else {
            done = alive == 0;
        }
        Py_DECREF(info);
    }
    PyErr_Clear();
    return done;
}

/* Looks at everything of which nothing is known: whether it has, the learning rates included. */
static int look_again(Core *core, ThreadState *state, PyObject *slots)
{
    Emit emit;
    if (!emit_outside(core, state, 1, &emit) || look_at_all(slots, 0, &emit) != PyList_Size(slots)) return 0;
    core->variables->gradients_dirty = 0;
    return look_at_numbers(core, state, slots, 1, &emit) && all_rates_again(core, NULL) && all_rates_again(core, &emit);
}

static int can_wake(Core *core, const ThreadState *state, const Switches *patches, PyObject *slots)
{
    return slots != NULL && state->thread && is_measured(core, observed) && are_hushed(patches) &&
           undisturbed() && is_observable() && are_settled(core->modules, core->variables, Py_None) && can_forget(slots);
}

/* As `Sampling._wake`: 1, 0 where nothing was done, -1 with an exception of the user's. */
static int wake(Core *core, ThreadState *state, Switches *sampling, Switches *patches)
{
    PyObject *slots = slots_of(core), *done;
    int woken = can_wake(core, state, patches, slots) &&
                take(core, state, observed, NULL, (double)(sampling->iteration + 1), 0);
    if (woken) {
        count_iteration(sampling);
        patches->put_to_sleep = patches->hushed = 0;
        sampling->asleep = 0;
        sampling->inside = 0;
        core->recorder->values_moved = 1;
        forget_all(slots, &core->variables->replaced);
        if (!look_again(core, state, slots)) {
            PyErr_Clear();
            done = PyObject_CallMethodObjArgs((PyObject *)sampling, name_look_on, state, NULL);
            if (done == NULL) woken = -1;
            Py_XDECREF(done);
        }
    }
    Py_XDECREF(slots);
    return woken;
}

/* Notes how long a step took that was not observed. */
static int is_timed(Switches *sampling)
{
    PyObject *now = PyObject_CallNoArgs(torch.perf_counter), *took = NULL, *told = NULL;
    double since = now == NULL ? -1 : PyFloat_AsDouble(now);
    int done = since >= 0 && !sampling->whole;
    if (since >= 0 && sampling->whole && (took = PyFloat_FromDouble(since - sampling->since)) != NULL &&
        !is_unset(sampling->unobserved))
        told = PyObject_CallMethodObjArgs(sampling->unobserved, name_append, took, NULL);
    done = done || told != NULL;
    if (done) sampling->since = since;
    Py_XDECREF(told);
    Py_XDECREF(took);
    Py_XDECREF(now);
    PyErr_Clear();
    return done;
}

/* After a step that was not observed, as `Sampling.ended_unseen`: 1, 0 where nothing was done, -1 with an exception of the
 * user's. */
int unobserved_step_ended(Core *core, ThreadState *state, PyObject *functions, PyObject *optimizer)
{
    Switches *sampling = sampling_of(core->recorder);
    long long number, patience;
    if (sampling == NULL || !sampling->asleep || !sampling->settled || !sampling->slept || sampling->inside != 1 ||
        sampling->every_so_many < 1)
        return 0;
    number = number_of_optimizer(core, optimizer);
    if (!number) return 0;
    if (number != sampling->lead) {
        patience = sampling->every_so_many > AGAIN ? sampling->every_so_many : AGAIN;
        if (sampling->others + 1 > PATIENCE * sampling->others_usual * patience) return 0;
        sampling->others += 1;
        sampling->inside = 0;
        return 1;
    }
    if (!sampling->marked) {
        if (!state->thread || !take(core, state, unobserved, NULL, (double)sampling->iteration, 0)) return 0;
        sampling->marked = 1;
    }
    if (is_due(sampling)) return sampling->timed ? 0 : wake(core, state, sampling, patches_in(functions));
    if (!goes_on(sampling, optimizer) || (sampling->timed && !is_timed(sampling))) return 0;
    count_iteration(sampling);
    sampling->inside = 0;
    return 1;
}

int add_sampling(void)
{
    observed = PyUnicode_InternFromString("steps.observed");
    unobserved = PyUnicode_InternFromString("steps.unobserved");
    return observed == NULL || unobserved == NULL ? -1 : 0;
}
