/* `Switches`: what parts of the probe keep where the core reads it, as `switches.py` says. Each of its subclasses uses some
 * of the fields. */

#include "core.h"

PyTypeObject *SwitchesType;

#define FLAGS(do) \
    do(wanted) do(early) do(waits) do(asleep) do(met) do(unseen) do(replaced) do(gradients_dirty) do(with_norms) do(values_moved) \
    do(hushed) do(may_sleep) do(evaluated) do(fetches)
#define NUMBERS(do) do(entries_left) do(generation)
#define OBJECTS(do) do(recorder) do(native) do(sampling) do(limit) do(patches) do(step_code)
#define PRIVATE(do) do(every) do(pending) do(infos) do(roots) do(empty) do(leaves) do(several) do(rate) do(unobserved)

static int switches_traverse(Switches *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
#define VISIT(field) Py_VISIT(self->field);
    OBJECTS(VISIT) PRIVATE(VISIT)
    return 0;
}

static int switches_clear(Switches *self)
{
#define CLEAR(field) Py_CLEAR(self->field);
    OBJECTS(CLEAR) PRIVATE(CLEAR)
    return 0;
}

static void switches_dealloc(Switches *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    switches_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *switches_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    return PyType_GenericAlloc(type, 0);
}

#define FLAG(field) {#field, T_BOOL, offsetof(Switches, field), 0, NULL},
#define NUMBER(field) {#field, T_LONGLONG, offsetof(Switches, field), 0, NULL},
#define OBJECT(field) {#field, T_OBJECT, offsetof(Switches, field), 0, NULL},
#define UNDERSCORED(field) {"_" #field, T_OBJECT, offsetof(Switches, field), 0, NULL},
#define OWN(name, type, field) {name, type, offsetof(Switches, field), 0, NULL}

static PyMemberDef switches_members[] = {
    FLAGS(FLAG) NUMBERS(NUMBER) OBJECTS(OBJECT) PRIVATE(UNDERSCORED)
    OWN("_suspicious", T_BOOL, suspicious), OWN("_asleep", T_BOOL, put_to_sleep), OWN("_generation", T_LONGLONG, known),
    OWN("_calls", T_LONGLONG, calls), OWN("_calls_left", T_LONGLONG, calls_left), OWN("_depth", T_LONGLONG, depth),
    OWN("_iteration", T_LONGLONG, iteration), OWN("every", T_LONGLONG, every_so_many), OWN("_lead", T_LONGLONG, lead),
    OWN("_others", T_LONGLONG, others), OWN("_others_usual", T_LONGLONG, others_usual),
    OWN("_inside", T_LONGLONG, inside), OWN("_marked", T_BOOL, marked), OWN("_whole", T_BOOL, whole),
    OWN("_timed", T_BOOL, timed), OWN("_since", T_DOUBLE, since), OWN("_settled", T_BOOL, settled), OWN("slept", T_BOOL, slept),
    OWN("_open", T_LONGLONG, opened),
    OWN("_looks_left", T_LONGLONG, looks_left), {NULL, 0, 0, 0, NULL},
};

static PyType_Slot switches_slots[] = {
    {Py_tp_doc, "What the compiled core reads of a part of the probe."},
    {Py_tp_new, switches_new},
    {Py_tp_dealloc, switches_dealloc},
    {Py_tp_traverse, switches_traverse},
    {Py_tp_clear, switches_clear},
    {Py_tp_members, switches_members},
    {0, NULL},
};

static PyType_Spec switches_spec = {
    "pytest_traincheck.probe.core._core.Switches", sizeof(Switches), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, switches_slots,
};

/* The switches of an object; NULL with an exception where it has none. */
Switches *switches_of(PyObject *object)
{
    if (PyObject_TypeCheck(object, SwitchesType)) return (Switches *)object;
    PyErr_SetString(PyExc_TypeError, "a part of the probe has no switches");
    return NULL;
}

int add_switches(PyObject *module)
{
    SwitchesType = make_type(module, &switches_spec);
    return SwitchesType == NULL ? -1 : 0;
}
