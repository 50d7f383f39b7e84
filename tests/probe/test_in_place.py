"""Functions that are observed in place: what is told of their calls, and that nobody can tell the difference."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from pytest_traincheck.probe.built_in import BuiltIn, _stand_in, unavailable  # noqa: E402
from pytest_traincheck.probe.in_place import Hooks, InPlace, NotObservable, forget_sources  # noqa: E402
from pytest_traincheck.probe.patch import Kind, Patches  # noqa: E402

SOURCE = '''
import math

class Base:
    def name(self, /, a, b=2, *rest, c, d=4, **more):
        """What it is about."""
        return [a, b, rest, c, d, more]

class Owner(Base):
    __secret = 7

    def name(self, *args, **kwargs):
        return super().name(*args, **kwargs)

    def secret(self):
        return self.__secret

    @staticmethod
    def root(x):
        def inner():
            return math.sqrt(x)
        return inner()

def early(x):
    for item in x:
        if item > 2:
            return item
    else:
        if not x:
            return

def failing(x):
    try:
        return 1 / x
    finally:
        x = None

def counting(n):
    yield from range(n)

def outer(a):
    def within(b):
        nonlocal a
        a += b
        return a
    return within

def frames():
    import sys
    return sys._getframe(1).f_code.co_name, len(__import__("inspect").stack())

def warned():
    import warnings
    warnings.warn("look", stacklevel=2)
'''


class Told:
    """Hooks that keep what they are told."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.hooks = Hooks(self.enter, self.leave, self.raised)

    def enter(self, *args: Any, **kwargs: Any) -> object:
        self.calls.append(("enter", args, kwargs))
        return self

    def leave(self, token: object, result: Any) -> None:
        assert token is self
        self.calls.append(("leave", result))

    def raised(self, token: object) -> None:
        assert token is self
        self.calls.append(("raised",))


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "theirs.py"
    path.write_text(SOURCE)
    made = ModuleType("theirs")
    exec(compile(SOURCE, str(path), "exec"), vars(made))
    return made


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def observing(told: Told) -> Iterator[Callable[[Any], Told]]:
    """Observes functions of Python's for the length of a test."""
    patches: list[InPlace | BuiltIn] = []

    def observe(function: Any) -> Told:
        patch = InPlace(function, told.hooks) if inspect.isfunction(function) else BuiltIn(function, told.hooks)
        patch.apply()
        patches.append(patch)
        return told

    yield observe
    for patch in patches:
        patch.restore()


# functions of Python's


def test_arguments_come_by_position_and_results_go_where_they_went(module: Any, observing: Any) -> None:
    told = observing(module.Base.name)
    found = module.Base().name(1, c=3, e=5)
    assert found == [1, 2, (), 3, 4, {"e": 5}]
    (_, args, kwargs), (_, result) = told.calls
    assert args[1:] == (1, 2)
    assert kwargs == {"c": 3, "d": 4, "e": 5}
    assert result is found


def test_super_and_private_names_work_as_before(module: Any, observing: Any) -> None:
    for name in ("name", "secret"):
        observing(vars(module.Owner)[name])
    told = observing(module.Owner.root)
    owner = module.Owner()
    assert owner.name(1, c=3) == [1, 2, (), 3, 4, {}]
    assert owner.secret() == 7
    assert owner.root(9) == 3
    assert [kind for kind, *_ in told.calls] == ["enter", "leave"] * 3


@pytest.mark.parametrize(("given", "result"), [([1, 3], 3), ([1], None), ([], None)])
def test_every_way_out_is_told(module: Any, observing: Any, given: list[int], result: Any) -> None:
    told = observing(module.early)
    assert module.early(given) == result
    assert told.calls[1:] == [("leave", result)]


def test_a_closure_keeps_its_variables(module: Any, observing: Any) -> None:
    within = module.outer(1)
    told = observing(within)
    assert [within(2), within(3)] == [3, 6]
    assert told.calls[1::2] == [("leave", 3), ("leave", 6)]
    assert module.outer(1)(1) == 2  # another function made of the same code
    assert len(told.calls) == 4


