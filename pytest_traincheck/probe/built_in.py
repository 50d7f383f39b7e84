"""Observing functions that are written in C, in place: built-in functions, and methods of types such as `torch.Tensor`.

`F.linear` has no code that could be exchanged, and another function under its name would be another key in every
table, another `func` for every `__torch_function__`. So the object stays, and what CPython calls when it is called
(PEP 590, "vectorcall"; for method descriptors, the C function of their `PyMethodDef`) points to a few instructions of
machine code that tell a hook, call the function itself, and tell the hook again (`machine/observe.c`). No frame of
Python's stands between the function and its caller meanwhile.

Where that is not possible (another machine, a system that forbids memory that can be executed, a Python other than
CPython), these functions are not observed, and `unavailable` says why. The layout of CPython's objects is not taken
for granted: each field that is written is first read and compared with what Python says of the object.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any

from .in_place import Hooks, NotObservable
from .machine.code import CODE

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_HEAD = object.__basicsize__
_HOOKS_A_PAGE = 128
_PAGE = 16 * 1024


_API = ("vectorcall", "fetch", "restore", "release", "matches", "none", "too_deep")


class _Api(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in _API]


class _Caller(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("make_call", "thread")]


class _Hook(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("api", "enter", "leave", "raised", "original", "method")]


class _MethodDef(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_void_p),
    ]


_WITH_KEYWORDS = 0x0001 | 0x0002  # METH_VARARGS | METH_KEYWORDS
_CONVENTION = _WITH_KEYWORDS | 0x0004 | 0x0008 | 0x0080  # METH_NOARGS, METH_O, METH_FASTCALL


class BuiltIn:
    """One built-in function or method descriptor. Raises `NotObservable`."""

    def __init__(self, function: Any, hooks: Hooks) -> None:
        self.function = function
        self._hooks = hooks
        self._place = _place_of(function)
        self.plan = self._place.plan
        """What the compiled core exchanges once it was observed: of each field its address and the two things in it."""

    def apply(self) -> None:
        self._place.observe(self._hooks)

    def restore(self) -> bool:
        """Let the function be called as ever; true if it was observed."""
        return self._place.leave_alone()


class _Place:
    """Where CPython looks for what to call, and the two things that may stand there.

    `fields`: address of each field, what it holds, and what it holds while the function is observed.
    """

    def __init__(self, fields: list[tuple[int, int, int]], hook: _Hook, kept: tuple[Any, ...]) -> None:
        self._fields: list[tuple[Any, int, int]] = [
            (ctypes.c_void_p.from_address(field), original, observed) for field, original, observed in fields
        ]
        self.plan = tuple(number for field in fields for number in field)
        self._hook = hook
        self._kept = kept
        self._hooks: Hooks | None = None

    def observe(self, hooks: Hooks) -> None:
        if self._hooks is not hooks:
            self._hook.enter, self._hook.leave, self._hook.raised = map(id, hooks)
            # What was told before may be in the middle of a call in another thread.
            self._kept = (*self._kept, self._hooks)
            self._hooks = hooks
        for field, _, observed in self._fields:
            field.value = observed

    def leave_alone(self) -> bool:
        if any(field.value != observed for field, _, observed in self._fields):
            return False
        for field, original, _ in reversed(self._fields):
            field.value = original or None
        return True


# A function lives as long as the process, and so do the instructions that may be running in it.
_places: dict[int, _Place] = {}


def _place_of(function: Any) -> _Place:
    place = _places.get(id(function))
    if place is None:
        reason = unavailable()
        if reason:
            raise NotObservable(reason)
        if type(function) is BuiltinFunctionType:
            place = _of_function(function)
        elif type(function) is MethodDescriptorType:
            place = _of_descriptor(function)
        else:
            raise NotObservable(f"{function!r} is no built-in function or method")
        _places[id(function)] = place
    return place


def _of_function(function: Any) -> _Place:
    """`PyCFunctionObject`: its method, `self`, module, weak references, and its `vectorcall`."""
    field = id(function) + _vectorcall_offset(type(function))
    definition = _definition(function, _HEAD)
    twin = _twin(function)
    if type(twin) is not type(function) or twin != function:
        raise NotObservable(f"{function!r} cannot be made a second time")
    original = ctypes.c_void_p.from_address(field).value or 0
    if original != (ctypes.c_void_p.from_address(id(twin) + _vectorcall_offset(type(twin))).value or 0):
        raise NotObservable(f"{function!r} is called in a way of its own")
    number, hook = _new_hook()
    hook.original = id(twin)
    # The interpreter has short cuts for other ways to take arguments, which pass `vectorcall` by. What is compared and
    # hashed of a function is the C function, which stays.
    general = definition.flags & ~_CONVENTION | _WITH_KEYWORDS
    renamed = _MethodDef(definition.name, definition.method, general, definition.doc)
    methods = (id(function) + _HEAD, ctypes.addressof(definition), ctypes.addressof(renamed))
    calls = (field, original, _address("function_called", number))
    return _Place([methods, calls], hook, (function, twin, definition, renamed))


def _of_descriptor(function: Any) -> _Place:
    """`PyMethodDescrObject`: its type, name, qualified name, and its method.

    Both the descriptor and the bound methods that it makes call what the method names.
    """
    field = id(function) + _HEAD + 3 * _POINTER
    if ctypes.c_void_p.from_address(id(function) + _HEAD).value != id(function.__objclass__):
        raise NotObservable(f"{function!r} is laid out in another way than CPython's")
    definition = _definition(function, _HEAD + 3 * _POINTER)
    if definition.flags & _CONVENTION != _WITH_KEYWORDS:
        raise NotObservable(f"{function!r} takes its arguments in another way")
    number, hook = _new_hook()
    hook.method = definition.method
    observed = _MethodDef(definition.name, _address("method_called", number), definition.flags, definition.doc)
    methods = (field, ctypes.addressof(definition), ctypes.addressof(observed))
    return _Place([methods], hook, (function, observed))


def _definition(function: Any, offset: int) -> _MethodDef:
    address = ctypes.c_void_p.from_address(id(function) + offset).value
    if not address:
        raise NotObservable(f"{function!r} has no definition")
    definition = _MethodDef.from_address(address)
    if (definition.name or b"").decode("utf-8", "replace") != function.__name__:
        raise NotObservable(f"{function!r} is laid out in another way than CPython's")
    return definition


def _vectorcall_offset(kind: type) -> int:
    """`tp_vectorcall_offset`, behind the head of a type, its name, two sizes and its destructor."""
    offset = ctypes.c_ssize_t.from_address(id(kind) + _HEAD + 5 * _POINTER).value
    if not _HEAD < offset < kind.__basicsize__:
        raise NotObservable(f"{kind!r} is laid out in another way than CPython's")
    return offset


def _twin(function: Any) -> Any:
    """A function that does the same and is observed by nobody."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    method, owner, module = (
        ctypes.c_void_p.from_address(id(function) + _HEAD + place * _POINTER).value for place in range(3)
    )
    return make(method, owner, module)


