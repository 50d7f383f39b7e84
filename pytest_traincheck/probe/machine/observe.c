/* How a built-in function of Python's is observed without a frame of Python's standing between it and its caller.
 *
 * A hook is told when the function begins (`enter`) and how it ends (`leave`, `raised`); the function itself is called
 * from here, as it would be without the probe. Nothing is linked: every address comes from the `Api` that the hook
 * names, so the same bytes serve every version of CPython. `make.py` compiles this file into `code.py`.
 */

#include <stddef.h>

typedef struct object Object;
typedef Object *(*Vectorcall)(Object *, Object *const *, size_t, Object *);

struct Api {
    Vectorcall vectorcall;                            /* PyObject_Vectorcall */
    void (*fetch)(Object **, Object **, Object **);   /* PyErr_Fetch */
    void (*restore)(Object *, Object *, Object *);    /* PyErr_Restore */
    void (*release)(Object *);                        /* Py_DecRef */
    int (*matches)(Object *);                         /* PyErr_ExceptionMatches */
    Object *none;                                     /* Py_None */
    Object *too_deep;                                 /* PyExc_RecursionError */
};

struct Hook {
    const struct Api *api;
    Object *enter, *leave, *raised;
    Object *original;                                 /* a function that does what the observed one does */
    Object *(*method)(Object *, Object *, Object *);  /* what a method descriptor calls */
};

/* What stands in for `PyObject_Vectorcall` in CPython 3.10, which has it in a header and in no library. */
struct Caller {
    Object *(*make_call)(void *, Object *, Object *const *, size_t, Object *); /* _PyObject_MakeTpCall */
    void *(*thread)(void);                                                     /* PyThreadState_Get */
};

/* The beginning of `PyObject` and `PyTypeObject`, as far as it is read here; in 3.10 nothing of it changes any more. */
struct Type {
    char head[56];
    size_t offset;                                    /* tp_vectorcall_offset */
    char slots[104];
    unsigned long flags;                              /* tp_flags */
};

struct object {
    size_t references;
    const struct Type *type;
};

#define HAS_VECTORCALL (1ul << 11)

/* PY_VECTORCALL_ARGUMENTS_OFFSET: the callee may use the place before the first argument for a while. */
#define BORROWED ((size_t)1 << (8 * sizeof(size_t) - 1))

/* A program may be so deep in calls that there is no room for a hook: then it is not told, and that is all. */
static int only_too_deep(const struct Api *api)
{
    Object *type, *value, *traceback;
    if (!api->matches(api->too_deep)) return 0;
    api->fetch(&type, &value, &traceback);
    if (type != NULL) api->release(type);
    if (value != NULL) api->release(value);
    if (traceback != NULL) api->release(traceback);
    return 1;
}

static Object *ended(const struct Hook *hook, Object *call, Object *result)
{
    const struct Api *api = hook->api;
    Object *given[2] = {call, result};
    Object *told;

    if (call == api->none) {
        api->release(call);
        return result;
    }
    if (result != NULL) {
        told = api->vectorcall(hook->leave, given, 2, NULL);
        if (told == NULL && !only_too_deep(api)) {
            api->release(result);
            result = NULL;
        }
    } else {
        Object *type, *value, *traceback;
        api->fetch(&type, &value, &traceback);
        told = api->vectorcall(hook->raised, given, 1, NULL);
        if (told != NULL || only_too_deep(api)) {
            api->restore(type, value, traceback);
        } else {
            /* What a signal handler has raised meanwhile takes the place of what was on its way. */
            if (type != NULL) api->release(type);
            if (value != NULL) api->release(value);
            if (traceback != NULL) api->release(traceback);
        }
    }
    if (told != NULL) api->release(told);
    api->release(call);
    return result;
}

/* In the place of a function's `vectorcall`. */
Object *function_called(Object *callable, Object *const *args, size_t count, Object *names, const struct Hook *hook)
{
    Object *call = hook->api->vectorcall(hook->enter, args, count & ~BORROWED, names);
    (void)callable;
    if (call == NULL) return only_too_deep(hook->api) ? hook->api->vectorcall(hook->original, args, count, names) : NULL;
    return ended(hook, call, hook->api->vectorcall(hook->original, args, count, names));
}

/* In the place of the C function that a method descriptor calls; `enter` gets the three as they are. */
Object *method_called(Object *self, Object *args, Object *named, const struct Hook *hook)
{
    Object *given[3] = {self, args, named != NULL ? named : hook->api->none};
    Object *call = hook->api->vectorcall(hook->enter, given, 3, NULL);
    if (call == NULL) return only_too_deep(hook->api) ? hook->method(self, args, named) : NULL;
    return ended(hook, call, hook->method(self, args, named));
}

/* In the place of `PyObject_Vectorcall`, where there is none. */
Object *called(Object *callable, Object *const *args, size_t count, Object *names, const struct Caller *caller)
{
    if (callable->type->flags & HAS_VECTORCALL) {
        Vectorcall own = *(const Vectorcall *)((const char *)callable + callable->type->offset);
        if (own != NULL) return own(callable, args, count, names);
    }
    return caller->make_call(caller->thread(), callable, args, count & ~BORROWED, names);
}
