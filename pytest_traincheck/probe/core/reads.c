/* What is asked many times a step: attributes of tensors and frames, without looking them up each time, and functions of
 * torch's without arguments, without a call of Python's; and how answers are read. */

#include "core.h"

typedef struct {
    PyObject *name, *descriptor;
    descrgetfunc get;
} Reading;

static Reading readings[READINGS];

/* How a class has an attribute, for `get`; -1 with an exception. */
static int add_reading(PyObject *type, int what, PyObject *name)
{
    Reading *reading = &readings[what];
    reading->name = name;
    reading->descriptor = PyObject_GetAttr(type, name);
    if (reading->descriptor == NULL) return -1;
    reading->get = (descrgetfunc)PyType_GetSlot(Py_TYPE(reading->descriptor), Py_tp_descr_get);
    return 0;
}

int add_readings(void)
{
#define ADD(name) if (add_reading(torch.Tensor, READ_##name, name_##name) < 0) return -1;
    READS(ADD)
#undef ADD
#define ADD(name) if (add_reading(torch.Frame, READ_##name, name_##name) < 0) return -1;
    READS_OF_FRAMES(ADD)
#undef ADD
    return 0;
}

int is_plain(PyObject *tensor)
{
    PyObject *kind = (PyObject *)Py_TYPE(tensor);
    return kind == torch.Tensor || kind == torch.Parameter;
}

/* An attribute of a tensor: a new reference, or NULL with an exception. */
PyObject *get(PyObject *tensor, int what)
{
    const Reading *reading = &readings[what];
    /* Neither class says how attributes are found, so each is what `Tensor` has under that name. */
    if (reading->get == NULL || !is_plain(tensor)) return PyObject_GetAttr(tensor, reading->name);
    return reading->get(reading->descriptor, tensor, (PyObject *)Py_TYPE(tensor));
}

/* The same of a frame, of whose class there are no others. */
PyObject *get_of_frame(PyObject *frame, int what)
{
    const Reading *reading = &readings[what];
    if (reading->get == NULL) return PyObject_GetAttr(frame, reading->name);
    return reading->get(reading->descriptor, frame, torch.Frame);
}

/* Whether an attribute is True; -1: neither True nor False. */
int says(PyObject *tensor, int what)
{
    PyObject *found = get(tensor, what);
    int answer = found == Py_True ? 1 : found == Py_False ? 0 : -1;
    if (found == NULL) PyErr_Clear();
    Py_XDECREF(found);
    return answer;
}

/* Takes the reference to a function; NULL: there is none. */
int set_question(Question *question, PyObject *function)
{
    if (function == NULL) return -1;
    question->function = function;
    question->call = NULL;
    if (PyCFunction_Check(function) && PyCFunction_GetFlags(function) == METH_NOARGS) {
        question->call = PyCFunction_GetFunction(function);
        question->self = PyCFunction_GetSelf(function);
    }
    return 0;
}

/* What a function without arguments returns: a new reference, or NULL with an exception. */
PyObject *ask(const Question *question)
{
    return question->call != NULL ? question->call(question->self, NULL) : PyObject_CallNoArgs(question->function);
}

/* Whether it says so; -1, without an exception, where it says neither. */
int asked(const Question *question)
{
    PyObject *answer = ask(question);
    int found = answer == Py_True ? 1 : answer == Py_False ? 0 : -1;
    if (answer == NULL) PyErr_Clear();
    Py_XDECREF(answer);
    return found;
}

/* What the descriptor of a method makes of an object is a function of C's, as a rule, which takes the object alone. */
static void learn_method(Method *method, PyObject *object)
{
    PyObject *kind = (PyObject *)Py_TYPE(method->descriptor), *bound;
    descrgetfunc bind = (descrgetfunc)PyType_GetSlot((PyTypeObject *)kind, Py_tp_descr_get);
    bound = bind == NULL ? NULL : bind(method->descriptor, object, (PyObject *)Py_TYPE(object));
    if (bound != NULL && PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == METH_NOARGS &&
        PyCFunction_GetSelf(bound) == object)
        method->call = PyCFunction_GetFunction(bound);
    method->known = 1;
    PyErr_Clear();
    Py_XDECREF(bound);
}

/* What a method of a tensor, or of its storage, returns without arguments: a new reference, or NULL with an exception. */
PyObject *call_method(Method *method, PyObject *object)
{
    int plain = is_plain(object) || (PyObject *)Py_TYPE(object) == torch.UntypedStorage;
    if (plain && !method->known) learn_method(method, object);
    if (!plain || method->call == NULL) return PyObject_CallFunctionObjArgs(method->descriptor, object, NULL);
    return method->call(object, NULL);
}

/* Whether a method of a tensor says so: 1, 0, or -1 without an exception. */
int told(Method *method, PyObject *tensor)
{
    PyObject *answer = call_method(method, tensor);
    int found = answer == Py_True ? 1 : answer == Py_False ? 0 : -1;
    if (answer == NULL) PyErr_Clear();
    Py_XDECREF(answer);
    return found;
}

/* A number, of which it takes the reference; -1 without an exception where there is none. */
long long number(PyObject *value)
{
    long long found = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        found = -1;
    }
    Py_XDECREF(value);
    return found;
}

/* Whether a weak reference, as torch or Python makes them, is one to this object. */
int points_to(PyObject *ref, const PyObject *object)
{
    return (PyObject *)Py_TYPE(ref) == torch.ref && PyWeakref_GetObject(ref) == object;
}

/* What a weak reference points to, a new reference: 1, 0 where it has died, -1 where it is none. */
int pointed_to(PyObject *ref, PyObject **object)
{
    *object = (PyObject *)Py_TYPE(ref) == torch.ref ? PyWeakref_GetObject(ref) : NULL;
    if (*object == NULL) {
        PyErr_Clear();
        return -1;
    }
    if (*object == Py_None) {
        *object = NULL;
        return 0;
    }
    Py_INCREF(*object);
    return 1;
}

/* The dictionary of an object, a new reference, or NULL without an exception. Its class is not asked. */
PyObject *entries_in(PyObject *object)
{
    PyObject *entries = PyObject_GenericGetDict(object, NULL);
    if (entries != NULL && PyDict_CheckExact(entries)) return entries;
    PyErr_Clear();
    Py_XDECREF(entries);
    return NULL;
}
