/* The parts of the compiled core and what they share.
 *
 * Everything here is the short way of something that the probe's Python code does as well. Whatever is not usual - a
 * symbol that is new, a tensor of an unknown kind, a full file - is left to that code: a function of ours then returns
 * MISSED before it has changed anything. So there is one place for every decision, and traces are the same to the byte.
 *
 * No function here runs Python code of anybody's on its short way. So nothing is interrupted between drawing a number
 * and writing the row that has it, neither by a signal handler nor by another thread, and no lock is held.
 */
#ifndef TRAINCHECK_CORE_H
#define TRAINCHECK_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <structmember.h>
#include <pythread.h>
#include <stdint.h>
#include <string.h>

/* To be counted up, here and in `__init__.py`, where what Python knows of the core changes: a file that was built
 * before is then left alone. */
#define INTERFACE 3

/* What keeps the probe's own work apart, in the order in which it is entered. */
enum { DISABLED_AUTOCAST, DISABLED_FUNCTIONS, DISABLED_DISPATCH, GUARDS };

/* What a short way says: done, or that Python has to do it; no exception is set in either case. */
enum { MISSED = 0, DONE = 1 };

enum { RAISED = 1, ENTRY = 2, TRAINING = 4, NONFINITE_RESULT = 8 };
enum { CALL = 1, CHANGE = 2, MEASURE = 3 };

typedef struct {
    PyObject_HEAD
    long long seq, parent, number, ctx, args, src, mod, opt, flags, opens;
    PyObject *api, *family, *given, *kwargs;
} Call;

typedef struct {
    PyObject_HEAD
    PyObject *stack, *guards, *closure;
    long long thread, modules, in_step;
    char busy;
} ThreadState;

typedef struct {
    PyObject_HEAD
    unsigned char *memory, *spill;
    long long rows, room, lost, full;
    int growing;
    PyObject *grow;     /* makes room, and says so by `place` */
} Rows;

/* What `variable.py` has as `Var` and `Slot`; these are classes of Python's, which add methods. */
typedef struct {
    PyObject_HEAD
    PyObject *kind, *name, *first, *sample, *elements, *origin;
    long long root, opt, id, state, key, version, pointer, size, drifts;
    unsigned long long digest, settled;
    char another;
} Var;

typedef struct {
    PyObject_HEAD
    PyObject *owner, *key, *var, *grad, *flag;
    char parameter;
} Slot;

typedef struct {
    PyObject_HEAD
    Rows *rows;
    PyObject *clock;
    long long thread, seq, ctx, src;
} Emit;

/* One look at a tensor, as `digest.Look`, and its version. */
typedef struct {
    int state;
    uint64_t digest;
    long long pointer, size, version;
    PyObject *sample;
} Look;

/* What was learnt of places in code. The code objects are held by `SourceLines`, which says when it lets go of them. */
#define PLACES 1024
typedef struct {
    void *code;
    int kind;
} KnownCode;
typedef struct {
    void *code;
    long long instruction, src;
} KnownLine;

/* The short ways of one `Recorder`: its tables and the parts that it asks. */
typedef struct {
    PyObject_HEAD
    PyObject *threads, *clock, *apis, *ctx, *args, *ret, *kinds, *lines, *infos;
    PyObject *by_hand, *sketches, *measures;
    Rows *rows;
    unsigned long long serial;
    long long plain_ctx[8];
    KnownCode codes[PLACES];
    KnownLine places[PLACES];
} Core;

extern PyTypeObject *CallType, *ThreadStateType, *RowsType, *CoreType, *VarType, *SlotType, *EmitType;

/* Names of attributes, and what the core uses of torch; see `module.c`. */
#define NAMES(each) \
    each(recorder) each(native) each(state) each(waits) each(wanted) each(early) each(dtype) each(shape) \
    each(is_cpu) each(device) each(requires_grad) each(f_back) each(f_lasti) each(ref) each(wrapper) each(root) \
    each(api) each(mod) each(training) each(plainly_trained) each(__dict__) each(layout) each(nbytes) each(_version) \
    each(_parameters) each(_buffers) each(_modules) each(is_leaf) each(grad) each(is_nested) each(is_quantized) \
    each(__enter__) each(__exit__) each(threads) each(abandon) each(_pending) each(_empty) each(_roots) \
    each(generation) each(_generation) each(unseen) each(members) each(params)
#define DECLARE(name) extern PyObject *name_##name;
NAMES(DECLARE)
#undef DECLARE

typedef struct {
    PyObject *Tensor, *Parameter, *Size, *no_kwargs, *compiling, *flag;
    PyObject *named[4];   /* torch.dtype, device, layout, memory_format */
    PyObject *any_autocast, *grad_enabled, *inference, *graph_task, *function_modes;
    PyObject *is_autocast, *autocast_dtype, *cpu;
    PyObject *crc32, *strided, *data_ptr, *is_contiguous, *is_conj, *is_neg, *is_inference; /* for looks */
    PyObject *guards[GUARDS], *set_grad, *profiling, *record_functions;
    PyObject *ordered, *is_wrapped, *is_functional, *storage_offset, *untyped_storage, *ref, *float32, *float64;
} Torch;
extern Torch torch;

/* objects.c */
Call *new_call(void);
int add_objects(PyObject *module);
int truth(PyObject *object, PyObject *name);            /* whether an attribute is True; -1: neither True nor False */
PyTypeObject *make_type(PyObject *module, PyType_Spec *spec);

/* rows.c */
int add_rows(PyObject *module);
int write_call(Rows *rows, PyObject *clock, long long thread, long long flags, const Call *call, long long ret,
               uint64_t digest, double value);

/* keys.c */
PyObject *key_of(PyObject *value, int depth);           /* a new reference; NULL: Python has to make it */
PyObject *key_of_arguments(PyObject *const *given, Py_ssize_t count, PyObject *const *named, PyObject *names);
PyObject *call_key(PyObject *module, PyObject *const *given, Py_ssize_t count);
int is_single(PyObject *key);                           /* whether a tensor with this key has one element */

/* begin.c */
int add_core(PyObject *module);
Core *core_of(PyObject *probe, ThreadState **state, int *recorded);
Call *begin(Core *core, ThreadState *state, PyObject *api, PyObject *number, PyObject *key, int frames, long long mod);
int end(Core *core, ThreadState *state, Call *call, PyObject *result);
int is_finite(PyObject *tensor, int single, double *value);
PyObject *number_of(Core *core, PyObject *api);
int undisturbed(void);

int write_change(Emit *emit, long long var, long long old, long long now, uint64_t digest, double value);

/* fields.c */
int add_fields(PyObject *module);

/* looks.c */
int readable(PyObject *tensor, long long known);
int take_look(PyObject *tensor, int finite, int known, Look *seen);
int is_negated(PyObject *tensor);
const void *block_of(PyObject *tensor, long long *size);
int unchanged(PyObject *tensor, long long version, long long pointer, long long size, PyObject *sample);
PyObject *look(PyObject *module, PyObject *given);
PyObject *looks_same(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* walks.c */
PyObject *walk_values(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *walk_gradients(PyObject *module, PyObject *const *given, Py_ssize_t count);
int all_same(PyObject *slots, int gradients);
PyObject *walk_measured(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* guards.c */
int add_guards(PyObject *module);

/* settled.c */
PyObject *shape_of(PyObject *module, PyObject *members);
PyObject *names_settled(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *same_groups(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *nothing_new(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* hooks.c */
PyObject *function_hooks(PyObject *module, PyObject *given);
PyObject *module_hooks(PyObject *module, PyObject *given);
int add_hooks(PyObject *module);

#endif
