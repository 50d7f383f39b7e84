/* What training is given in the steps after measures have ended, as `following.py` has it, as far as that is plain: tensors
 * in lists and tuples, a loss in memory, torch's own generator. Everything else is left to it. */

#include "core.h"

#define DEPTH 6 /* as in `digest.digest_nested` */
#define TEXT 256

static PyObject *of_loss, *of_input, *of_torch, *torch_name; /* the names of the measures, and of the generator */

static int add_text(PyObject *text, uint32_t *sum)
{
    Py_ssize_t size;
    const char *bytes = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &size);
    long long found = bytes == NULL || size > TEXT ? -1 : checksum(*sum, bytes, size);
    PyErr_Clear();
    if (found < 0) return 0;
    *sum = (uint32_t)found;
    return 1;
}

static int add_tensor(PyObject *tensor, uint32_t *sum)
{
    Block block;
    Look seen;
    long long found = -1;
    if (!readable(tensor, 0, &block) || take_look(tensor, &block, 0, NONZERO, &seen, NULL) != DONE) {
        PyErr_Clear();
        return 0;
    }
    drop_sample(seen.sample);
    found = checksum(*sum, &seen.digest, sizeof seen.digest);
    if (found < 0) return 0;
    *sum = (uint32_t)found;
    return 1;
}

/* As `digest._walk`; no, where Python has to do it. */
static int add_nested(PyObject *value, uint32_t *sum, int depth)
{
    int list = PyList_CheckExact(value), done = 1;
    Py_ssize_t index, count;
    if (is_plain(value)) return add_tensor(value, sum);
    if (!depth) return 0;
    if (value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value)) {
        PyObject *text = PyObject_Repr(value);
        done = add_text(text, sum);
        Py_XDECREF(text);
        return done;
    }
    if (!list && !PyTuple_CheckExact(value)) return 0;
    count = list ? PyList_Size(value) : PyTuple_Size(value);
    for (index = 0; done && index < count; index++)
        done = add_nested(list ? PyList_GetItem(value, index) : PyTuple_GetItem(value, index), sum, depth - 1);
    return done;
}

int is_measured(Core *core, PyObject *name)
{
    PyObject *numbers = attribute((PyObject *)core->measures, name__numbers);
    int known = numbers != NULL && PyDict_CheckExact(numbers) && PyDict_Contains(numbers, name) == 1;
    Py_XDECREF(numbers);
    PyErr_Clear();
    return known;
}

/* Writes one measure of a call, or of none, as `Measures.take` does when no more are wanted; no, where its name is new. */
int take(Core *core, ThreadState *state, PyObject *name, const Call *call, double value, uint64_t digest)
{
    PyObject *numbers = attribute((PyObject *)core->measures, name__numbers);
    PyObject *found = numbers == NULL || !PyDict_CheckExact(numbers) ? NULL : PyDict_GetItemWithError(numbers, name);
    long long subject = found == NULL ? -1 : PyLong_AsLongLong(found);
    int done = subject >= 0 && write_measure(core->rows, core->clock, state->thread, subject, call, value, digest, 0, 0) >= 0;
    Py_XDECREF(numbers);
    PyErr_Clear();
    return done;
}

/* Each of these follows one thing: no, with an exception of the user's that Python was told in the middle of. */

/* What a model in training is given. */
int follow_inputs(Core *core, ThreadState *state, Call *call, PyObject *inputs)
{
    uint32_t sum = 0;
    if (!core->following->wanted) return 1;
    if (add_nested(inputs, &sum, DEPTH) && take(core, state, of_input, call, Py_NAN, finished(sum, 0))) return 1;
    return follow(core, name_called, state, call, inputs);
}

/* Whether the node behind a loss is of a kind that neither adds up nor multiplies, so that the loss is one term, times 1. */
static int is_one_term(Core *core, PyObject *loss)
{
    PyObject *terms = attribute((PyObject *)core->following, name__terms), *node = attribute(loss, name_grad_fn);
    PyObject *kind = node == NULL ? NULL : PyLong_FromVoidPtr(Py_TYPE(node));
    int found = node == Py_None || (kind != NULL && terms != NULL && PySet_Check(terms) && PySet_Contains(terms, kind) == 1);
    Py_XDECREF(kind);
    Py_XDECREF(node);
    Py_XDECREF(terms);
    PyErr_Clear();
    return found;
}

