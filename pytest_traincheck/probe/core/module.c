/* The module `_core`: it takes from torch what it uses when it is imported, and is not imported where something lacks. */

#include "core.h"

#define DEFINE(name) PyObject *name_##name;
NAMES(DEFINE)

Torch torch;

/* A new reference to what a dotted path names below a module. */
static PyObject *found(const char *module, const char *path)
{
    char part[64];
    PyObject *object = PyImport_ImportModule(module);
    while (object != NULL && *path) {
        size_t length = strcspn(path, ".");
        PyObject *inner;
        memcpy(part, path, length);
        part[length] = 0;
        path += length + (path[length] == '.');
        inner = PyObject_GetAttrString(object, part);
        Py_DECREF(object);
        object = inner;
    }
    return object;
}

static int ask_torch(void)
{
#define FIND(field, module, path) if ((torch.field = found(module, path)) == NULL) return -1
#define ASK(field, module, path) if (set_question(&torch.field, found(module, path)) < 0) return -1
    FIND(Tensor, "torch", "Tensor");
    FIND(Parameter, "torch", "nn.Parameter");
    FIND(Size, "torch", "Size");
    FIND(Module, "torch", "nn.Module");
    FIND(Frame, "types", "FrameType");
    FIND(named[0], "torch", "dtype");
    FIND(named[1], "torch", "device");
    FIND(named[2], "torch", "layout");
    FIND(named[3], "torch", "memory_format");
    FIND(callables[0], "types", "FunctionType");
    FIND(callables[1], "types", "MethodType");
    FIND(callables[2], "types", "BuiltinFunctionType");
    FIND(partial, "functools", "partial");
    FIND(iterators[0], "types", "GeneratorType");
    FIND(iterators[1], "builtins", "filter");
    ASK(any_autocast, "torch", "_C._is_any_autocast_enabled");
    ASK(grad_enabled, "torch", "is_grad_enabled");
    ASK(inference, "torch", "is_inference_mode_enabled");
    ASK(graph_task, "torch", "_C._current_graph_task_id");
    ASK(function_modes, "torch", "_C._len_torch_function_stack");
    FIND(is_autocast, "torch", "is_autocast_enabled");
    FIND(autocast_dtype, "torch", "get_autocast_dtype");
    FIND(crc32, "zlib", "crc32");
    FIND(strided, "torch", "strided");
    FIND(data_ptr.descriptor, "torch", "Tensor.data_ptr");
    FIND(is_contiguous.descriptor, "torch", "Tensor.is_contiguous");
    FIND(is_conj.descriptor, "torch", "Tensor.is_conj");
    FIND(is_neg.descriptor, "torch", "Tensor.is_neg");
    FIND(is_inference.descriptor, "torch", "Tensor.is_inference");
    FIND(get_device.descriptor, "torch", "Tensor.get_device");
    FIND(norms, "torch", "_foreach_norm");
    FIND(storage_offset.descriptor, "torch", "Tensor.storage_offset");
    FIND(untyped_storage.descriptor, "torch", "Tensor.untyped_storage");
    FIND(UntypedStorage, "torch", "UntypedStorage");
    FIND(nbytes.descriptor, "torch", "UntypedStorage.nbytes");
    FIND(ref, "weakref", "ref");
    FIND(local, "_thread", "_local");
    FIND(get_state, "torch", "Generator.get_state");
    FIND(generator, "torch", "default_generator");
    FIND(perf_counter, "time", "perf_counter");
    FIND(marshalled, "marshal", "dumps");
    FIND(ordered, "collections", "OrderedDict");
    FIND(float32, "torch", "float32");
    FIND(float64, "torch", "float64");
    FIND(bfloat16, "torch", "bfloat16");
    FIND(float16, "torch", "float16");
    FIND(int64, "torch", "int64");
    FIND(boolean, "torch", "bool");
    FIND(guards[DISABLED_AUTOCAST], "torch", "_C._DisableAutocast");
    FIND(guards[DISABLED_FUNCTIONS], "torch", "_C.DisableTorchFunction");
    FIND(guards[DISABLED_DISPATCH], "torch", "_C._DisableTorchDispatch");
    FIND(set_grad, "torch", "_C._set_grad_enabled");
    ASK(profiling, "torch", "_C._autograd._profiler_enabled");
    FIND(record_functions, "torch", "_C._autograd._enable_record_function");
    FIND(compiling, "torch.compiler", "__dict__");
    ASK(transforming, "torch", "_C._are_functorch_transforms_active");
    FIND(cuda, "torch", "cuda.__dict__");
    /* A torch for CPUs has none of these. */
    if ((torch.capturing = found("torch", "_C._cuda_isCurrentStreamCapturing")) == NULL) PyErr_Clear();
    if ((torch.sync_mode = found("torch", "_C._cuda_get_sync_debug_mode")) == NULL) PyErr_Clear();
    if ((torch.set_sync_mode = found("torch", "_C._cuda_set_sync_debug_mode")) == NULL) PyErr_Clear();
    if ((torch.started = PyUnicode_InternFromString("_initialized")) == NULL) return -1;
    if ((torch.nothing = PyTuple_New(0)) == NULL) return -1;
    if ((torch.flag = PyUnicode_InternFromString("_is_compiling_flag")) == NULL) return -1;
    if ((torch.cpu = PyUnicode_InternFromString("cpu")) == NULL) return -1;
    if ((torch.gpu = PyUnicode_InternFromString("cuda")) == NULL) return -1;
    if (PyDict_GetItemWithError(torch.compiling, torch.flag) == NULL) {
        PyErr_SetString(PyExc_ImportError, "torch says in another way whether it compiles");
        return -1;
    }
    find_exchange();
    return add_readings();
}

