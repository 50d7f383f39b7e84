/* The numbers that arguments and results have in the trace, without making their keys: what a key consists of is packed
 * into words, and those that have been before are kept with their numbers. What cannot be packed has a key. */

#include "core.h"

#define WORDS 160               /* attention, with all that it is given by name, takes 58 */
#define ENTRIES 4096
#define WAYS 4                  /* entries that words may take: of one, two that want it would drive each other out */
#define ITEMS 16                /* as in `keys.c` */
#define TEXT 80

typedef struct {
    int count;
    uint64_t words[WORDS];
} Packed;

typedef struct Entry {
    uint64_t hash, *words;
    int count;
    long long number;
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

/* Eight characters to a word where all of them are of one byte, as in the names of arguments, and two otherwise. */
static int put_text(Packed *packed, PyObject *text)
{
    Py_UCS4 characters[TEXT], all = 0;
    Py_ssize_t index, length = PyUnicode_GetLength(text);
    uint64_t word = 0;
    int narrow, bits;
    if (length > TEXT) length = TEXT;
    for (index = 0; index < length; index++) all |= characters[index] = PyUnicode_ReadChar(text, index);
    narrow = all < 256;
    bits = narrow ? 8 : 32;
    if (!put(packed, STRING | (uint64_t)length << 8 | (uint64_t)narrow << 16)) return 0;
    for (index = 0; index < length; index++) {
        word = word << bits | characters[index];
        if (((index + 1) * bits % 64 == 0 || index + 1 == length) && !put(packed, word)) return 0;
        if ((index + 1) * bits % 64 == 0) word = 0;
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

static uint64_t hash_of(const Packed *packed)
{
    uint64_t hash = 0;
    int index;
    for (index = 0; index < packed->count; index++) {
        hash = (hash ^ packed->words[index]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Where words with this hash are kept; NULL where they are not. */
static const Entry *entry_of(const Core *core, const Packed *packed, uint64_t hash)
{
    int way;
    for (way = 0; core->entries != NULL && way < WAYS; way++) {
        const Entry *entry = &core->entries[(hash + way) % ENTRIES];
        if (entry->hash == hash && entry->count == packed->count &&
            !memcmp(entry->words, packed->words, (size_t)packed->count * sizeof *packed->words))
            return entry;
    }
    return NULL;
}

/* Keeps words in an entry that is free, or in place of others. */
static void keep_words(Core *core, const Packed *packed, uint64_t hash, long long number)
{
    size_t size = (size_t)packed->count * sizeof *packed->words;
    uint64_t *words = PyMem_Malloc(size);
    Entry *entry;
    int way;
    if (core->entries == NULL) core->entries = PyMem_Calloc(ENTRIES, sizeof(Entry));
    if (words == NULL || core->entries == NULL) {
        PyMem_Free(words);
        return;
    }
    memcpy(words, packed->words, size);
    for (way = 0; way < WAYS && core->entries[(hash + way) % ENTRIES].words != NULL; way++) continue;
    entry = &core->entries[(hash + (way < WAYS ? (uint64_t)way : hash >> 32 & (WAYS - 1))) % ENTRIES];
    PyMem_Free(entry->words);
    entry->hash = hash, entry->words = words, entry->count = packed->count, entry->number = number;
}

void free_entries(Core *core)
{
    int index;
    for (index = 0; core->entries != NULL && index < ENTRIES; index++) PyMem_Free(core->entries[index].words);
    PyMem_Free(core->entries);
    core->entries = NULL;
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

/* What the table says, kept for words that were packed. */
static long long looked_up(Core *core, const Packed *packed, uint64_t hash, PyObject *table, PyObject *number,
                           PyObject *key)
{
    long long found = known_by_key(table, number, key);
    core->lookups++;
    if (packed->count && found >= 0) keep_words(core, packed, hash, found); /* no table ever changes what it has said */
    return found;
}

/* The number of arguments of the function with this number; -1 where Python has to find it. */
long long arguments_of(Core *core, PyObject *number, PyObject *const *given, Py_ssize_t count, PyObject *const *named,
                       PyObject *names)
{
    Packed packed;
    const Entry *entry;
    Py_ssize_t index, others = names == NULL ? 0 : PyTuple_Size(names);
    uint64_t hash = 0;
    int whole, unused;
    packed.count = 0;
    whole = put(&packed, OF_ARGUMENTS | (uint64_t)count << 8 | (uint64_t)others << 32) &&
            put(&packed, (uint64_t)PyLong_AsLongLong(number));
    for (index = 0; whole && index < count; index++) whole = put_value(&packed, given[index], 2, &unused);
    for (index = 0; whole && index < others; index++)
        whole = put(&packed, NAMED) && put_text(&packed, PyTuple_GetItem(names, index)) &&
                put_value(&packed, named[index], 2, &unused);
    if (!whole) {
        PyErr_Clear();
        packed.count = 0;
    } else {
        hash = hash_of(&packed);
        entry = entry_of(core, &packed, hash);
        if (entry != NULL) return entry->number;
    }
    return looked_up(core, &packed, hash, core->args, number, key_of_arguments(given, count, named, names));
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
    Packed packed;
    const Entry *entry;
    PyObject *number, *key;
    uint64_t hash = 0;
    long long found;
    packed.count = 0;
    if (!put(&packed, OF_RESULT) || !put(&packed, (uint64_t)api) || !put_value(&packed, result, 2, single)) {
        PyErr_Clear();
        packed.count = 0;
    } else {
        hash = hash_of(&packed);
        entry = entry_of(core, &packed, hash);
        if (entry != NULL) return entry->number;
    }
    key = key_of_result(result);
    if (key != NULL && is_plain(result)) *single = is_single(key);
    number = PyLong_FromLongLong(api);
    found = looked_up(core, &packed, hash, core->ret, number, key);
    Py_XDECREF(number);
    PyErr_Clear();
    return found;
}
