/* Batches of a `DataLoader`, made in this process or by workers, and what its sampler chooses for each: what
 * `families/data.py` and `families/samplers.py` have to tell of every one where nothing is measured. The first of a pass, and
 * others at which they look at the sampler or at the data set, are left to them. */

#include "core.h"

#define DEPTH 6     /* as in `digest.digest_nested` */
#define VERSION 2   /* as `samplers._WITHOUT_REFERENCES` */
#define TASKS 4096  /* as `samplers._TASKS` */

static PyObject *of_examples, *version; /* the name of the measure, and how `marshal` writes what it is taken of */

/* What is known of an iterator of torch's own, of one of the two classes that are asked for; it holds `entries`. */
typedef struct {
    PyObject *object, *entries;
    int workers;
} Iterator;

static int is_ours(const Hook *self, PyObject *object, Iterator *iterator)
{
    PyObject *kind = (PyObject *)Py_TYPE(object);
    iterator->object = object;
    iterator->workers = kind == PyTuple_GetItem(self->asked, 1);
    iterator->entries = iterator->workers || kind == PyTuple_GetItem(self->asked, 0) ? entries_in(object) : NULL;
    if (iterator->entries == NULL) return 0;
    Py_DECREF(iterator->entries); /* the iterator holds it */
    return 1;
}

/* A number that the iterator keeps; -1 where it does not say. */
static long long number_in(const Iterator *iterator, PyObject *name)
{
    PyObject *found = PyDict_GetItemWithError(iterator->entries, name);
    long long number = found == NULL || !PyLong_CheckExact(found) ? -1 : PyLong_AsLongLong(found);
    PyErr_Clear();
    return number;
}

/* As `samplers._is_followed` of an iterator with workers. */
static int is_followed(const Core *core, const Iterator *iterator)
{
    const Switches *sampling = sampling_of(core->recorder);
    int in_order = PyDict_GetItemWithError(iterator->entries, name__in_order) == Py_True;
    PyErr_Clear();
    return in_order && (sampling == NULL || !sampling->slept);
}

/* What `choices` know of an iterator, as in `Choices._known`: a new reference, or NULL. */
static PyObject *known_iteration(PyObject *choices, const Iterator *iterator)
{
    PyObject *all = attribute(choices, name__known), *key = PyLong_FromVoidPtr(iterator->object);
    PyObject *known = all == NULL || key == NULL || !PyDict_CheckExact(all) ? NULL : PyDict_GetItemWithError(all, key);
    Py_XINCREF(known);
    Py_XDECREF(key);
    Py_XDECREF(all);
    PyErr_Clear();
    return known;
}

/* The innermost open call of this thread, or NULL. */
static Call *innermost(const ThreadState *state)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    PyObject *call = depth > 0 ? PyList_GetItem(state->stack, depth - 1) : NULL;
    return call != NULL && Py_TYPE(call) == CallType ? (Call *)call : NULL;
}

/* Batches */

/* What a worker was to make a batch of, and where that is kept until the batch comes. */
typedef struct {
    PyObject *ahead, *key;
    uint64_t digest;
    int once, any;
} Task;

static void drop(Task *task)
{
    Py_XDECREF(task->ahead);
    Py_XDECREF(task->key);
}

/* As `Choices.opened` begins: no, where Python has to look, as at the first batch of an iterator that is observed. */
static int is_expected(const Hook *self, const Core *core, const Iterator *iterator, Task *task)
{
    PyObject *choices = attribute(self->family, name__choices), *known = NULL, *met = NULL, *found;
    if (choices != NULL && is_followed(core, iterator)) known = known_iteration(choices, iterator);
    if (known != NULL) met = attribute(known, name_met);
    if (met != NULL && points_to(met, iterator->object)) {
        task->ahead = attribute(known, name_ahead);
        task->key = PyLong_FromLongLong(number_in(iterator, name__rcvd_idx));
    }
    Py_XDECREF(met);
    Py_XDECREF(known);
    Py_XDECREF(choices);
    if (task->ahead == NULL || task->key == NULL || !PyDict_CheckExact(task->ahead)) return 0;
    found = PyDict_GetItemWithError(task->ahead, task->key);
    task->any = found != NULL;
    if (!task->any) return !PyErr_Occurred();
    if (!PyTuple_CheckExact(found) || PyTuple_Size(found) != 2) return 0;
    task->digest = PyLong_AsUnsignedLongLong(PyTuple_GetItem(found, 0));
    task->once = PyTuple_GetItem(found, 1) == Py_True;
    return !PyErr_Occurred();
}

