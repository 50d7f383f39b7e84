/* `Core`: how a call is opened and closed (`Recorder.begin` and `end`) where everything about it is known already. */

#include "core.h"

#define FINITE_MOST (4 * 1024 * 1024) /* bytes that are looked through for what is not finite; beyond them torch does */

/* The state of this thread, which holds it; NULL where it is another recorder's, or with an exception. Where what is local
 * to a thread is more than that, as with greenlets, `threads` is asked each time. */
static ThreadState *state_of(Core *core)
{
    unsigned long long thread = core->plain_threads ? PyThreadState_GetID(PyThreadState_Get()) : 0;
    PyObject *found;
    if (thread && thread == core->thread) return core->state;
    found = PyObject_GetAttr(core->threads, name_state);
    if (found == NULL) return NULL;
    Py_DECREF(found);
    if (Py_TYPE(found) != ThreadStateType) return NULL;
    core->thread = thread;
    core->state = (ThreadState *)found;
    return core->state;
}

/* The core (a new reference: collecting garbage may run code that ends the trace) and the thread's state of the probe's
 * recorder. `recorded`: 0 where no calls are recorded here and now; where there is no core, or something is unusual, NULL
 * with 1; with -1 and an exception where the state of a new thread, which Python makes, could not be made. */
Core *core_of(const Switches *probe, ThreadState **state, int *recorded)
{
    Switches *recorder = (Switches *)probe->recorder;
    PyObject *compiles;
    Core *core;
    *recorded = 1;
    if (is_unset((PyObject *)recorder)) {
        *recorded = 0;
        return NULL;
    }
    if (!PyObject_TypeCheck((PyObject *)recorder, SwitchesType)) return NULL;
    core = (Core *)recorder->native;
    if (core == NULL || Py_TYPE(core) != CoreType) return NULL;
    Py_INCREF(core);
    *state = state_of(core);
    if (*state == NULL) {
        Py_DECREF(core);
        if (PyErr_Occurred()) *recorded = -1;
        return NULL;
    }
    compiles = PyDict_GetItemWithError(torch.compiling, torch.flag);
    if ((*state)->busy || compiles == Py_True) {
        Py_DECREF(core);
        *recorded = 0;
        return NULL;
    }
    if (compiles == Py_False) return core;
    PyErr_Clear();
    Py_DECREF(core);
    return NULL;
}

/* Whether no function mode of the user's would be asked about the attributes of a tensor. */
int undisturbed(void)
{
    PyObject *count = ask(&torch.function_modes);
    long modes = count == NULL ? -1 : PyLong_AsLong(count);
    Py_XDECREF(count);
    if (modes) PyErr_Clear();
    return modes == 0;
}

static long long known(PyObject *table, PyObject *key)
{
    PyObject *found = PyDict_GetItemWithError(table, key);
    long long number = found == NULL ? -1 : PyLong_AsLongLong(found);
    if (number < 0) PyErr_Clear();
    return number;
}

PyObject *number_of(Core *core, PyObject *api)
{
    PyObject *found = PyDict_GetItemWithError(core->apis, api);
    if (found == NULL) PyErr_Clear();
    return found;
}

/* The dtype that autocast works in on a device: a new reference, NULL without an exception where it is off. */
static PyObject *autocast_of(PyObject *device)
{
    PyObject *enabled = PyObject_CallFunctionObjArgs(torch.is_autocast, device, NULL), *dtype = NULL;
    Py_XDECREF(enabled);
    if (enabled == Py_True) dtype = PyObject_CallFunctionObjArgs(torch.autocast_dtype, device, NULL);
    if (dtype == NULL) PyErr_Clear();
    return dtype;
}

/* As `context_key`, then `Symbols.ctx`; -1 where the context is new. `quiet`: as it is while the probe looks at tensors,
 * without gradients and without autocast. */
static long long context(Core *core, int quiet)
{
    PyObject *task, *key, *autocast;
    int index, mixed = quiet ? 0 : asked(&torch.any_autocast), grad = quiet ? 0 : asked(&torch.grad_enabled);
    int backward, inference = asked(&torch.inference);
    long long found;
    if (mixed < 0 || grad < 0 || inference < 0) return -1;
    task = ask(&torch.graph_task);
    if (task == NULL) {
        PyErr_Clear();
        return -1;
    }
    backward = PyLong_AsLongLong(task) != -1;
    Py_DECREF(task);
    PyErr_Clear();
    index = grad | inference << 1 | backward << 2;
    if (!mixed && core->plain_ctx[index]) return core->plain_ctx[index];
    autocast = mixed ? autocast_of(torch.cpu) : Py_None;
    if (mixed && autocast == NULL && torch.capturing != NULL) autocast = autocast_of(torch.gpu);
    if (autocast == NULL) return -1;
    if (!mixed) Py_INCREF(autocast);
    key = PyTuple_Pack(5, autocast, grad ? Py_True : Py_False, inference ? Py_True : Py_False,
                       backward ? Py_True : Py_False, Py_False);
    Py_DECREF(autocast);
    if (key == NULL) {
        PyErr_Clear();
        return -1;
    }
    found = known(core->ctx, key);
    Py_DECREF(key);
    if (found > 0 && !mixed) core->plain_ctx[index] = found;
    return found;
}

