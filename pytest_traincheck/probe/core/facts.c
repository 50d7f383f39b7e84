/* `Facts`: what `modules.py` has as `ModuleInfo`, a class of Python's that adds methods. */

#include "core.h"

PyTypeObject *FactsType;

#define OBJECTS(do) do(ref) do(wrapper) do(root) do(api) do(plain)
#define HELD(do) OBJECTS(do) do(number)

static int facts_traverse(Facts *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
#define VISIT(field) Py_VISIT(self->field);
    HELD(VISIT)
    return 0;
}

static int facts_clear(Facts *self)
{
#define CLEAR(field) Py_CLEAR(self->field);
    HELD(CLEAR)
    return 0;
}

static void facts_dealloc(Facts *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    facts_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *facts_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    return PyType_GenericAlloc(type, 0);
}

#define OBJECT(name) {#name, T_OBJECT, offsetof(Facts, name), 0, NULL},
#define NUMBER(name) {#name, T_LONGLONG, offsetof(Facts, name), 0, NULL}

static PyMemberDef facts_members[] = {
    OBJECTS(OBJECT) NUMBER(mod), NUMBER(told), NUMBER(entries),
    {"plainly_trained", T_BOOL, offsetof(Facts, plainly_trained), 0, NULL}, {NULL, 0, 0, 0, NULL},
};

static PyType_Slot facts_slots[] = {
    {Py_tp_doc, "What is known of one module."},
    {Py_tp_new, facts_new},
    {Py_tp_dealloc, facts_dealloc},
    {Py_tp_traverse, facts_traverse},
    {Py_tp_clear, facts_clear},
    {Py_tp_members, facts_members},
    {0, NULL},
};

static PyType_Spec facts_spec = {
    "pytest_traincheck.probe.core._core.Facts", sizeof(Facts), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, facts_slots,
};

int add_facts(PyObject *module)
{
    FactsType = make_type(module, &facts_spec);
    return FactsType == NULL ? -1 : 0;
}

/* Takes the reference. */
static void keep_facts(Facts **place, Facts *facts)
{
    Facts *before = *place;
    *place = facts;
    Py_XDECREF((PyObject *)before);
}

void forget_facts(Core *core)
{
    int place;
    for (place = 0; place < MODULES; place++) keep_facts(&core->known[place].facts, NULL);
}

/* What is known of a module: a new reference, or NULL without an exception. What is remembered keeps nothing for longer
 * than `Modules` does, which drops what has died whenever it gives names anew. */
Facts *facts_of(Core *core, PyObject *module)
{
    KnownModule *place = &core->known[((uintptr_t)module >> 4) % MODULES];
    Facts *found = place->module == module ? place->facts : NULL;
    if (core->generation != core->modules->generation) {
        core->generation = core->modules->generation;
        forget_facts(core);
        found = NULL;
    }
    if (found != NULL && found->ref != NULL && points_to(found->ref, module)) {
        Py_INCREF(found);
        return found;
    }
    found = (Facts *)known_of(core->infos, module);
    if (found == NULL || !PyObject_TypeCheck((PyObject *)found, FactsType)) {
        Py_XDECREF((PyObject *)found);
        return NULL;
    }
    Py_INCREF(found);
    place->module = module;
    keep_facts(&place->facts, found);
    return found;
}

/* The number that calls of such modules have, a borrowed reference, or NULL. */
PyObject *number_of_facts(Core *core, Facts *facts)
{
    if (facts->number == NULL || facts->serial != core->serial || facts->numbered != facts->api) {
        PyObject *number = number_of(core, facts->api);
        if (number == NULL) return NULL;
        if (facts->number == NULL) {
            Py_INCREF(number);
            facts->number = number;
        } else {
            keep(&facts->number, number);
        }
        facts->serial = core->serial;
        facts->numbered = facts->api;
    }
    return facts->number;
}