/* One narrow or wide number in memory: as `digest.number`; no, where Python has to read it. */
static int single_number(PyObject *loss, double *value)
{
    Block block;
    float narrow;
    int wide;
    if (!readable(loss, 0, &block) || (wide = width_of(loss, &block)) < 0 || block.size != (wide ? 8 : 4)) return 0;
    if (is_negated(loss)) return 0;
    if (wide) memcpy(value, block.bytes, sizeof *value);
    else memcpy(&narrow, block.bytes, sizeof narrow), *value = narrow;
    return 1;
}

/* The loss that a backward pass is called with, the first of what it is given. */
int follow_loss(Core *core, ThreadState *state, Call *call)
{
    PyObject *loss = PyTuple_CheckExact(call->given) && PyTuple_Size(call->given) ? PyTuple_GetItem(call->given, 0) : NULL;
    double value;
    if (!core->following->wanted) return 1;
    if (loss == NULL || !single_number(loss, &value) || !take(core, state, of_loss, call, value, 0))
        return follow(core, name_opened, state, call, call->given);
    return is_one_term(core, loss) || follow(core, name_weighed, state, call, call->given);
}

/* Whether of all generators only torch's own has moved, or none: then its name, or None; a borrowed reference. */
static PyObject *moved_alone(Core *core)
{
    PyObject *moved = attribute((PyObject *)core->following, name__moved), *found = NULL;
    if (moved != NULL && PySet_Check(moved)) {
        Py_ssize_t size = PySet_Size(moved);
        if (size == 0) found = Py_None;
        else if (size == 1 && PySet_Contains(moved, torch_name) == 1) found = torch_name;
    }
    Py_XDECREF(moved);
    PyErr_Clear();
    return found;
}

/* The states of generators before a step. */
int follow_generators(Core *core, ThreadState *state, Call *call)
{
    PyObject *alone, *found;
    Block block;
    Look seen;
    int done = 0;
    if (!core->following->wanted) return 1;
    alone = moved_alone(core);
    if (alone == Py_None) return 1;
    if (alone != NULL) {
        found = quietly(state, torch.get_state, torch.generator);
        if (found != NULL && block_of(found, 0, &block) && take_look(found, &block, 0, NONZERO, &seen, NULL) == DONE) {
            drop_sample(seen.sample);
            done = take(core, state, of_torch, call, Py_NAN, seen.digest);
        }
        Py_XDECREF(found);
        PyErr_Clear();
    }
    return done || follow(core, name_steps, state, call, Py_None);
}

/* That an optimizer has made its step, as `Measures.stepped` when no more is measured. */
int follow_step(Core *core, ThreadState *state, Call *call)
{
    PyObject *counts, *id, *found, *next = NULL;
    long long count, last;
    int done = 0;
    if (!core->following->wanted) return 1;
    last = whole((PyObject *)core->following, name__last, 0);
    counts = attribute((PyObject *)core->measures, name__steps);
    id = PyLong_FromLongLong(call->opt);
    found = id == NULL || counts == NULL || !PyDict_CheckExact(counts) ? NULL : PyDict_GetItemWithError(counts, id);
    count = found == NULL ? -1 : PyLong_AsLongLong(found);
    if (count >= 0 && count + 1 < last && (next = PyLong_FromLongLong(count + 1)) != NULL)
        done = PyDict_SetItem(counts, id, next) == 0;
    Py_XDECREF(next);
    Py_XDECREF(id);
    Py_XDECREF(counts);
    PyErr_Clear();
    return done || follow(core, name_ended, state, call, Py_None);
}

int add_follows(void)
{
    of_loss = PyUnicode_InternFromString("later.loss");
    of_input = PyUnicode_InternFromString("later.input");
    of_torch = PyUnicode_InternFromString("later.rng.torch");
    torch_name = PyUnicode_InternFromString("torch");
    return of_loss == NULL || of_input == NULL || of_torch == NULL || torch_name == NULL ? -1 : 0;
}
