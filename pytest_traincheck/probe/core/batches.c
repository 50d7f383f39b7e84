/* Batches of a `DataLoader` that makes them in this process, and what its sampler chooses for each: what `families/data.py`
 * and `families/samplers.py` have to tell of every one where nothing is measured. The first of a pass, and others at which
 * they look at the sampler or at the data set, are left to them, as are those that workers make. */

#include "core.h"

#define DEPTH 6     /* as in `digest.digest_nested` */
#define VERSION 2   /* as `samplers._WITHOUT_REFERENCES` */

static PyObject *of_examples, *version; /* the name of the measure, and how `marshal` writes what it is taken of */

/* How many batches an iterator has made in this pass; -1 where it is none of torch's own, of this class, or does not say. */
static long long made_by(const Hook *self, PyObject *iterator)
{
    PyObject *entries, *found;
    long long made = -1;
    if ((PyObject *)Py_TYPE(iterator) != self->asked || (entries = entries_in(iterator)) == NULL) return -1;
    found = PyDict_GetItemWithError(entries, name__num_yielded);
    if (found != NULL && PyLong_CheckExact(found)) made = PyLong_AsLongLong(found);
    Py_DECREF(entries); /* the iterator holds it */
    PyErr_Clear();
    return made;
}

/* The innermost open call of this thread, or NULL. */
static Call *innermost(const ThreadState *state)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    PyObject *call = depth > 0 ? PyList_GetItem(state->stack, depth - 1) : NULL;
    return call != NULL && Py_TYPE(call) == CallType ? (Call *)call : NULL;
}

/* Batches */

/* Nothing is looked at but at a batch whose number is a power of two, as `Holdings.is_due` says. */
static Call *batch_begins(const Hook *self, Core *core, ThreadState *state, PyObject *iterator)
{
    long long made = made_by(self, iterator);
    const Call *outer = innermost(state);
    PyObject *number = made <= 0 || !(made & (made - 1)) ? NULL : number_of(core, self->api);
    Call *call;
    if (number == NULL || (outer == NULL && PyList_Size(state->stack)) || (outer != NULL && outer->api == self->api) ||
        is_in_step(state) || !is_steady(core, state))
        return NULL;
    call = begin(core, state, self->api, number, arguments_of(core, number, NULL, 0, NULL, NULL), 1, 0);
    if (call != NULL) keep(&call->family, self->family);
    return call;
}

static PyObject *batch_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    Core *core = core_of(self->probe, &state, &recorded);
    Call *call;
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    call = core != NULL && count == 1 && names == NULL ? batch_begins(self, core, state, given[0]) : NULL;
    Py_XINCREF(call);
    Py_XDECREF(core);
    PyErr_Clear();
    return call != NULL ? (PyObject *)call : in_python(self->enter, given, count, names);
}

/* Closes the call with the hash of all that the batch holds, as `Batch.finish`. */
static int batch_ends(Core *core, ThreadState *state, Call *call, PyObject *result)
{
    uint64_t digest;
    long long ret;
    int single;
    if (innermost(state) != call || core->rows->rows >= core->rows->room || !is_steady(core, state)) return 0;
    if (!hash_nested(result, DEPTH, &digest)) return 0;
    ret = result_of(core, call->number, result, &single);
    if (ret < 0 || write_call(core->rows, core->clock, state->thread, call->flags, call, ret, digest, Py_NAN) != 1)
        return 0;
    forget(state, call);
    return 1;
}

static PyObject *batch_leave(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded, done;
    if (count == 2 && names == NULL && Py_TYPE(given[0]) == CallType) {
        Core *core = core_of(self->probe, &state, &recorded);
        done = core != NULL && batch_ends(core, state, (Call *)given[0], given[1]);
        Py_XDECREF(core);
        if (recorded < 0) return NULL;
        PyErr_Clear();
        if (done) Py_RETURN_NONE;
    }
    return in_python(self->leave, given, count, names);
}

/* Choices */

static PyObject *choice_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    Core *core = core_of(self->probe, &state, &recorded);
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    if (core == NULL || count != 1 || names != NULL) {
        Py_XDECREF(core);
        PyErr_Clear();
        return in_python(self->enter, given, count, names);
    }
    Py_DECREF(core);
    Py_INCREF(given[0]);
    return given[0];
}

/* The hash of numbers of examples in a list, as `samplers.hash_of`: no, where Python has to find it. */
static int hash_choice(PyObject *indices, uint64_t *digest)
{
    PyObject *text;
    char *bytes;
    Py_ssize_t index, size, count = PyList_CheckExact(indices) ? PyList_Size(indices) : -1;
    long long sum = -1;
    for (index = 0; index < count; index++)
        if (!PyLong_CheckExact(PyList_GetItem(indices, index))) return 0;
    text = count < 0 ? NULL : PyObject_CallFunctionObjArgs(torch.marshalled, indices, version, NULL);
    if (text != NULL && PyBytes_AsStringAndSize(text, &bytes, &size) == 0 && (sum = checksum(0, bytes, size)) >= 0)
        *digest = finished((uint32_t)sum, (uint64_t)size);
    Py_XDECREF(text);
    return sum >= 0;
}

