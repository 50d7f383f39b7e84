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
#define INTERFACE 22

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
    unsigned char *memory;
    long long rows, room, lost, chunk;
    unsigned long long device, inode;
    PyObject *path, *failed;    /* the file, as bytes, and who is told when it cannot grow */
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
    char parameter, sharded;
} Slot;

typedef struct {
    PyObject_HEAD
    Rows *rows;
    PyObject *clock;
    PyObject *outside;  /* of changes outside every call: what says the context and the line, which is asked for once */
    long long thread, seq, ctx, src;
} Emit;

/* One look at a tensor, as `digest.Look`, and its version. */
typedef struct {
    int state;
    uint64_t digest;
    long long pointer, size, version;
    PyObject *sample;
} Look;

/* Where the owner of a place has what it holds: a module has more than one place as a rule. The dictionary is held, the owner
 * is only compared. */
typedef struct {
    const PyObject *owner;
    PyObject *entries;
    int parameter;
} Holder;

/* Where a tensor's numbers lie in memory, and how wide they are: see `width_of`. */
typedef struct {
    const unsigned char *bytes;
    long long size;
    int wide;
} Block;

/* Gradients that have changed, where they lie, and which kinds of norms they take: see `gradients.c`. There is room for one of
 * each place, and both objects are held. */
typedef struct {
    Var *var;
    PyObject *gradient;
    Block block;
} Changed;

typedef struct {
    Changed *all;
    Py_ssize_t count;
    int kinds;
} Present;

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

/* What the core reads of the parts of the probe: see `switches.py`. Three have other names there: `known` is `_generation`,
 * `every_so_many` is `every`, and `put_to_sleep` is `_asleep`; others have an underscore before theirs. */
typedef struct {
    PyObject_HEAD
    PyObject *recorder, *native, *sampling, *limit, *patches, *every, *pending, *infos, *roots, *empty, *leaves, *several;
    PyObject *step_code;
    PyObject *rate, *unobserved;
    long long iteration, every_so_many, lead, others, others_usual, inside;
    long long entries_left, generation, known, calls, calls_left, depth, opened, looks_left;
    double since;
    char wanted, early, waits, asleep, met, unseen, replaced, gradients_dirty, with_norms, values_moved, suspicious;
    char put_to_sleep, hushed, may_sleep, marked, whole, timed, settled, slept, evaluated, fetches;
} Switches;

/* What is called when an observed function begins and ends. Which fields a kind of hook has, its file says. */
typedef struct {
    PyObject_HEAD
    Switches *probe;
    PyObject *enter, *leave; /* the two functions of Python's do what is unusual */
    PyObject *api, *family, *asked, *ended, *apart, *code, *apis, *number;
    unsigned long long serial;
    int which, measuring, own_frame, packed;
} Hook;

/* What `modules.py` has as `ModuleInfo`, a class of Python's. `number`: of `numbered`, in the tables of the core with this
 * `serial`. */
typedef struct {
    PyObject_HEAD
    PyObject *ref, *wrapper, *root, *api, *plain, *number;
    const PyObject *numbered;
    long long mod, told, entries;
    unsigned long long serial;
    char plainly_trained;
} Facts;

/* Modules that were asked for, by their address. */
#define MODULES 1024
typedef struct {
    const PyObject *module;
    Facts *facts;
} KnownModule;

/* The short ways of one `Recorder`: its tables and the parts that it asks. */
typedef struct {
    PyObject_HEAD
    PyObject *threads, *clock, *apis, *ctx, *args, *ret, *kinds, *lines, *infos;
    Switches *recorder, *by_hand, *sketches, *measures, *following, *given_to_models, *variables, *modules;
    Switches *optimizers, *attributes, *backwards;
    PyObject *evaluations;
    Rows *rows;
    unsigned long long serial, thread; /* the thread that called last, and its state, which it holds as long as it lives */
    ThreadState *state;
    int plain_threads;
    struct Entry *entries;      /* of `packed.c` */
    long long lookups;          /* of arguments and results, by their keys */
    long long plain_ctx[8];
    KnownCode codes[PLACES];
    KnownLine places[PLACES];
    KnownModule known[MODULES];
    long long generation;       /* of the modules that are in `known` */
} Core;

extern PyTypeObject *CallType, *ThreadStateType, *RowsType, *CoreType, *SwitchesType, *VarType, *SlotType, *EmitType;
extern PyTypeObject *FactsType;