def test_an_exception_and_its_traceback_are_the_same(module: Any, observing: Any) -> None:
    def text() -> str:
        try:
            module.failing(0)
        except ZeroDivisionError:
            return traceback.format_exc()
        return ""

    plain = text()
    told = observing(module.failing)
    assert text() == plain
    assert told.calls[1:] == [("raised",)]


def test_frames_and_warnings_are_those_of_the_caller(module: Any, observing: Any) -> None:
    def seen() -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module.warned()
        return module.frames(), [(item.filename, item.lineno) for item in caught]

    plain = seen()
    for function in (module.frames, module.warned):
        observing(function)
    assert seen() == plain
    assert plain[1][0][0] == __file__


def test_a_generator_is_left_alone(module: Any, told: Told) -> None:
    with pytest.raises(NotObservable, match="generator"):
        InPlace(module.counting, told.hooks)


def test_a_source_that_has_changed_is_not_compiled(module: Any, told: Told, tmp_path: Path) -> None:
    """Otherwise another program would run than the one that was started."""
    path = tmp_path / "theirs.py"
    path.write_text(SOURCE.replace("return item", "return -1"))
    with pytest.raises(NotObservable, match="not that of the running code"):
        InPlace(module.early, told.hooks)
    path.write_text("")
    forget_sources()
    with pytest.raises(NotObservable):
        InPlace(module.early, told.hooks)
    path.unlink()
    forget_sources()
    with pytest.raises(NotObservable, match="no source"):
        InPlace(module.failing, told.hooks)


def test_code_without_a_file_is_left_alone(told: Told) -> None:
    names: dict[str, Any] = {}
    exec("def made(x):\n    return x\n", names)
    with pytest.raises(NotObservable, match="no source"):
        InPlace(names["made"], told.hooks)


def test_somebody_else_who_exchanges_the_code_is_not_undone(module: Any, told: Told) -> None:
    patch = InPlace(module.early, told.hooks)
    patch.apply()
    module.early.__code__ = module.failing.__code__
    assert not patch.restore()
    assert module.early.__code__ is module.failing.__code__


def test_lines_and_columns_stay(module: Any, told: Told) -> None:
    for function in (module.early, module.Base.name, module.Owner.root, module.failing):
        patch = InPlace(function, told.hooks)
        lines = {line for _, _, line in patch.original.co_lines() if line}
        first = patch.original.co_firstlineno
        assert {line for _, _, line in patch.observed.co_lines() if line} - lines <= {first}
        assert patch.observed.co_firstlineno == first
        assert patch.observed.co_name == patch.original.co_name


def test_every_function_of_a_large_library_can_be_observed(told: Told) -> None:
    """Of all that is written in these modules, only generators may be left out."""
    import argparse
    import dataclasses
    import json.decoder
    import tarfile

    reasons = []
    for library in (argparse, dataclasses, inspect, json.decoder, tarfile, textwrap, torch.nn.init, F):
        for function in vars(library).values():
            if inspect.isfunction(function) and function.__module__ == library.__name__:
                try:
                    InPlace(function, told.hooks)
                except NotObservable as error:
                    reasons.append(str(error))
    assert {reason for reason in reasons if "used up" not in reason} <= {
        reason for reason in reasons if "lambda" in reason or "no definition" in reason
    }


# built-in functions

built_in = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "observed here")


@built_in
def test_a_built_in_function_stays_what_it_is(observing: Any) -> None:
    facts: list[Callable[[Any], Any]] = [id, hash, type, repr, lambda f: f.__name__, lambda f: f.__self__]
    plain = [fact(torch.matmul) for fact in facts]
    table = {torch.matmul: 1, F.linear: 2}
    told = observing(torch.matmul)
    assert [fact(torch.matmul) for fact in facts] == plain
    assert table[torch.matmul] == 1
    assert torch.matmul in {torch.matmul, F.linear}
    assert torch.matmul is torch._C._VariableFunctions.matmul
    result = torch.matmul(torch.eye(2), torch.ones(2))
    assert told.calls[-1][1] is result