/* What is known of an iterator that has chosen all batches before this one while somebody looked, as `Choices._of`: a new
 * reference, or NULL. */
static PyObject *known_iteration(const Hook *self, PyObject *iterator, long long number)
{
    PyObject *all = attribute(self->family, name__known), *entries = entries_in(iterator), *known, *sampler, *found;
    PyObject *key = PyLong_FromVoidPtr(iterator);
    int same;
    known = all == NULL || key == NULL || !PyDict_CheckExact(all) ? NULL : PyDict_GetItemWithError(all, key);
    Py_XINCREF(known);
    sampler = entries == NULL ? NULL : PyDict_GetItemWithError(entries, name__index_sampler);
    found = known == NULL || sampler == NULL ? NULL : attribute(known, name_sampler);
    same = found != NULL && PyLong_CheckExact(found) && PyLong_AsVoidPtr(found) == sampler &&
           whole(known, name_number, -2) == number - 1;
    Py_XDECREF(found);
    Py_XDECREF(key);
    Py_XDECREF(entries);
    Py_XDECREF(all);
    if (same) return known;
    Py_XDECREF(known);
    return NULL;
}

/* As `Choices.chosen` for a batch that is made now. What is known goes on when all is written: Python may begin anew. */
static int is_chosen(const Hook *self, Core *core, ThreadState *state, PyObject *iterator, PyObject *indices)
{
    const Switches *sampling = sampling_of(core->recorder);
    const Call *call = innermost(state);
    PyObject *known, *once, *count;
    long long made = call != NULL && call->api == self->api ? made_by(self, iterator) : -1;
    uint64_t digest;
    int done;
    if (made <= 0 || (sampling != NULL && sampling->slept) || !is_steady(core, state)) return 0;
    known = known_iteration(self, iterator, made);
    once = known == NULL ? NULL : attribute(known, name_once);
    count = once == NULL ? NULL : PyLong_FromLongLong(made);
    done = count != NULL && (once == Py_None || (hash_choice(indices, &digest) &&
                                                 take(core, state, of_examples, call, once == Py_True, digest)));
    done = done && PyObject_SetAttr(known, name_number, count) == 0;
    Py_XDECREF(count);
    Py_XDECREF(once);
    Py_XDECREF(known);
    return done;
}

static PyObject *choice_leave(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded, done;
    if (count == 2 && names == NULL) {
        Core *core = core_of(self->probe, &state, &recorded);
        done = core != NULL && is_chosen(self, core, state, given[0], given[1]);
        Py_XDECREF(core);
        if (recorded < 0) return NULL;
        PyErr_Clear();
        if (done) Py_RETURN_NONE;
    }
    return in_python(self->leave, given, count, names);
}

/* Making them */

static PyMethodDef batch_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))batch_enter, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"leave", (PyCFunction)(void (*)(void))batch_leave, METH_FASTCALL | METH_KEYWORDS, NULL},
};

static PyMethodDef choice_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))choice_enter, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"leave", (PyCFunction)(void (*)(void))choice_leave, METH_FASTCALL | METH_KEYWORDS, NULL},
};

/* `asked`: the class of the iterators; `family`: who is told in Python. */
static PyObject *hooks(PyObject *given, PyMethodDef *methods)
{
    PyObject *probe, *family, *api, *asked, *enter, *leave;
    Hook *self;
    if (!PyArg_ParseTuple(given, "OOOOOO", &probe, &family, &api, &asked, &enter, &leave)) return NULL;
    self = new_hook(probe, enter, leave);
    if (self == NULL) return NULL;
    HOLD(self, family, family);
    HOLD(self, api, api);
    HOLD(self, asked, asked);
    return functions_of(self, methods, 2);
}

/* `batch_hooks(probe, family, api, iterators, enter, leave)` */
PyObject *batch_hooks(PyObject *module, PyObject *given)
{
    (void)module;
    return hooks(given, batch_methods);
}

/* `choice_hooks(probe, choices, api, iterators, enter, leave)`: `api` is that of the batches. */
PyObject *choice_hooks(PyObject *module, PyObject *given)
{
    (void)module;
    return hooks(given, choice_methods);
}

int add_batches(void)
{
    of_examples = PyUnicode_InternFromString("batch.examples");
    version = PyLong_FromLong(VERSION);
    return of_examples == NULL || version == NULL ? -1 : 0;
}