/* Names of attributes, and what the core uses of torch; see `module.c`. */
#define NAMES(each) \
    each(state) each(dtype) each(shape) each(is_cpu) each(is_cuda) each(device) each(requires_grad) each(f_back) \
    each(f_lasti) each(ref) each(training) each(__dict__) each(layout) each(nbytes) each(_version) each(_parameters) \
    each(_buffers) each(_modules) each(is_leaf) each(grad) each(is_nested) each(is_quantized) each(__enter__) \
    each(__exit__) each(threads) each(abandon) each(members) each(params) each(id) each(param_groups) each(lr) \
    each(rates) each(seen) each(stepped) each(noted) each(_looks) each(_steps) each(_left) each(type) each(buffered) \
    each(slots) each(__code__) each(called) each(opened) each(steps) each(ended) each(note_rates) each(closure) \
    each(_places) each(noticed) each(_numbers) each(_moved) each(_terms) each(_last) each(weighed) each(grad_fn) \
    each(look_at_attributes) each(_is_initial) each(optimizer) each(_sleeping) each(look_on) each(append) \
    each(_num_yielded) each(_index_sampler) each(_known) each(sampler) each(number) each(once) \
    each(_send_idx) each(_rcvd_idx) each(_in_order) each(ahead) each(met) each(_choices)
#define DECLARE(name) extern PyObject *name_##name;
NAMES(DECLARE)
#undef DECLARE

/* A function of torch's without arguments, and how it is called without Python's help, where it can be. */
typedef struct {
    PyObject *function, *self;
    PyCFunction call;
} Question;

/* The same of a method of tensors, of which it is found out with the first tensor that is asked. */
typedef struct {
    PyObject *descriptor;
    PyCFunction call;
    int known;
} Method;

typedef struct {
    PyObject *Tensor, *Parameter, *UntypedStorage, *Size, *Module, *Frame, *no_kwargs, *compiling, *flag;
    PyObject *named[4];   /* torch.dtype, device, layout, memory_format */
    PyObject *callables[3], *partial, *iterators[2];
    Question any_autocast, grad_enabled, inference, graph_task, function_modes, profiling, transforming;
    PyObject *is_autocast, *autocast_dtype, *cpu, *gpu;
    PyObject *crc32, *strided, *norms; /* for looks */
    Method data_ptr, is_contiguous, is_conj, is_neg, is_inference, get_device, storage_offset, untyped_storage, nbytes;
    PyObject *guards[GUARDS], *set_grad, *record_functions;
    PyObject *ordered, *ref, *float32, *float64, *bfloat16, *float16, *int64, *boolean, *local;
    PyObject *get_state, *generator; /* of torch's own generator */
    PyObject *perf_counter;
    PyObject *marshalled;                /* `marshal.dumps` */
    PyObject *cuda, *started, *capturing, *sync_mode, *set_sync_mode, *nothing;   /* the last: no arguments */
} Torch;
extern Torch torch;

/* objects.c */
Call *new_call(void);
int add_objects(PyObject *module);
int truth(PyObject *object, PyObject *name);            /* whether an attribute is True; -1: neither True nor False */
PyTypeObject *make_type(PyObject *module, PyType_Spec *spec);
void keep(PyObject **place, PyObject *value);          /* in place of what is there */

/* pointers.c */
typedef struct {
    const void **table;
    size_t room;
} Pointers;
int make_pointers(Pointers *set, Py_ssize_t most);
void add_pointer(Pointers *set, const void *pointer);
int has_pointer(const Pointers *set, const void *pointer);
void free_pointers(Pointers *set);
int pointers_in(PyObject *ids, Pointers *set);

/* facts.c */
int add_facts(PyObject *module);
Facts *facts_of(Core *core, PyObject *module);
void forget_facts(Core *core);
PyObject *number_of_facts(Core *core, Facts *facts);

/* switches.c */
Switches *switches_of(PyObject *object);
int add_switches(PyObject *module);

/* rows.c */
int add_rows(PyObject *module);
long long next_of(PyObject *clock);
int write_call(Rows *rows, PyObject *clock, long long thread, long long flags, const Call *call, long long ret,
               uint64_t digest, double value);
int write_measure(Rows *rows, PyObject *clock, long long thread, long long subject, const Call *call, double value,
                  uint64_t digest, long long var, long long opt);

/* keys.c */
PyObject *key_of(PyObject *value, int depth);           /* a new reference; NULL: Python has to make it */
int is_object(PyObject *value);
int is_iterator(PyObject *value);
int is_module(PyObject *value);
PyObject *key_of_arguments(PyObject *const *given, Py_ssize_t count, PyObject *const *named, PyObject *names);
PyObject *call_key(PyObject *module, PyObject *const *given, Py_ssize_t count);
int is_single(PyObject *key);                           /* whether a tensor with this key has one element */

/* short_ways.c */
int add_core(PyObject *module);

/* packed.c */
long long known_by_key(PyObject *table, PyObject *number, PyObject *key);
long long arguments_of(Core *core, PyObject *number, PyObject *const *given, Py_ssize_t count, PyObject *const *named,
                       PyObject *names);