/* What stands for no arguments by name, and the number by which the Python code knows that the two fit together. */
static int add_constants(PyObject *module)
{
    PyObject *empty = PyDict_New();
    torch.no_kwargs = empty == NULL ? NULL : PyDictProxy_New(empty);
    Py_XDECREF(empty);
    if (torch.no_kwargs == NULL) return -1;
    Py_INCREF(torch.no_kwargs);
    if (PyModule_AddObject(module, "NO_KWARGS", torch.no_kwargs) < 0) return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyMethodDef methods[] = {
    {"function_hooks", function_hooks, METH_VARARGS, NULL},
    {"module_hooks", module_hooks, METH_VARARGS, NULL},
    {"part_hooks", part_hooks, METH_VARARGS, NULL},
    {"step_hooks", step_hooks, METH_VARARGS, NULL},
    {"batch_hooks", batch_hooks, METH_VARARGS, NULL},
    {"choice_hooks", choice_hooks, METH_VARARGS, NULL},
    {"watch_hook", watch_hook, METH_VARARGS, NULL},
    {"unless_hushed", unless_hushed, METH_VARARGS, NULL},
    {"exchange", exchange, METH_VARARGS, NULL},
    {"checksum", checksum_of, METH_VARARGS, NULL},
    {"use_exchange", use_exchange, METH_O, NULL},
    {"use_registers", use_registers, METH_O, NULL},
    {"again", (PyCFunction)(void (*)(void))walk_again, METH_FASTCALL, NULL},
    {"look", look, METH_VARARGS, NULL},
    {"nested", (PyCFunction)(void (*)(void))digest_of_nested, METH_FASTCALL, NULL},
    {"norms", norms_of_each, METH_O, NULL},
    {"looks_same", (PyCFunction)(void (*)(void))looks_same, METH_FASTCALL, NULL},
    {"values", (PyCFunction)(void (*)(void))walk_values, METH_FASTCALL, NULL},
    {"far", (PyCFunction)(void (*)(void))walk_far, METH_FASTCALL, NULL},
    {"gpu_entries", (PyCFunction)(void (*)(void))gpu_entries, METH_FASTCALL, NULL},
    {"gpu_found", (PyCFunction)(void (*)(void))gpu_found, METH_FASTCALL, NULL},
    {"gradients", (PyCFunction)(void (*)(void))walk_gradients, METH_FASTCALL, NULL},
    {"shape", shape_of, METH_O, NULL},
    {"call_key", (PyCFunction)(void (*)(void))call_key, METH_FASTCALL, NULL},
    {"names_settled", (PyCFunction)(void (*)(void))names_settled, METH_FASTCALL, NULL},
    {"same_groups", (PyCFunction)(void (*)(void))same_groups, METH_FASTCALL, NULL},
    {"nothing_new", (PyCFunction)(void (*)(void))nothing_new, METH_FASTCALL, NULL},
    {"same_attributes", (PyCFunction)(void (*)(void))same_attributes, METH_FASTCALL, NULL},
    {"measured", (PyCFunction)(void (*)(void))walk_measured, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", "The compiled core of the recorder.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void)
{
    const uint16_t one = 1;
    static PyObject *module; /* one for all names under which the package is imported: there is one of each type */
    if (module != NULL) {
        Py_INCREF(module);
        return module;
    }
    if (*(const unsigned char *)&one != 1) {
        PyErr_SetString(PyExc_ImportError, "rows are written with the lowest byte first");
        return NULL;
    }
    module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
#define INTERN(name) if ((name_##name = PyUnicode_InternFromString(#name)) == NULL) goto failed;
    NAMES(INTERN)
    if (ask_torch() < 0 || add_constants(module) < 0 || add_objects(module) < 0 || add_rows(module) < 0 ||
        add_switches(module) < 0 || add_fields(module) < 0 || add_facts(module) < 0 || add_guards(module) < 0 ||
        add_core(module) < 0 || add_hook(module) < 0 ||
        add_follows() < 0 || add_batches() < 0 || add_sampling() < 0)
        goto failed;
    Py_INCREF(module);
    return module;
failed:
    Py_CLEAR(module);
    return NULL;
}
