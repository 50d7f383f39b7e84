"""Total: how much one run of a command trains and evaluates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import COUNT, TEXT, Form, one_of, optional
from pytest_traincheck.relations.context import rank_label
from pytest_traincheck.relations.count import FORWARD, as_code, called_model, counted, name_and_owner, said_otherwise
from pytest_traincheck.relations.meaning import Change, Deviation, Meaning, Place
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

STEPS, EVALUATIONS, EXAMPLES = "steps", "evaluations", "examples"

_ASKED = "GradScaler.step"


class Total:
    """An optimizer makes so many steps in a run, a model is evaluated in so many places and on so many examples.

    A program that stops half-way and ends in good order breaks no rule about what happens in a step. Steps are counted
    exactly; of evaluations and examples there may be more. What differs between golden runs, as where training stops
    when nothing improves, is no rule.
    """

    name = "Total"
    forms: ClassVar[tuple[Form, ...]] = (
        {"of": one_of(STEPS), "api": TEXT, "total": COUNT, "backward": optional(COUNT)},
        {"of": one_of(EVALUATIONS, EXAMPLES), "api": TEXT, "total": COUNT},
    )

    def layer(self, claim: Mapping[str, Any]) -> int:
        return 1

    def meaning(self, rule: Invariant) -> Meaning:
        model, stage = called_model(rule.claim.get("api", ""))
        length = frozenset({Change.LENGTH})
        return Meaning(
            Place.RUN,
            order=1,  # What is missing in a step comes before what is missing in the whole run.
            brings=length,
            comes_with=length,
            model=model,
            evaluates=stage == "eval",
            per_run=True,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for api in _stepping(process):
                steps = {"of": STEPS, "api": api, "total": len(counted(process)[api])}
                backward = _backward(process)
                for claim in ({**steps, "backward": backward}, steps):
                    yield Hypothesis(
                        self.name, name_and_owner(api)[0], claim, scope=Scope.PINNED, family=f"steps {api}"
                    )
        for api in _called(run):
            evaluated = api.endswith(" in eval")
            for of, total in ((EVALUATIONS, _places(run, api)), (EXAMPLES, _examples_given(run, api))):
                if total and (of == EXAMPLES or evaluated):
                    claim = {"of": of, "api": api, "total": total}
                    yield Hypothesis(self.name, name_and_owner(api)[0], claim, scope=Scope.PINNED)

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        api, total = claim["api"], claim["total"]
        if claim["of"] == STEPS:
            return Examples.concatenate(
                [_example(process, number, _steps(process, api), claim) for number, process in enumerate(run.processes)]
            )
        found = (_places if claim["of"] == EVALUATIONS else _examples_given)(run, api)
        if not run.processes:
            return EMPTY
        return _one(run.processes[0], 0, found >= total, str(found))

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        spoken, total = as_code(claim["api"]), claim["total"]
        if claim["of"] == STEPS:
            return f"{spoken} is called {_times(total)} in a run{when}."
        if claim["of"] == EVALUATIONS:
            return f"{spoken} is called at {total} or more points of a run{when}."
        return f"{spoken} is given {total} or more examples in a run{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        spoken, total = as_code(claim["api"]), claim["total"]
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "0"
        if claim["of"] == EVALUATIONS:
            return Finding(
                f"In the golden run {spoken} was called at {total} or more points, before, between or after the "
                f"training steps; in the candidate at {seen}: evaluations are missing.",
                f"called at {total} or more points",
                f"called at {seen}",
                deviation=Deviation.FEWER,
            )
        if claim["of"] == EXAMPLES:
            return Finding(
                f"In the golden run {spoken} was given {total} or more examples; in the candidate {seen}.",
                f"given {total} or more examples",
                f"given {seen}",
                deviation=Deviation.FEWER,
            )
        found, _, early = seen.partition(" ")
        made = plural(int(found), "optimizer step")
        golden = f"{plural(total, 'step')} in every run"
        if early:
            return Finding(
                f"The candidate made {made} ({spoken}), the golden run {total}: the candidate's run ends early.",
                golden,
                f"ended after {plural(int(found), 'step')}",
                deviation=Deviation.CUT_SHORT,
            )
        return Finding(f"The candidate made {made} ({spoken}), the golden run {total}.", golden, f"{found} steps")


def _times(total: int) -> str:
    return {1: "exactly once", 2: "exactly twice"}.get(total, f"exactly {total} times")


def _stepping(process: Process) -> list[str]:
    """What takes steps: each optimizer, or the gradient scaler, to which it is left whether a step is taken."""
    found = counted(process)
    asked = [api for api in found if api.endswith(_ASKED) and len(found[api])]
    if asked:
        return asked
    return [api for api, rows in found.items() if len(rows) and _is_step(process, api)]


def _is_step(process: Process, api: str) -> bool:
    kinds = {f"{kind}.step" for kind in process.optimizer_class if kind}
    return name_and_owner(api)[0] in kinds and not said_otherwise(process, api)


def _steps(process: Process, api: str) -> int:
    return len(counted(process).get(api, ()))


def _backward(process: Process) -> int:
    """Backward passes of a run, those outside of every step."""
    rows = process.rows_of_type("autograd")
    return int((~process.inside("autograd", "optimizer")[rows]).sum())


def _example(process: Process, number: int, found: int, claim: Mapping[str, Any]) -> Examples:
    total, golden = claim["total"], claim.get("backward")
    # Where a step is left out its backward pass is not; a run that is cut short has fewer of both.
    early = found < total and (golden is None or _backward(process) * total == golden * found)
    return _one(process, number, found == total, f"{found} early" if early else str(found))


def _one(process: Process, number: int, holds: bool, observed: str) -> Examples:
    """A single example for a process, at its last step."""
    rows = [step.row for step in process.lead_steps]
    return Examples(
        np.array([holds]),
        np.array([number]),
        np.array(rows[-1:] or [0], dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        {"rank": rank_label(process, 1)} if number or len(rows) else {},
        Labels.of(np.zeros(1, dtype=np.int64), (observed,)),
    )


def _called(run: Run) -> list[str]:
    """The models that are called, by stage; not in set-up, where one may show its shapes."""
    found = {
        api: None
        for process in run.processes
        for api, rows in counted(process).items()
        if api.startswith(f"{FORWARD}|") and len(rows) and not api.endswith(" in init")
    }
    return sorted(found)


def _forward(process: Process, api: str) -> Ints:
    """Calls of a model; not those in a closure, which an optimizer calls as often as it sees fit."""
    rows = counted(process).get(api, np.empty(0, dtype=np.int64))
    return rows[~process.inside("autograd", "optimizer")[rows]]


def _places(run: Run, api: str) -> int:
    """After how many different numbers of steps a model is called, by any rank."""
    return len({int(window) for process in run.processes for window in process.window[_forward(process, api)]})


def _examples_given(run: Run, api: str) -> int:
    """How many rows a model is given, in all calls of all ranks."""
    return sum(
        int(_rows_of_calls(process)[process.events["args"][_forward(process, api)]].sum()) for process in run.processes
    )


def _rows_of_calls(process: Process) -> Ints:
    """The size of the first dimension of the largest tensor among each set of arguments; 1 where there is none."""
    return process.memo(
        "rows of calls",
        lambda: np.array([_rows(symbol.get("values", {})) for symbol in process.raw.symbols["args"]], dtype=np.int64),
    )


def _rows(values: Mapping[str, Any]) -> int:
    shapes = [shape for value in values.values() for shape in _shapes(value) if shape]
    return max(shapes, key=lambda shape: int(np.prod(shape)), default=[1])[0]


def _shapes(value: Any) -> Iterable[list[int]]:
    if not isinstance(value, Mapping):
        return
    if "tensor" in value:
        yield [size if type(size) is int and size > 0 else 1 for size in value["tensor"].get("shape") or []]
    for kind in ("list", "tuple"):
        for item in value.get(kind, ()):
            yield from _shapes(item)
    for item in value.get("dict", {}).values() if isinstance(value.get("dict"), Mapping) else ():
        yield from _shapes(item)
