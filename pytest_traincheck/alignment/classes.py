"""Classes of optimizers and schedulers that are the user's own, and have another name in the golden.

What a class is called says nothing of what it does: one that is renamed, or moved to another module, is recognised by
what it holds. Whether it still computes the same is for the comparison of its updates to say, as it is for a class that
kept its name. Classes of libraries are no names but choices: `SGD` instead of `Adam` is another training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_traincheck.optimizer_label import without_class
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.symbols import Symbol

Facts = Mapping[str, Mapping[str, Any]]
"""Optimizers by their labels, as `describe_optimizers` describes them."""


def find_renamed_optimizers(golden: Facts, candidate: Facts) -> dict[str, str]:
    """Candidate's class -> golden's, for own classes that each side alone has, hold the same models under the same
    settings, and are the only ones to do so.
    """
    return _only_pairs(_signatures(golden), _signatures(candidate))


def find_renamed_schedulers(golden: Facts, candidate: Facts) -> dict[str, str]:
    """The same of schedulers, by the optimizers that they step. Labels must be golden's already."""
    return _only_pairs(_stepped_by(golden), _stepped_by(candidate))


def with_classes(run: Run, classes: Mapping[str, str]) -> Run:
    """A run whose optimizers and schedulers of some classes are of golden's, by name."""
    if not classes:
        return run
    processes = tuple(_with_classes(process, classes) for process in run.processes)
    return Run(run.path, processes, run.workers, run.others)


def _signatures(optimizers: Facts) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for label, facts in sorted(optimizers.items()):
        if facts.get("settings") is not None:
            found.setdefault(str(facts["class"]), []).append((without_class(label), tuple(facts["settings"])))
    return {name: tuple(sorted(each)) for name, each in found.items()}


def _stepped_by(optimizers: Facts) -> dict[str, Any]:
    found: dict[str, list[str]] = {}
    for label, facts in sorted(optimizers.items()):
        for name in facts.get("schedulers", ()):
            found.setdefault(str(name), []).append(label)
    return {name: tuple(each) for name, each in found.items()}


def _only_pairs(golden: Mapping[str, Any], candidate: Mapping[str, Any]) -> dict[str, str]:
    gone = {name: what for name, what in golden.items() if name not in candidate}
    come = {name: what for name, what in candidate.items() if name not in golden}
    pairs: dict[str, str] = {}
    for name, what in come.items():
        alike = [other for other, known in gone.items() if known == what]
        if len(alike) == 1 and sum(other == what for other in come.values()) == 1:
            pairs[name] = alike[0]
    return pairs


def _with_classes(process: Process, classes: Mapping[str, str]) -> Process:
    symbols = dict(process.raw.symbols)
    symbols["opt"] = [_of_class(symbol, "class", classes) for symbol in symbols["opt"]]
    symbols["api"] = [_of_class(symbol, "name", classes) for symbol in symbols["api"]]
    raw = replace(process.raw, symbols=symbols)
    return Process(raw, process.root_names, process.optimizer_names, process.lead, process.argument_names)


def _of_class(symbol: Symbol, field: str, classes: Mapping[str, str]) -> Symbol:
    """A symbol that names a class, or what is called of it, with golden's name of that class."""
    name = str(symbol.get(field, ""))
    kind, dot, method = (name, "", "") if field == "class" or name in classes else name.rpartition(".")
    return {**symbol, field: f"{classes[kind]}{dot}{method}"} if kind in classes else symbol