/* Of those that are made here, nothing is looked at but at a batch whose number is a power of two, as `Holdings.is_due` says. */
static int is_usual(const Hook *self, const Core *core, PyObject *object, Task *task)
{
    Iterator iterator;
    long long made = is_ours(self, object, &iterator) ? number_in(&iterator, name__num_yielded) : -1;
    if (made <= 0) return 0;
    return iterator.workers ? is_expected(self, core, &iterator, task) : (made & (made - 1)) != 0;
}

static Call *batch_begins(const Hook *self, Core *core, ThreadState *state, PyObject *iterator, Task *task)
{
    const Call *outer = innermost(state);
    PyObject *number = number_of(core, self->api);
    Call *call;
    if (number == NULL || (outer == NULL && PyList_Size(state->stack)) || (outer != NULL && outer->api == self->api) ||
        is_in_step(state) || !is_steady(core, state) || !is_usual(self, core, iterator, task))
        return NULL;
    call = begin(core, state, self->api, number, arguments_of(core, number, NULL, 0, NULL, NULL), 1, 0);
    if (call == NULL) return NULL;
    if (task->any) {
        if (!take(core, state, of_examples, call, task->once, task->digest)) {
            forget(state, call);
            return NULL;
        }
        PyDict_DelItem(task->ahead, task->key);
    }
    keep(&call->family, self->family);
    return call;
}

static PyObject *batch_enter(Hook *self, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    ThreadState *state;
    int recorded;
    Core *core = core_of(self->probe, &state, &recorded);
    Task task = {NULL, NULL, 0, 0, 0};
    Call *call;
    if (recorded < 0) return NULL;
    if (!recorded) Py_RETURN_NONE;
    call = core != NULL && count == 1 && names == NULL ? batch_begins(self, core, state, given[0], &task) : NULL;
    Py_XINCREF(call);
    drop(&task);
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

/* Whether an iterator has the sampler that is known, and has chosen all batches before this one while somebody looked, as in
 * `Choices._of`. */
static int goes_on(PyObject *known, const Iterator *iterator, long long number)
{
    PyObject *sampler = PyDict_GetItemWithError(iterator->entries, name__index_sampler);
    PyObject *found = sampler == NULL ? NULL : attribute(known, name_sampler);
    int same = found != NULL && PyLong_CheckExact(found) && PyLong_AsVoidPtr(found) == sampler;
    Py_XDECREF(found);
    PyErr_Clear();
    return same && whole(known, name_number, -2) == number - 1;
}

/* Keeps what a worker is to make a batch of until it comes. */
static int put_aside(PyObject *known, PyObject *number, uint64_t digest, PyObject *once)
{
    PyObject *ahead = attribute(known, name_ahead), *chosen = Py_BuildValue("KO", (unsigned long long)digest, once);
    int done = ahead != NULL && chosen != NULL && PyDict_CheckExact(ahead) && PyDict_Size(ahead) < TASKS &&
               PyDict_SetItem(ahead, number, chosen) == 0;
    Py_XDECREF(chosen);
    Py_XDECREF(ahead);
    return done;
}

/* As `Choices.chosen`. What is known goes on when all is written: Python may begin anew. */
static int is_chosen(const Hook *self, Core *core, ThreadState *state, PyObject *object, PyObject *indices)
{
    const Switches *sampling = sampling_of(core->recorder);
    const Call *call = innermost(state);
    PyObject *known, *once, *count;
    Iterator iterator;
    long long number;
    uint64_t digest;
    int done;
    if (!is_ours(self, object, &iterator) || (sampling != NULL && sampling->slept)) return 0;
    if (iterator.workers ? !is_followed(core, &iterator) : call == NULL || call->api != self->api) return 0;
    number = number_in(&iterator, iterator.workers ? name__send_idx : name__num_yielded);
    if (number <= 0 || !is_steady(core, state)) return 0;
    known = known_iteration(self->family, &iterator);
    once = known == NULL || !goes_on(known, &iterator, number) ? NULL : attribute(known, name_once);
    count = once == NULL ? NULL : PyLong_FromLongLong(number);
    done = count != NULL;
    if (done && once != Py_None)
        done = hash_choice(indices, &digest) && (iterator.workers ? put_aside(known, count, digest, once)
                                                 : take(core, state, of_examples, call, once == Py_True, digest));
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

/* `asked`: the classes of the iterators; `family`: who is told in Python. */
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