long long result_of(Core *core, long long api, PyObject *result, int *single);
void free_entries(Core *core);

/* begin.c */
Core *core_of(const Switches *probe, ThreadState **state, int *recorded);
Call *begin(Core *core, ThreadState *state, PyObject *api, PyObject *number, long long args, int frames, long long mod);
int end(Core *core, ThreadState *state, Call *call, PyObject *result);
int is_finite(PyObject *tensor, int single, double *value);
PyObject *number_of(Core *core, PyObject *api);
int emit_outside(Core *core, ThreadState *state, int quiet, Emit *emit);
int undisturbed(void);

int write_change(Emit *emit, long long var, long long old, long long now, uint64_t digest, double value);

/* fields.c */
int add_fields(PyObject *module);
int is_var(PyObject *object);
int is_slot(PyObject *object);

/* reads.c */
#define READS(each) \
    each(is_cpu) each(is_cuda) each(shape) each(dtype) each(layout) each(requires_grad) each(is_leaf) each(grad) \
    each(_version) each(nbytes)
#define READS_OF_FRAMES(each) each(f_back) each(f_lasti)
#define NUMBERED(name) READ_##name,
enum { READS(NUMBERED) READS_OF_FRAMES(NUMBERED) READINGS };
#undef NUMBERED
int add_readings(void);
int is_plain(PyObject *tensor);
PyObject *get_of_frame(PyObject *frame, int what);
PyObject *get(PyObject *tensor, int what);
int says(PyObject *tensor, int what);
int set_question(Question *question, PyObject *function);
PyObject *ask(const Question *question);
int asked(const Question *question);
PyObject *call_method(Method *method, PyObject *object);
int told(Method *method, PyObject *tensor);
long long number(PyObject *value);
int points_to(PyObject *ref, const PyObject *object);
int pointed_to(PyObject *ref, PyObject **object);       /* a new reference: 1, 0 where it has died, -1 where it is none */
PyObject *entries_in(PyObject *object);                 /* its own dictionary, a new reference, or NULL */

/* checksum.c */
long long checksum(uint32_t before, const void *bytes, Py_ssize_t size);
PyObject *checksum_of(PyObject *module, PyObject *given);

/* blocks.c */
void find_exchange(void);
PyObject *use_exchange(PyObject *module, PyObject *wanted);
int told_at_once(PyObject *tensor, uint64_t *kind, int *dimensions, const int64_t **shape);
int width_of(PyObject *tensor, Block *block);
int block_of(PyObject *tensor, int checked, Block *block);
int readable(PyObject *tensor, long long known, Block *block);
int readable_again(PyObject *gradient, const Var *var, Block *block);

