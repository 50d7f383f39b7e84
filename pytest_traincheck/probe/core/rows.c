/* `Rows`: the mapped `events.bin`, and packing a row into it (the layout is `writer.ROW`). */

#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

PyTypeObject *RowsType;

static PyTypeObject *ClockType;

/* `Clock()`: an iterator over 1, 2, 3 and so on, of which the core takes numbers without making objects of them. */
typedef struct {
    PyObject_HEAD
    long long last;
} Clock;

#define SIZE 64

/* One row as it lies in the file; no field is moved by the compiler, since each is at a multiple of its size. */
typedef struct {
    uint8_t kind, flags;
    uint16_t thread;
    uint32_t seq, end, parent, subject, ctx, args, ret, src, mod;
    uint16_t opt;
    uint8_t old, now;
    uint32_t spare;
    uint64_t digest;
    double value;
} Row;

typedef char size_of_a_row[sizeof(Row) == SIZE ? 1 : -1];

static int fits(long long number, int bits)
{
    return number >= 0 && number >> bits == 0;
}

/* The next number of a clock; -1 with an exception. An iterator of somebody else's may run code. */
long long next_of(PyObject *clock)
{
    PyObject *next;
    long long number;
    if (Py_TYPE(clock) == ClockType) return ++((Clock *)clock)->last;
    next = PyIter_Next(clock);
    if (next == NULL) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the clock has stopped");
        return -1;
    }
    number = PyLong_AsLongLong(next);
    Py_DECREF(next);
    return number;
}

/* Real blocks for `size` bytes from `offset` on: without them a full disk would turn a store into the mapping into
 * SIGBUS. They are written as zeros in one go: a page that the first store into it has to make costs the step many times
 * as much. Returns the number of an error, 0 where it was done. */
static int reserve(int descriptor, off_t offset, off_t size)
{
    static const char zeros[1 << 16];
#ifndef __APPLE__
    int failed;
    do failed = posix_fallocate(descriptor, offset, size); while (failed == EINTR);
    if (failed) return failed;
#endif
    while (size > 0) {
        ssize_t done = pwrite(descriptor, zeros, size < (off_t)sizeof(zeros) ? (size_t)size : sizeof(zeros), offset);
        if (done < 0 && errno != EINTR) return errno;
        if (done > 0) offset += done, size -= done;
    }
    return 0;
}

/* Another chunk for the file, as `growing.GrowingFile.grow` does it. Returns the number of an error, 0 where it was done.
 *
 * Python's own code could be left half way by what a signal handler or another thread raises there; this cannot. */
static int grow(Rows *self)
{
    struct stat found;
    void *memory = MAP_FAILED;
    size_t size = (size_t)self->room * SIZE;
    int failed, descriptor;
    do descriptor = open(PyBytes_AsString(self->path), O_RDWR | O_CLOEXEC); while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) return errno;
    if (fstat(descriptor, &found) < 0) failed = errno;
    else if ((unsigned long long)found.st_dev != self->device || (unsigned long long)found.st_ino != self->inode)
        failed = ESTALE;
    else failed = reserve(descriptor, (off_t)size, (off_t)self->chunk);
    if (!failed) {
        memory = mmap(NULL, size + (size_t)self->chunk, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (memory == MAP_FAILED) failed = errno;
    }
    close(descriptor);
    if (failed) return failed;
    munmap(self->memory, size);
    self->memory = memory;
    self->room += self->chunk / SIZE;
    return 0;
}

/* Room for one more row: 1, 0 where there is none (which is counted), -1 with an exception. */
static int room(Rows *self)
{
    PyObject *told;
    int failed;
    if (self->rows < self->room) return 1;
    failed = self->memory == NULL ? EBADF : grow(self);
    if (!failed) return 1;
    self->lost += 1;
    if (self->memory == NULL || self->lost > 1) return 0;
    told = PyObject_CallFunction(self->failed, "i", failed);
    if (told == NULL) return -1;
    Py_DECREF(told);
    return 0;
}

/* A reader of the growing file goes on to the first row without a kind: so the kind is written last. */
static void put(Rows *self, const Row *row)
{
    unsigned char *place = self->memory + self->rows * SIZE;
    memcpy(place + 1, (const unsigned char *)row + 1, SIZE - 1);
    __atomic_store_n(place, row->kind, __ATOMIC_RELEASE);
    self->rows += 1;
}

static int too_large(void)
{
    PyErr_SetString(PyExc_OverflowError, "a number does not fit into a row of events.bin");
    return -1;
}

/* 1: written, 0: no room for it, -1: an exception. Where there is room, and `clock` is a `Clock`, no code of Python's
 * runs. */