/* Sources: as `SourceLines.find` */

enum { LIBRARY, USER, OBSERVED, UNKNOWN };

static int kind_of(Core *core, PyObject *code)
{
    KnownCode *place = &core->codes[((uintptr_t)code >> 4) % PLACES];
    if (place->code != code) {
        PyObject *key = PyLong_FromVoidPtr(code);
        long long kind = key == NULL ? -1 : known(core->kinds, key);
        Py_XDECREF(key);
        if (kind < 0) {
            PyErr_Clear();
            return UNKNOWN;
        }
        place->code = code;
        place->kind = (int)kind;
    }
    return place->kind;
}

static long long line_of(Core *core, PyObject *frame, PyObject *code)
{
    PyObject *key, *identity, *last = get_of_frame(frame, READ_f_lasti);
    long long instruction = last == NULL ? -1 : PyLong_AsLongLong(last), found = -1;
    KnownLine *place = &core->places[(((uintptr_t)code >> 4) + (uintptr_t)instruction) % PLACES];
    if (instruction >= 0 && place->code == code && place->instruction == instruction) {
        Py_DECREF(last);
        return place->src;
    }
    identity = PyLong_FromVoidPtr(code);
    key = last == NULL || identity == NULL ? NULL : PyTuple_Pack(2, identity, last);
    if (key != NULL) found = known(core->lines, key);
    if (found >= 0 && instruction >= 0) {
        place->code = code;
        place->instruction = instruction;
        place->src = found;
    }
    PyErr_Clear();
    Py_XDECREF(key);
    Py_XDECREF(identity);
    Py_XDECREF(last);
    return found;
}

/* `src` of the innermost frame of the user's; -1 where Python has to look. A hook of ours has no frame, so the topmost
 * is the caller's; `frames` are ours, or that of the observed function itself. */
static long long source(Core *core, int frames, long long enclosing)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    long long found = -2;
    Py_XINCREF(frame);
    for (; frames > 0 && frame != NULL && frame != Py_None; frames--) {
        PyObject *caller = get_of_frame(frame, READ_f_back);
        Py_DECREF(frame);
        frame = caller;
    }
    while (frame != NULL && frame != Py_None && found == -2) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        int kind = kind_of(core, code);
        if (kind == UNKNOWN) found = -1;
        else if (kind == USER) found = line_of(core, frame, code);
        else if (kind == OBSERVED && enclosing) found = enclosing;
        Py_DECREF(code);
        if (found == -2) {
            PyObject *caller = get_of_frame(frame, READ_f_back);
            Py_DECREF(frame);
            frame = caller;
        }
    }
    if (frame == NULL && found == -2) {
        found = PyErr_Occurred() ? -1 : enclosing;
        PyErr_Clear();
    }
    Py_XDECREF(frame);
    return found == -2 ? enclosing : found;
}

/* What writes changes outside of every call, in the frame that calls a hook, with the context that Python finds, while it
 * looks at tensors where it is `quiet`; 0 where Python has to ask for that. */
int emit_outside(Core *core, ThreadState *state, int quiet, Emit *emit)
{
    memset(emit, 0, sizeof *emit);
    emit->rows = core->rows;
    emit->clock = core->clock;
    emit->thread = state->thread;
    emit->ctx = context(core, quiet);
    emit->src = source(core, 0, 0);
    return emit->ctx >= 0 && emit->src >= 0;
}

/* Open a call and put it on the stack: a borrowed reference, NULL where Python has to do it. `args`: the number of what it
 * is given, -1 where that is not known. */
Call *begin(Core *core, ThreadState *state, PyObject *api, PyObject *number, long long args, int frames, long long mod)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    Call *outer = depth > 0 ? (Call *)PyList_GetItem(state->stack, depth - 1) : NULL;
    long long ctx, src;
    Call *call;
    if (args < 0) return NULL;
    ctx = context(core, 0);
    if (ctx < 0) return NULL;
    src = source(core, frames, outer != NULL ? outer->src : 0);
    if (src < 0) return NULL;
    call = new_call();
    if (call == NULL) return NULL;
    Py_INCREF(api);
    call->api = api;
    call->number = PyLong_AsLongLong(number);
    call->ctx = ctx;
    call->args = args;
    call->src = src;
    call->mod = mod ? mod : outer != NULL ? outer->mod : 0;
    call->parent = outer != NULL ? outer->seq : 0;
    call->seq = next_of(core->clock);
    if (call->seq < 0 || PyList_Append(state->stack, (PyObject *)call) < 0) {
        PyErr_Clear();
        Py_DECREF(call);
        return NULL;
    }
    Py_DECREF(call); /* the stack has it */
    return call;
}