@built_in
def test_methods_are_told_however_they_are_called(observing: Any) -> None:
    told = observing(torch.Tensor.softmax)
    x = torch.zeros(2, 2)
    bound = x.softmax
    for call in (lambda: x.softmax(-1), lambda: x.softmax(dim=-1), lambda: bound(-1), lambda: x.softmax(*(-1,)),
                 lambda: torch.Tensor.softmax(x, -1), lambda: functools.partial(x.softmax, dim=-1)()):  # fmt: skip
        told.calls.clear()
        assert call().tolist() == [[0.5, 0.5]] * 2
        if call.__code__.co_freevars != ("bound",):  # this one was made before
            assert [kind for kind, *_ in told.calls] == ["enter", "leave"]
    assert repr(torch.Tensor.softmax) == "<method 'softmax' of 'torch._C.TensorBase' objects>"


@built_in
@pytest.mark.parametrize("function", [os.path.realpath, os.fspath, os.cpu_count, len, sorted])
def test_short_cuts_of_the_interpreter_are_not_taken(observing: Any, function: Any) -> None:
    """A loop makes the interpreter call functions of other conventions directly."""
    if inspect.isfunction(function):
        function = os.open
    given: Any = {os.cpu_count: (), os.open: (os.devnull, os.O_RDONLY), os.fspath: ("x",)}.get(function, ([2, 1],))
    facts = hash(function), function.__name__, repr(function)
    results = []
    for turn in range(40):
        if turn == 20:
            told = observing(function)
        results.append(function(*given) if not given else function(given[0], *given[1:]))
    assert [kind for kind, *_ in told.calls] == ["enter", "leave"] * 20
    assert (hash(function), function.__name__, repr(function)) == facts
    if function is os.open:
        for descriptor in results:
            os.close(descriptor)


@built_in
def test_an_operator_is_told(observing: Any) -> None:
    told = observing(torch.Tensor.__matmul__)
    result = torch.eye(2) @ torch.ones(2)
    assert told.calls[-1][1] is result


@built_in
def test_errors_of_built_in_functions_have_no_frame_of_ours(observing: Any) -> None:
    def text() -> list[str]:
        found = []
        for wrong in (lambda: F.linear(torch.ones(2, 3), torch.ones(2, 2)), lambda: torch.ones(2).softmax("x")):
            try:
                wrong()
            except (RuntimeError, TypeError):
                found.append(traceback.format_exc())
        return found

    plain = text()
    observing(F.linear)
    told = observing(torch.Tensor.softmax)
    assert text() == plain
    assert [kind for kind, *_ in told.calls] == ["enter", "raised"] * 2


@built_in
def test_handlers_see_the_frame_of_the_caller_and_the_function_itself(observing: Any) -> None:
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func is F.linear, sys._getframe(1).f_code.co_name))
            return func(*args, **(kwargs or {}))

    observing(F.linear)
    x, weight = torch.ones(1, 2), torch.ones(3, 2)
    with Mode():
        F.linear(x, weight)
    assert seen == [(True, "test_handlers_see_the_frame_of_the_caller_and_the_function_itself")]


@built_in
def test_what_a_hook_raises_is_the_outcome(observing: Any, told: Told) -> None:
    """A signal handler may run while a hook does."""
    observing(torch.matmul)

    def interrupted(*_: Any) -> None:
        raise TimeoutError("over")

    for name in Hooks._fields:
        told.hooks = Hooks(told.enter, told.leave, told.raised)._replace(**{name: interrupted})
        patch = BuiltIn(torch.matmul, told.hooks)
        patch.apply()
        with pytest.raises(TimeoutError, match="over"):
            torch.matmul(torch.ones(2), torch.ones(3 if name == "raised" else 2))
        patch.restore()
    assert torch.matmul(torch.ones(2), torch.ones(2)) == 2