int write_call(Rows *self, PyObject *clock, long long thread, long long flags, const Call *call, long long ret,
               uint64_t digest, double value)
{
    Row row = {CALL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    long long now;
    int found = room(self);
    if (found <= 0) return found;
    if (!fits(thread, 16) || !fits(flags, 8) || !fits(call->seq, 32) || !fits(call->parent, 32) ||
        !fits(call->number, 32) || !fits(call->ctx, 32) || !fits(call->args, 32) || !fits(ret, 32) ||
        !fits(call->src, 32) || !fits(call->mod, 32) || !fits(call->opt, 16))
        return too_large();
    now = next_of(clock);
    if (now < 0) return -1;
    if (!fits(now, 32)) return too_large();
    found = room(self);
    if (found <= 0) return found;
    row.flags = (uint8_t)flags;
    row.thread = (uint16_t)thread;
    row.seq = (uint32_t)call->seq;
    row.end = (uint32_t)now;
    row.parent = (uint32_t)call->parent;
    row.subject = (uint32_t)call->number;
    row.ctx = (uint32_t)call->ctx;
    row.args = (uint32_t)call->args;
    row.ret = (uint32_t)ret;
    row.src = (uint32_t)call->src;
    row.mod = (uint32_t)call->mod;
    row.opt = (uint16_t)call->opt;
    row.digest = digest;
    row.value = value;
    put(self, &row);
    return 1;
}

/* A change or a measure: rows that begin and end with the next number. */
static int write_moment(Rows *self, PyObject *clock, Row *row)
{
    long long now;
    int found = room(self);
    if (found <= 0) return found;
    now = next_of(clock);
    if (now < 0) return -1;
    if (!fits(now, 32)) return too_large();
    found = room(self);
    if (found <= 0) return found;
    row->seq = row->end = (uint32_t)now;
    put(self, row);
    return 1;
}

static PyObject *rows_call(Rows *self, PyObject *args)
{
    PyObject *clock, *call;
    long long thread, flags, ret;
    unsigned long long digest;
    double value;
    if (!PyArg_ParseTuple(args, "OLLO!LKd", &clock, &thread, &flags, CallType, &call, &ret, &digest, &value))
        return NULL;
    if (write_call(self, clock, thread, flags, (Call *)call, ret, digest, value) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *written(int found)
{
    if (found < 0) return NULL;
    Py_RETURN_NONE;
}

int write_change(Emit *emit, long long var, long long old, long long now, uint64_t digest, double value)
{
    Row row = {CHANGE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (!fits(emit->thread, 16) || !fits(emit->seq, 32) || !fits(var, 32) || !fits(emit->ctx, 32) ||
        !fits(emit->src, 32) || !fits(old, 8) || !fits(now, 8))
        return too_large();
    row.thread = (uint16_t)emit->thread;
    row.parent = (uint32_t)emit->seq;
    row.subject = (uint32_t)var;
    row.ctx = (uint32_t)emit->ctx;
    row.src = (uint32_t)emit->src;
    row.old = (uint8_t)old;
    row.now = (uint8_t)now;
    row.digest = digest;
    row.value = value;
    return write_moment(emit->rows, emit->clock, &row);
}

static PyObject *rows_change(Rows *self, PyObject *args)
{
    PyObject *clock;
    long long thread, parent, subject, ctx, src, old, now;
    unsigned long long digest;
    double value;
    Row row = {CHANGE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (!PyArg_ParseTuple(args, "OLLLLLLLKd", &clock, &thread, &parent, &subject, &ctx, &src, &old, &now, &digest,
                          &value))
        return NULL;
    if (!fits(thread, 16) || !fits(parent, 32) || !fits(subject, 32) || !fits(ctx, 32) || !fits(src, 32) ||
        !fits(old, 8) || !fits(now, 8))
        return written(too_large());
    row.thread = (uint16_t)thread;
    row.parent = (uint32_t)parent;
    row.subject = (uint32_t)subject;
    row.ctx = (uint32_t)ctx;
    row.src = (uint32_t)src;
    row.old = (uint8_t)old;
    row.now = (uint8_t)now;
    row.digest = digest;
    row.value = value;
    return written(write_moment(self, clock, &row));
}

/* A measure of a call, or of none: as `write_change`. */
int write_measure(Rows *rows, PyObject *clock, long long thread, long long subject, const Call *call, double value,
                  uint64_t digest, long long var, long long opt)
{
    Row row = {MEASURE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (!fits(thread, 16) || !fits(subject, 32) || !fits(var, 32) || !fits(opt, 16)) return too_large();
    if (call != NULL) {
        if (!fits(call->seq, 32) || !fits(call->ctx, 32) || !fits(call->src, 32) || !fits(call->mod, 32))
            return too_large();
        row.parent = (uint32_t)call->seq;
        row.ctx = (uint32_t)call->ctx;
        row.src = (uint32_t)call->src;
        row.mod = (uint32_t)call->mod;
    }
    row.thread = (uint16_t)thread;
    row.subject = (uint32_t)subject;
    row.args = (uint32_t)var;
    row.opt = (uint16_t)opt;
    row.digest = digest;
    row.value = value;
    return write_moment(rows, clock, &row);
}

static PyObject *rows_measure(Rows *self, PyObject *args)
{
    PyObject *clock, *about;
    long long thread, subject, var, opt;
    unsigned long long digest;
    double value;
    if (!PyArg_ParseTuple(args, "OLLOdKLL", &clock, &thread, &subject, &about, &value, &digest, &var, &opt)) return NULL;
    if (about != Py_None && Py_TYPE(about) != CallType) {
        PyErr_SetString(PyExc_TypeError, "a measure is of a Call");
        return NULL;
    }
    return written(write_measure(self, clock, thread, subject, about == Py_None ? NULL : (const Call *)about, value, digest,
                                 var, opt));
}

/* `complete(seq, value, finite)`: as `TraceWriter.complete`. */
static PyObject *rows_complete(Rows *self, PyObject *args)
{
    long long seq, row;
    double value;
    int finite;
    if (!PyArg_ParseTuple(args, "Ldp", &seq, &value, &finite)) return NULL;
    for (row = self->memory == NULL ? -1 : self->rows - 1; row >= 0; row--) {
        Row *found = (Row *)(self->memory + row * SIZE);
        if (found->kind != CALL || (long long)found->seq != seq) continue;
        if (!finite) found->flags |= NONFINITE_RESULT;
        if (value == value) found->value = value;
        break;
    }
    Py_RETURN_NONE;
}

/* Let go of the file: from now on there is no room. */
static PyObject *rows_close(Rows *self, PyObject *none)
{
    (void)none;
    if (self->memory != NULL) munmap(self->memory, (size_t)self->room * SIZE);
    self->memory = NULL;
    self->room = 0;
    Py_RETURN_NONE;
}

/* `Rows(path, (device, inode), address, capacity, chunk, failed)`, sizes in bytes: the mapping is this object's from now
 * on. `failed` is told the number of the error when the file cannot grow for the first time. */
static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *path, *failed;
    unsigned long long address, device, inode;
    long long capacity, chunk;
    Rows *self;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "S(KK)KLLO", &path, &device, &inode, &address, &capacity, &chunk, &failed)) return NULL;
    self = (Rows *)PyType_GenericAlloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(path);
    Py_INCREF(failed);
    self->path = path;
    self->failed = failed;
    self->device = device;
    self->inode = inode;
    self->memory = (unsigned char *)(uintptr_t)address;
    self->room = capacity / SIZE;
    self->chunk = chunk;
    return (PyObject *)self;
}

static int rows_traverse(Rows *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->failed);
    return 0;
}

static int rows_clear(Rows *self)
{
    Py_CLEAR(self->failed);
    return 0;
}

static void rows_dealloc(Rows *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    rows_clear(self);
    Py_XDECREF(rows_close(self, NULL));
    Py_CLEAR(self->path);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef rows_methods[] = {
    {"call", (PyCFunction)rows_call, METH_VARARGS, NULL},
    {"change", (PyCFunction)rows_change, METH_VARARGS, NULL},
    {"measure", (PyCFunction)rows_measure, METH_VARARGS, NULL},
    {"complete", (PyCFunction)rows_complete, METH_VARARGS, NULL},
    {"close", (PyCFunction)rows_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef rows_members[] = {
    {"rows", T_LONGLONG, offsetof(Rows, rows), READONLY, NULL},
    {"lost", T_LONGLONG, offsetof(Rows, lost), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_doc, "Rows of `events.bin`, a file that is written through memory and grows."},
    {Py_tp_new, rows_new},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_traverse, rows_traverse},
    {Py_tp_clear, rows_clear},
    {Py_tp_methods, rows_methods},
    {Py_tp_members, rows_members},
    {0, NULL},
};

static PyType_Spec rows_spec = {
    "pytest_traincheck.probe.core._core.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, rows_slots,
};

static PyObject *clock_next(Clock *self)
{
    return PyLong_FromLongLong(++self->last);
}

static void clock_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot clock_slots[] = {
    {Py_tp_doc, "Numbers from 1 on, each once."},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, clock_next},
    {Py_tp_dealloc, clock_dealloc},
    {0, NULL},
};

static PyType_Spec clock_spec = {
    "pytest_traincheck.probe.core._core.Clock", sizeof(Clock), 0, Py_TPFLAGS_DEFAULT, clock_slots,
};

int add_rows(PyObject *module)
{
    RowsType = make_type(module, &rows_spec);
    ClockType = RowsType == NULL ? NULL : make_type(module, &clock_spec);
    return ClockType == NULL ? -1 : 0;
}