/* Whether numbers of two bytes are finite, of which these bits are the exponent. */
static int narrow_ones_finite(const unsigned char *bytes, long long size, uint16_t exponent)
{
    const uint16_t *numbers = (const uint16_t *)bytes;
    long long index;
    unsigned found = 0;
    for (index = 0; index < size / 2; index++) found |= (numbers[index] & exponent) == exponent;
    return !found;
}

/* Whether many numbers of another kind than `is_finite` knows are finite; -1 where Python has to find out. */
static int others_finite(PyObject *tensor, const Block *block)
{
    PyObject *dtype = get(tensor, READ_dtype);
    int found = dtype == torch.bfloat16  ? narrow_ones_finite(block->bytes, block->size, 0x7f80)
                : dtype == torch.float16 ? narrow_ones_finite(block->bytes, block->size, 0x7c00)
                : dtype == torch.int64 || dtype == torch.boolean ? 1 : -1;
    Py_XDECREF(dtype);
    PyErr_Clear();
    return found;
}

/* Whether a single number in memory, or many, is finite; -1 where they are of another kind, or cannot be read. `value`:
 * the number, where it is one. */
int is_finite(PyObject *tensor, int single, double *value)
{
    Block block;
    int wide;
    if (!readable(tensor, 0, &block) || (single && is_negated(tensor)) || block.size > FINITE_MOST) return -1;
    wide = width_of(tensor, &block);
    if (wide < 0) return single ? -1 : others_finite(tensor, &block);
    if (!single) return all_finite(block.bytes, block.size, wide);
    if (wide) {
        memcpy(value, block.bytes, sizeof *value);
    } else {
        float found;
        memcpy(&found, block.bytes, sizeof found);
        *value = found;
    }
    return *value - *value == 0;
}

/* As `Recorder._finite`; -1 where Python has to find out. */
static int finite_within(PyObject *result, int depth)
{
    int list = PyList_CheckExact(result), found = 1;
    Py_ssize_t index, count;
    double value;
    if ((PyObject *)Py_TYPE(result) == torch.Tensor) return is_finite(result, 0, &value);
    if (result == Py_None || PyLong_CheckExact(result) || PyFloat_CheckExact(result) || PyUnicode_CheckExact(result)) return 1;
    if (PyDict_Check(result)) {
        PyObject *name, *item;
        Py_ssize_t place = 0;
        while (depth && found == 1 && PyDict_Next(result, &place, &name, &item)) found = finite_within(item, depth - 1);
        return found;
    }
    if (is_object(result)) return 1;
    if (!list && !PyTuple_CheckExact(result)) return -1;
    count = !depth ? 0 : list ? PyList_Size(result) : PyTuple_Size(result);
    for (index = 0; found == 1 && index < count; index++)
        found = finite_within(list ? PyList_GetItem(result, index) : PyTuple_GetItem(result, index), depth - 1);
    return found;
}

/* Close a call that returned a tensor, tensors in a container or an object, or nothing. */
int end(Core *core, ThreadState *state, Call *call, PyObject *result)
{
    Py_ssize_t depth = PyList_Size(state->stack);
    int tensor = (PyObject *)Py_TYPE(result) == torch.Tensor;
    double value = Py_NAN;
    long long ret;
    int single, infinite = 0;
    if (depth == 0 || core->rows->rows >= core->rows->room) return MISSED;
    if (PyList_GetItem(state->stack, depth - 1) != (PyObject *)call) return MISSED;
    if (result != Py_None && !tensor && !PyTuple_CheckExact(result) && !PyList_CheckExact(result) &&
        !PyDict_Check(result) && !is_object(result) && !is_module(result))
        return MISSED;
    ret = result_of(core, call->number, result, &single);
    if (ret < 0) return MISSED;
    single = single && tensor;
    if (single || call->flags & ENTRY) {
        int found = single ? is_finite(result, 1, &value) : finite_within(result, 2);
        if (found < 0) return MISSED;
        infinite = !found;
    }
    if (infinite) call->flags |= NONFINITE_RESULT;
    if (write_call(core->rows, core->clock, state->thread, call->flags, call, ret, 0, value) != 1) {
        PyErr_Clear();
        return MISSED;
    }
    Py_INCREF(call);
    PyList_SetSlice(state->stack, depth - 1, depth, NULL);
    Py_DECREF(call);
    return DONE;
}