@built_in
def test_threads_forks_and_reference_counts(observing: Any) -> None:
    told = observing(F.linear)
    x, weight = torch.ones(2, 3), torch.ones(4, 3)
    before = sys.getrefcount(x), sys.getrefcount(weight)

    def work() -> None:
        for _ in range(500):
            F.linear(x, weight)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told.calls) == 3 * 500 * 2
    told.calls.clear()
    assert (sys.getrefcount(x), sys.getrefcount(weight)) == before
    child = os.fork()
    if not child:
        os._exit(7 if F.linear(x, weight).shape == (2, 4) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@built_in
def test_what_takes_its_arguments_otherwise_is_left_alone(told: Told) -> None:
    for function in (torch.Tensor.dim, str.upper, dict.get):
        with pytest.raises(NotObservable):
            BuiltIn(function, told.hooks)
    with pytest.raises(NotObservable):
        BuiltIn(torch.nn.Linear, told.hooks)


@built_in
def test_the_machine_code_was_made_from_the_source_beside_it() -> None:
    from pytest_traincheck.probe.machine import code, make

    assert make.source_digest() == code.SOURCE


class Caller:
    """An object that can be called and has no `vectorcall`."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        return args, named


@built_in
@pytest.mark.skipif(not hasattr(ctypes.pythonapi, "_PyObject_MakeTpCall"), reason="CPython 3.14 needs no stand-in")
@pytest.mark.parametrize("function", [lambda *args, **named: (args, named), Caller(), Caller().__call__])
def test_a_call_is_made_where_the_interpreter_has_no_function_for_it(function: Any) -> None:
    import numpy as np

    start, _ = _stand_in()
    call = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(
        start
    )
    given, names = (1, "two", [3]), ("last",)
    values = np.array([id(item) for item in given], dtype=np.uintp)
    assert call(function, values.ctypes.data, 3, None) == (given, {})
    assert call(function, values.ctypes.data, 2, id(names)) == (given[:2], {"last": given[2]})
    assert call(function, values.ctypes.data, 3 | 1 << 63, None) == (given, {})
    with pytest.raises(ZeroDivisionError):
        call(divmod, np.array([id(1), id(0)], dtype=np.uintp).ctypes.data, 2, None)


# many functions, many times


def test_a_function_that_is_observed_again_tells_the_hooks_of_that_time(module: Any, told: Told) -> None:
    """It is not compiled again, which takes most of the time of an observation."""
    others = Told()
    for each in (told, others):
        patch = InPlace(module.early, each.hooks)
        patch.apply()
        module.early([3])
        assert patch.restore()
    assert told.calls == others.calls == [("enter", ([3],), {}), ("leave", 3)]


def test_code_that_was_exchanged_since_is_looked_at_anew(module: Any, told: Told) -> None:
    InPlace(module.early, told.hooks)
    module.early.__code__ = module.failing.__code__
    patch = InPlace(module.early, told.hooks)
    patch.apply()
    assert module.early(4) == 0.25
    assert told.calls == [("enter", (4,), {}), ("leave", 0.25)]


def test_functions_are_left_alone_for_a_while(module: Any, told: Told) -> None:
    patches = Patches()
    kinds: list[Kind] = []

    def making(kind: Kind) -> Hooks:
        kinds.append(kind)
        return told.hooks

    patches.observe(module.early, making)
    patches.observe(module.failing, making, always=True)
    patches.observe(module.early, making)  # once is enough
    assert kinds == [Kind(own_frame=True, packed=False)] * 2
    patches.suspend()
    patches.suspend()
    module.early([3])
    module.failing(1)
    assert [kind for kind, *_ in told.calls] == ["enter", "leave"]
    patches.observe(module.frames, making)  # not yet
    patches.resume()  # suspended twice
    module.frames()
    assert len(told.calls) == 2
    patches.resume()
    module.early([3])
    module.frames()
    assert len(told.calls) == 6
    patches.remove()
    module.early([3])
    assert len(told.calls) == 6
    patches.observe(module.counting, making)
    assert "generator" in patches.left_out["counting"]