# Instructions


@functools.lru_cache(maxsize=1)
def unavailable() -> str:
    """Why built-in functions cannot be observed in this process; empty where they can."""
    if sys.implementation.name != "cpython" or _POINTER != 8:
        return f"built-in functions of {sys.implementation.name} on {8 * _POINTER} bits cannot be observed"
    if sys.platform != "linux" or platform.machine() not in CODE:
        return f"built-in functions cannot be observed on {sys.platform} {platform.machine()}"
    if getattr(sys, "_is_gil_enabled", lambda: True)() is False:
        return "built-in functions cannot be observed without the global interpreter lock"
    try:
        _page(0)
    except OSError as error:
        return f"built-in functions cannot be observed: no memory may be executed here ({error})"
    return ""


_hooks: list[_Hook] = []


def _new_hook() -> tuple[int, _Hook]:
    number = len(_hooks)
    _, table = _page(number // _HOOKS_A_PAGE)
    hook = table[number % _HOOKS_A_PAGE]
    hook.api = ctypes.addressof(_api())
    _hooks.append(hook)
    return number, hook


@functools.lru_cache(maxsize=1)
def _api() -> _Api:
    names = ("PyErr_Fetch", "PyErr_Restore", "Py_DecRef", "PyErr_ExceptionMatches")
    return _Api(_vectorcall(), *map(_exported, names), id(None), id(RecursionError))


def _exported(name: str) -> int | None:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value


def _vectorcall() -> int | None:
    """`PyObject_Vectorcall`, or what does the same: CPython 3.10 has it in a header and in no library."""
    if hasattr(ctypes.pythonapi, "PyObject_Vectorcall"):
        return _exported("PyObject_Vectorcall")
    return _stand_in()[0]


@functools.lru_cache(maxsize=1)
def _stand_in() -> tuple[int, _Caller]:
    caller = _Caller(_exported("_PyObject_MakeTpCall"), _exported("PyThreadState_Get"))
    code, entries = CODE[platform.machine()]
    lead = _LEADS[platform.machine()]
    start = _executable(lambda start: lead(ctypes.addressof(caller), start + _LEAD + entries["called"], 0) + code)
    return start, caller


def _address(entry: str, number: int) -> int:
    """Where the instructions begin that call `entry` with one hook."""
    start, _ = _page(number // _HOOKS_A_PAGE)
    kind = ("function_called", "method_called").index(entry)
    return start + (2 * (number % _HOOKS_A_PAGE) + kind) * _LEAD


@functools.cache
def _page(_: int) -> tuple[int, Any]:
    """A page of instructions that is written once and then only executed, and the hooks that it speaks of.

    It begins with two leads a hook, which add the hook to the arguments and go on to the code itself.
    """
    code, entries = CODE[platform.machine()]
    table = (_Hook * _HOOKS_A_PAGE)()
    lead = _LEADS[platform.machine()]

    def content(start: int) -> bytes:
        body = start + 2 * _HOOKS_A_PAGE * _LEAD
        leads = (
            lead(ctypes.addressof(hook), body + entries[entry], kind)
            for hook in table
            for kind, entry in enumerate(("function_called", "method_called"))
        )
        return b"".join(leads) + code

    return _executable(content), table


def _executable(content: Callable[[int], bytes]) -> int:
    """A page of what `content` says of the page's address, that is executed from now on. Raises `OSError`."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = library.mmap(None, _PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if start in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap failed")
    written = content(start)
    assert len(written) <= _PAGE
    ctypes.memmove(start, written, len(written))
    if library.mprotect(start, _PAGE, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "mprotect failed")
    return int(start)


_LEAD = 32
"""Bytes of a lead, which puts an address behind the arguments and goes on elsewhere."""


def _lead_x86_64(hook: int, target: int, kind: int) -> bytes:
    """endbr64; movabs r8 or rcx, hook; movabs rax, target; jmp rax."""
    register = (b"\x49\xb8", b"\x48\xb9")[kind]
    lead = b"\xf3\x0f\x1e\xfa" + register + struct.pack("<Q", hook) + b"\x48\xb8" + struct.pack("<Q", target)
    return (lead + b"\xff\xe0").ljust(_LEAD, b"\xcc")


def _lead_aarch64(hook: int, target: int, kind: int) -> bytes:
    """bti c; ldr x4 or x3, hook; ldr x16, target; br x16; the two addresses."""
    load = 0x58000000 | (3 << 5) | (4, 3)[kind]
    return struct.pack("<4I2Q", 0xD503245F, load, 0x58000000 | (4 << 5) | 16, 0xD61F0200, hook, target)


_LEADS: dict[str, Callable[[int, int, int], bytes]] = {"x86_64": _lead_x86_64, "aarch64": _lead_aarch64}