/* looks.c */
int has_near_norm(PyObject *tensor, Block *block);
int take_look(PyObject *tensor, Block *block, int finite, int known, Look *seen, double *norm);
PyObject *norms_of_each(PyObject *module, PyObject *tensors);
int all_finite(const void *bytes, long long size, int wide);
int is_negated(PyObject *tensor);
void drop_sample(PyObject *sample);
int unchanged(PyObject *tensor, long long version, long long pointer, long long size, PyObject *sample);
PyObject *use_registers(PyObject *module, PyObject *size);
PyObject *look(PyObject *module, PyObject *given);
int hash_nested(PyObject *value, int depth, uint64_t *digest);
PyObject *digest_of_nested(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *looks_same(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* walks.c */
enum { ABSENT, ZERO, NONZERO, NONFINITE, FALSE_, TRUE_, VALUE, UNSEEN }; /* as in `digest.py` */
enum { VALUES, BUFFERS, STEP };                                          /* as in `variables.py` */
enum { UNASKED = -2 };                                                   /* what nobody has asked yet */
PyObject *walk_values(PyObject *module, PyObject *const *given, Py_ssize_t count);
int all_same(PyObject *slots, int values, int gradients);
Py_ssize_t look_at_values(PyObject *slots, Py_ssize_t index, int what, Emit *emit, Emit *outside, const Pointers *own,
                          const Pointers *optimized, PyObject *ahead); /* where it stopped, -1 with an exception */
int may_write(const Var *var, int state, uint64_t digest, const Emit *emit);
int write_look(Var *var, int state, uint64_t digest, double value, Emit *emit);
void remember(Var *var, PyObject *tensor, Look *seen);
Emit *emit_of(PyObject *object);
PyObject *as_index(Py_ssize_t index);
PyObject *ahead_of(PyObject *object);
int can_forget(PyObject *slots);
void forget_all(PyObject *slots, char *replaced);
Py_ssize_t look_at_all(PyObject *slots, Py_ssize_t index, Emit *emit);
void let_go(Holder *holder);
int held_by(const Slot *slot, Holder *holder, PyObject **tensor);
int held(const Slot *slot, PyObject **tensor);
int same_as_before(const Var *var, PyObject *tensor);
PyObject *walk_again(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* gradients.c */
int gradient_in(Slot *slot, PyObject *tensor, int trained, int full, Emit *emit, PyObject *present, PyObject *readables,
                int far, Present *near);
Py_ssize_t look_at_gradients(PyObject *slots, Py_ssize_t index, int full, Emit *emit, PyObject *present,
                             PyObject *readables, int far, Present *near); /* where it stopped, -1 with an exception */
int look_at_numbers(Core *core, ThreadState *state, PyObject *slots, int full, Emit *emit);
PyObject *walk_gradients(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *walk_measured(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* far.c */
uint64_t finished(uint64_t checksum, uint64_t size);
int is_far(PyObject *tensor, long long known);
int look_ahead(PyObject *ahead, PyObject *tensor, int finite, int known, Look *seen);
PyObject *gpu_entries(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *gpu_found(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *walk_far(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* guards.c */
int add_guards(PyObject *module);
PyObject *quietly(ThreadState *state, PyObject *function, PyObject *given);

/* settled.c */
int are_settled(const Switches *modules, const Switches *variables, PyObject *among);
int are_same_groups(PyObject *groups, PyObject *before, PyObject *apart);
int may_read_gradients(Core *core, int training);
int nothing_changed(Core *core, int values, int gradients);
PyObject *shape_of(PyObject *module, PyObject *members);
PyObject *names_settled(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *same_groups(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *nothing_new(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* steady.c */
void forget(ThreadState *state, const Call *call);
int is_unset(const PyObject *field);
Switches *sampling_of(const Switches *recorder);
PyObject *attribute(PyObject *object, PyObject *name);  /* a new reference, or NULL without an exception */
long long whole(PyObject *object, PyObject *name, long long missing);
int is_observable(void);
int is_steady(Core *core, ThreadState *state);
int within_backward(void);
int is_step(const Call *call);
int is_in_step(const ThreadState *state);
int follow(const Core *core, PyObject *name, ThreadState *state, Call *call, PyObject *given);
PyObject *slots_of(Core *core);
Emit emit_in(Core *core, ThreadState *state, const Call *call);
int was_looked_at(Core *core, PyObject *number, long long mod, int training);
PyObject *known_of(PyObject *infos, PyObject *object);
PyObject *learnt(PyObject *apis, PyObject *object);
void learn(PyObject *apis, PyObject *object, PyObject *call);

/* follows.c */
int add_follows(void);
int follow_inputs(Core *core, ThreadState *state, Call *call, PyObject *inputs);
int follow_loss(Core *core, ThreadState *state, Call *call);
int follow_generators(Core *core, ThreadState *state, Call *call);
int follow_step(Core *core, ThreadState *state, Call *call);
int is_measured(Core *core, PyObject *name);            /* whether the name of a measure has its number */
int take(Core *core, ThreadState *state, PyObject *name, const Call *call, double value, uint64_t digest);

/* sampling.c */
int add_sampling(void);
int observed_step_ended(Core *core, PyObject *functions, PyObject *optimizer);
int unobserved_step_ended(Core *core, ThreadState *state, PyObject *functions, PyObject *optimizer);

/* entries.c */
PyObject *same_attributes(PyObject *module, PyObject *const *given, Py_ssize_t count);

/* hook.c */
Hook *new_hook(PyObject *probe, PyObject *enter, PyObject *leave);
PyObject *functions_of(Hook *hook, PyMethodDef *methods, Py_ssize_t count);
int add_hook(PyObject *module);
#define HOLD(hook, field, value) (Py_INCREF(value), (hook)->field = (value))

/* parts.c */
PyObject *part_hooks(PyObject *module, PyObject *given);

/* batches.c */
PyObject *batch_hooks(PyObject *module, PyObject *given);
PyObject *choice_hooks(PyObject *module, PyObject *given);
int add_batches(void);

/* watches.c */
PyObject *watch_hook(PyObject *module, PyObject *given);
PyObject *unless_hushed(PyObject *module, PyObject *given);

/* switch.c */
PyObject *exchange(PyObject *module, PyObject *given);

/* steps.c */
PyObject *step_hooks(PyObject *module, PyObject *given);
PyObject *groups_of(PyObject *optimizer);

/* rates.c */
int same_rates(PyObject *info, PyObject *groups);
int note_rates(PyObject *info, PyObject *groups, Emit *emit);
int rates_again(PyObject *info, PyObject *groups, Emit *emit);

/* hooks.c */
PyObject *in_python(PyObject *function, PyObject *const *given, Py_ssize_t count, PyObject *names);
int is_training(PyObject *module, const Facts *info);
PyObject *function_hooks(PyObject *module, PyObject *given);
PyObject *module_hooks(PyObject *module, PyObject *given);

#endif
