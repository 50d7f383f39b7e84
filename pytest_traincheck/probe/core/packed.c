/* The numbers that arguments and results have in the trace, without making their keys: what a key consists of is packed
 * into words, and those that have been before are kept with their numbers. What cannot be packed has a key. */

#include "core.h"

#define WORDS 40
#define ENTRIES 512
#define ITEMS 16                /* as in `keys.c` */
#define TEXT 80

typedef struct {
    int count;
    uint64_t words[WORDS];
} Packed;

typedef struct Entry {
    long long number;
    Packed packed;
} Entry;

enum { OF_ARGUMENTS = 1, OF_RESULT };
enum { NONE = 1, TRUTH, NUMBER, FRACTION, STRING, TENSOR, ITEM, CONSTANT, NAMED };

static int put(Packed *packed, uint64_t word)
{
    if (packed->count == WORDS) return 0;
    packed->words[packed->count++] = word;
    return 1;
}

static uint64_t address(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

static int put_text(Packed *packed, PyObject *text)
{
    Py_ssize_t index, length = PyUnicode_GetLength(text);
    uint64_t word = 0;
    if (length > TEXT) length = TEXT;
    if (!put(packed, STRING | (uint64_t)length << 8)) return 0;
    for (index = 0; index < length; index++) {
        word = word << 32 | PyUnicode_ReadChar(text, index);
        if ((index % 2 || index + 1 == length) && !put(packed, word)) return 0;
        if (index % 2) word = 0;
    }
    return 1;
}

/* Sizes, and whether a tensor has one element. */
static int put_sizes(Packed *packed, const int64_t *sizes, int count, int *single)
{
    int index, whole = 1;
    *single = 1;
    for (index = 0; whole && index < count; index++) {
        whole = sizes[index] >= 0 && put(packed, (uint64_t)sizes[index]);
        *single = *single && sizes[index] == 1;
    }
    return whole;
}

static int put_kind(Packed *packed, int trained, int count, uint64_t kind)
{
    return put(packed, TENSOR | (uint64_t)trained << 8 | (uint64_t)count << 16) && put(packed, kind);
}

/* A tensor on the CPU of which torch does not tell all at once, attribute by attribute. */
static int put_asked(Packed *packed, PyObject *tensor, int trained, int *single)
{
    int64_t sizes[WORDS];
    PyObject *shape, *dtype;
    Py_ssize_t index, count;
    int whole = says(tensor, READ_is_cpu) == 1;
    dtype = whole ? get(tensor, READ_dtype) : NULL;
    if (dtype == NULL) return 0;
    Py_DECREF(dtype); /* torch has one of each and keeps it; its address is even */
    shape = get(tensor, READ_shape);
    if (shape == NULL) return 0;
    count = (PyObject *)Py_TYPE(shape) == torch.Size ? PyTuple_Size(shape) : WORDS;
    whole = count < WORDS && put_kind(packed, trained, (int)count, address(dtype));
    for (index = 0; whole && index < count; index++) {
        PyObject *size = PyTuple_GetItem(shape, index);
        sizes[index] = size != NULL && PyLong_CheckExact(size) ? PyLong_AsLongLong(size) : -1; /* not a symbol */
    }
    Py_DECREF(shape);
    return whole && put_sizes(packed, sizes, (int)count, single);
}

/* A tensor on the CPU: `single` is told whether it has one element. */
static int put_tensor(Packed *packed, PyObject *tensor, int *single)
{
    const int64_t *sizes;
    uint64_t kind;
    int count, trained = says(tensor, READ_requires_grad);
    if (trained < 0) return 0;
    if (!told_at_once(tensor, &kind, &count, &sizes)) return put_asked(packed, tensor, trained, single);
    return put_kind(packed, trained, count, kind) && put_sizes(packed, sizes, count, single);
}

static int put_number(Packed *packed, PyObject *value)
{
    union {
        double fraction;
        long long whole;
        uint64_t word;
    } found;
    if (PyFloat_CheckExact(value)) {
        found.fraction = PyFloat_AsDouble(value);
        return found.fraction == found.fraction && put(packed, FRACTION) && put(packed, found.word);
    }
    found.whole = PyLong_AsLongLong(value);
    if (found.whole == -1 && PyErr_Occurred()) return 0;
    return put(packed, PyBool_Check(value) ? TRUTH : NUMBER) && put(packed, found.word);
}

/* As `key_of`. */
static int put_value(Packed *packed, PyObject *value, int depth, int *single)
{
    PyObject *kind = (PyObject *)Py_TYPE(value);
    int list = PyList_CheckExact(value), unused;
    *single = 0;
    if (is_plain(value)) return put_tensor(packed, value, single);
    if (value == Py_None) return put(packed, NONE);
    if (PyUnicode_CheckExact(value)) return put_text(packed, value);
    if (PyLong_CheckExact(value) || PyBool_Check(value) || PyFloat_CheckExact(value)) return put_number(packed, value);
    if (list || PyTuple_CheckExact(value) || kind == torch.Size) {
        Py_ssize_t index, count = !depth ? 0 : list ? PyList_Size(value) : PyTuple_Size(value);
        if (count > ITEMS) count = ITEMS;
        if (!put(packed, ITEM | (uint64_t)depth << 8 | (uint64_t)count << 16) || !put(packed, address(kind))) return 0;
        for (index = 0; index < count; index++) {
            PyObject *item = list ? PyList_GetItem(value, index) : PyTuple_GetItem(value, index);
            if (item == NULL || !put_value(packed, item, depth - 1, &unused)) return 0;
        }
        return 1;
    }
    if (is_iterator(value)) return put(packed, CONSTANT) && put(packed, address(kind));
    /* torch has one of each dtype, layout and format; of devices it makes new ones. */
    if (kind == torch.named[0] || kind == torch.named[2] || kind == torch.named[3])
        return put(packed, CONSTANT) && put(packed, address(value));
    return 0;
}

/* Where words are kept, if they are: their entry, or the one that they may take. */
static Entry *entry_of(Core *core, const Packed *packed)
{
    uint64_t hash = 0;
    int index;
    if (core->entries == NULL) {
        core->entries = PyMem_Malloc(ENTRIES * sizeof(Entry));
        if (core->entries == NULL) return NULL;
        memset(core->entries, 0, ENTRIES * sizeof(Entry));
    }
    for (index = 0; index < packed->count; index++) {
        hash = (hash ^ packed->words[index]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return &core->entries[hash % ENTRIES];
}

static int is_kept(const Entry *entry, const Packed *packed)
{
    return entry->packed.count == packed->count &&
           !memcmp(entry->packed.words, packed->words, (size_t)packed->count * sizeof *packed->words);
}

/* What a table says of `(number, key)`; -1 where it says nothing, or there is no key, to which it takes the reference. */
long long known_by_key(PyObject *table, PyObject *number, PyObject *key)
{
    PyObject *full = number == NULL || key == NULL ? NULL : PyTuple_Pack(2, number, key);
    PyObject *found = full == NULL ? NULL : PyDict_GetItemWithError(table, full);
    long long known = found == NULL ? -1 : PyLong_AsLongLong(found);
    Py_XDECREF(full);
    Py_XDECREF(key);
    if (known < 0) PyErr_Clear();
    return known;
}

static long long kept(Core *core, const Packed *packed, PyObject *table, PyObject *number, PyObject *key)
{
    Entry *entry = packed->count ? entry_of(core, packed) : NULL;
    long long found = known_by_key(table, number, key);
    if (entry != NULL && found >= 0) { /* neither table ever changes what it has said */
        entry->number = found;
        entry->packed.count = packed->count;
        memcpy(entry->packed.words, packed->words, (size_t)packed->count * sizeof *packed->words);
    }
    return found;
}

/* The number of arguments of the function with this number; -1 where Python has to find it. */
long long arguments_of(Core *core, PyObject *number, PyObject *const *given, Py_ssize_t count, PyObject *const *named,
                       PyObject *names)
{
    Packed packed = {0};
    Entry *entry;
    Py_ssize_t index, others = names == NULL ? 0 : PyTuple_Size(names);
    int whole, unused;
    whole = put(&packed, OF_ARGUMENTS | (uint64_t)count << 8 | (uint64_t)others << 32) &&
            put(&packed, (uint64_t)PyLong_AsLongLong(number));
    for (index = 0; whole && index < count; index++) whole = put_value(&packed, given[index], 2, &unused);
    for (index = 0; whole && index < others; index++)
        whole = put(&packed, NAMED) && put_text(&packed, PyTuple_GetItem(names, index)) &&
                put_value(&packed, named[index], 2, &unused);
    if (!whole) {
        PyErr_Clear();
        packed.count = 0;
    } else if ((entry = entry_of(core, &packed)) != NULL && is_kept(entry, &packed)) {
        return entry->number;
    }
    return kept(core, &packed, core->args, number, key_of_arguments(given, count, named, names));
}

static PyObject *nothing_returned; /* what stands for it in the table of results: `symbols._NONE` */

static PyObject *key_of_result(PyObject *result)
{
    if (result != Py_None) return key_of(result, 2);
    if (nothing_returned == NULL) nothing_returned = Py_BuildValue("(s)", "none");
    Py_XINCREF(nothing_returned);
    return nothing_returned;
}

/* The number of what a function has returned, as `arguments_of`; `single` is told whether it is a tensor of one element. */
long long result_of(Core *core, long long api, PyObject *result, int *single)
{
    Packed packed = {0};
    Entry *entry;
    PyObject *number, *key;
    long long found;
    if (!put(&packed, OF_RESULT) || !put(&packed, (uint64_t)api) || !put_value(&packed, result, 2, single)) {
        PyErr_Clear();
        packed.count = 0;
    } else if ((entry = entry_of(core, &packed)) != NULL && is_kept(entry, &packed)) {
        return entry->number;
    }
    key = key_of_result(result);
    if (key != NULL && is_plain(result)) *single = is_single(key);
    number = PyLong_FromLongLong(api);
    found = kept(core, &packed, core->ret, number, key);
    Py_XDECREF(number);
    PyErr_Clear();
    return found;
}
