"""Functions that plug-ins name are observed in place, and what cannot be observed is told and changes nothing."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from measuring import only
from probe_runs import BOOTSTRAP, Trace, read_run

from pytest_traincheck.frameworks.description import CallType, Framework, Observation, Wrapper
from pytest_traincheck.frameworks.extensions import VARIABLE, Extensions
from pytest_traincheck.probe import observe

LIBRARY = '''
"""A library that the probe does not know."""

import functools
import math
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

NUMBER = 3
cached = functools.lru_cache(abs)


def scaled(x, factor=2.0, *, shift=0.0, **more):
    return x * factor + shift


def tokens():
    yield 1


def clip(parameters, bound):
    for parameter in parameters:
        parameter.grad.clamp_(-bound, bound)


@dataclass
class Settings:
    rate: float


class Base:
    def __init__(self, size):
        self.size = size

    def step(self, times):
        return times

    @staticmethod
    def made(kind):
        return kind

    @classmethod
    def known(cls, name):
        return cls(name)


class Heir(Base):
    pass


class Average:
    def __init__(self, model):
        self.model = model

    def update(self, weight):
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(weight)


class Monitored(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)


class Strange(torch.nn.Module):
    """Holds its network where nobody said."""

    def __init__(self, network):
        super().__init__()
        self.other = network

    def forward(self, x):
        return self.other(x)


def __getattr__(name):
    raise RuntimeError(f"{name} was asked for")
'''

Watching = Callable[..., Trace]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    package = tmp_path / "site-packages" / "oddlib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LIBRARY)
    (package / "late.py").write_text("def doubled(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(package.parent)
    for name in ("oddlib", "oddlib.late"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("oddlib")


@pytest.fixture
def observing(tmp_path: Path) -> Watching:
    """Runs something while these functions are observed, in this process, and reads the trace."""

    def watch(
        something: Callable[[], Any], *observations: Observation, frameworks: tuple[Framework, ...] = ()
    ) -> Trace:
        with observe(tmp_path / "run", extensions=Extensions(observations, frameworks)):
            something()
        trace = only(tmp_path / "run")
        assert trace.meta["probe_errors"] == []
        return trace

    return watch


def test_a_call_is_recorded_with_its_arguments_by_name(library: Any, observing: Watching) -> None:
    code = library.scaled.__code__
    trace = observing(lambda: library.scaled(torch.ones(2), 3.0, shift=1, kind="a"), Observation("oddlib:scaled"))
    (call,) = trace.called("oddlib.scaled")
    assert call.type == "observed"
    assert call.args.pop("x")["tensor"]["shape"] == [2]
    assert call.args == {"factor": 3.0, "shift": 1, "kind": "a"}
    assert library.scaled.__code__ is code
    assert trace.meta["extensions_in_use"] == ["oddlib.scaled"]


def test_only_the_arguments_that_are_named_are_recorded(library: Any, observing: Watching) -> None:
    def use() -> None:
        for number in range(3):
            library.scaled(number, factor=2.0, kind="a")
        library.scaled(9)

    trace = observing(use, Observation("oddlib:scaled", arguments=("factor", "kind")))
    assert [call.args for call in trace.called("oddlib.scaled")] == [{"factor": 2.0, "kind": "a"}] * 3 + [
        {"factor": 2.0}
    ]
    assert (
        len([1 for (kind, _), symbol in trace.symbols.items() if kind == "args" and "factor" in symbol["values"]]) == 2
    )


def test_methods_of_every_sort_and_the_making_of_instances(library: Any, observing: Watching) -> None:
    def use() -> None:
        library.Heir(4).step(2)
        library.Base.made("a")
        library.Heir.known("b")

    parts = ("Base", "Base.step", "Base.made", "Base.known")
    trace = observing(use, *(Observation(f"oddlib:{part}") for part in parts))
    found = {name: [call.args for call in trace.called(f"oddlib.{name}")] for name in parts}
    assert found == {
        "Base": [{"size": 4}, {"size": "b"}],
        "Base.step": [{"times": 2}],
        "Base.made": [{"kind": "a"}],
        "Base.known": [{"name": "b"}],
    }


def test_a_function_written_in_c_is_observed_and_has_the_names_that_it_is_given(observing: Watching) -> None:
    values = torch.zeros(3)
    target = Observation("torch.nn.functional:softplus", arguments=("input", "beta"))
    trace = observing(lambda: torch.nn.functional.softplus(values, 2.0), target)
    if not trace.meta["unobserved"]:
        (call,) = trace.called("torch.nn.functional.softplus")
        assert set(call.args) == {"input", "beta"}


def test_what_clips_and_what_moves_parameters_is_looked_at_accordingly(library: Any, observing: Watching) -> None:
    def use() -> None:
        model = torch.nn.Linear(2, 1)
        average = library.Average(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(3, 2)).sum().backward()
            library.clip(list(model.parameters()), 0.5)
            optimizer.step()
            average.update(0.9)

    trace = observing(
        use,
        Observation("oddlib:clip", ("bound",), CallType.CLIP),
        Observation("oddlib:Average.update", type=CallType.UPDATE),
    )
    assert [call.type for call in trace.called("oddlib.clip")] == ["clip", "clip"]
    updates = trace.called("oddlib.Average.update")
    assert [call.type for call in updates] == ["update", "update"]
    moved = {change.parent for change in trace.changes if change.kind == "parameter" and change.old != 7}
    assert {call.seq for call in updates} <= moved


@pytest.mark.fault(
    area="Looking",
    tried="a plug-in wants a function observed that is not there, is none, or is of a sort that cannot be observed",
    happens="told with the reason; rules about it say nothing, and the run is reliable",
)
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("oddlib:absent", "oddlib has no `absent` of its own"),
        ("oddlib:Base.absent", "Base has no `absent` of its own"),
        ("oddlib:Heir.step", "Heir inherits `step`; name it where it is defined, `oddlib:Base.step`"),
        ("oddlib:Heir", "Heir inherits `__init__`; name it where it is defined, `oddlib:Base.__init__`"),
        ("oddlib:NUMBER", "it is of type int and no function"),
        ("oddlib:NUMBER.real", "what is of type int has no parts"),
        ("oddlib:cached", "it is of type _lru_cache_wrapper and no function"),
        ("oddlib:tokens", "a generator or coroutine ends when it is used up"),
        ("oddlib:Settings", "no source"),
        ("oddlib:cross_entropy", "it is observed already"),
        ("oddlib.lost:doubled", "there is no module oddlib.lost"),
        ("oddlib:NUMBER.__add__", "what is of type int has no parts"),
        ("math:sqrt", "the probe itself, or Python, works with the functions of this module"),
        ("torch:is_grad_enabled", "the probe itself, or Python, works with the functions of this module"),
    ],
)
@pytest.mark.usefixtures("library")
def test_what_cannot_be_observed_is_told_and_the_run_is_reliable(observing: Watching, target: str, reason: str) -> None:
    observation = Observation(target)
    trace = observing(lambda: torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.ones(2).long()), observation)
    assert reason in trace.meta["unobserved"][observation.api]
    assert observation.api not in trace.meta["extensions"]
    assert trace.meta["extensions_in_use"] == []
    assert trace.called("torch.nn.functional.cross_entropy")


def test_an_argument_that_a_function_does_not_take_is_told(library: Any, observing: Watching) -> None:
    trace = observing(lambda: library.Base(1), Observation("oddlib:Base.step", arguments=("time",)))
    assert trace.meta["unobserved"] == {"oddlib.Base.step": "it takes no argument `time`; those it takes: `times`"}


def test_a_library_that_is_not_used_is_not_looked_for(observing: Watching) -> None:
    trace = observing(lambda: torch.nn.Linear(2, 2)(torch.ones(2)), Observation("nobody_has_this:f"))
    assert trace.meta["unobserved"] == {}
    assert "nobody_has_this.f" in trace.meta["extensions"]
    assert trace.meta["extensions_in_use"] == []


@pytest.mark.usefixtures("library")
def test_a_module_that_is_imported_later_is_observed_then(observing: Watching) -> None:
    def use() -> None:
        assert importlib.import_module("oddlib.late").doubled(2) == 4

    assert len(observing(use, Observation("oddlib.late:doubled")).called("oddlib.late.doubled")) == 1


def test_a_wrapper_of_a_library_is_looked_through(library: Any, observing: Watching, tmp_path: Path) -> None:
    def use() -> None:
        library.Monitored(torch.nn.Sequential(torch.nn.Linear(2, 2)))(torch.ones(2))

    plain = observing(use).called("torch.nn.Linear")
    assert [(call.root, call.path) for call in plain] == [("Monitored", "network.0")]
    shutil.rmtree(tmp_path / "run")
    known = Framework("oddlib", wrappers=(Wrapper("Monitored", inner="network"),))
    trace = observing(use, frameworks=(known,))
    assert [(call.root, call.path) for call in trace.called("torch.nn.Linear")] == [("Sequential", "0")]
    assert [call.entry for call in trace.called("torch.nn.Sequential")] == [True]
    assert not any(call.entry for call in trace.called("oddlib.Monitored"))
    assert trace.meta["extensions_in_use"] == ["framework oddlib"]


def test_a_wrapper_that_holds_nothing_where_it_was_said_is_told(library: Any, observing: Watching) -> None:
    kept: list[Any] = []

    def use() -> None:
        kept.append(library.Strange(torch.nn.Linear(2, 2)))
        kept[0](torch.ones(2))

    trace = observing(use, frameworks=(Framework("oddlib", wrappers=(Wrapper("Strange", inner="network"),)),))
    assert trace.meta["unobserved"] == {"oddlib.Strange": "it is to be looked through and holds no module `network`"}


SCRIPT = """
import oddlib
import torch

print(oddlib.scaled(torch.ones(2)).sum().item())
"""


@pytest.mark.usefixtures("library")
def test_a_library_that_imports_torch_itself_is_observed(tmp_path: Path) -> None:
    """By the time that the probe is there the library is in the middle of being imported."""
    run_dir = tmp_path / "run"
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    told = Extensions((Observation("oddlib:scaled"), Observation("unheard.of:it")))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(BOOTSTRAP), str(tmp_path / "site-packages")]),
        "TRAINCHECK_TRACE_DIR": str(run_dir),
        VARIABLE: told.to_text(),
    }
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "4.0\n"
    (trace,) = read_run(run_dir)
    assert len(trace.called("oddlib.scaled")) == 1
    assert trace.meta["unobserved"] == {}
