"""Compares a run with a recording: every place where the condition of a claim is met, and whether the claim holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pytest_traincheck.golden.recording import GRAD, Recording
from pytest_traincheck.golden.step_log import shared
from pytest_traincheck.replay.batches import made_elsewhere
from pytest_traincheck.replay.build import Recorded, record
from pytest_traincheck.replay.calls import BEGINNING, RANDOM, Calls, Compared, Status
from pytest_traincheck.replay.computed import INFINITE, Call, Computed, of_training, paired_phases
from pytest_traincheck.replay.difference import Difference, first_after, first_within, first_within_step
from pytest_traincheck.replay.flow import Flow
from pytest_traincheck.replay.gradients import steps_alike
from pytest_traincheck.replay.later import LATER, Course, Weighed, later, sketched, weighed
from pytest_traincheck.replay.parting import Parting, parting
from pytest_traincheck.replay.point import Point
from pytest_traincheck.replay.roles import roles_of_batch
from pytest_traincheck.trace import Run

FUNCTIONS = "torch.nn.functional"
"""Subject of functions that are called outside of every module."""

MODULE, FUNCTION, BATCH = "module", "function", "batch"

DRAWN, HELD = "drew other random numbers", "may hold other random numbers"
"""Why results owe nothing that are made of other random numbers than golden's."""

WORKERS = "are batches that workers make in one of the runs only"

STEP = frozenset({"loss", "gradient", "step", "variable"})
"""What claims are about that speak of a training step as a whole."""


@dataclass(frozen=True)
class Claim:
    """One place where golden's result is due, and what came instead.

    `what` is `module`, `function` or as in `Point`; `subject` names the root module, the optimizer or the API. `step`
    and `row`, a position among the events of the process, are the candidate's. `key` is the place's name within the
    run, the same in every run of one program.
    """

    what: str
    subject: str
    key: str
    process: int
    step: int
    row: int
    name: str
    holds: bool
    off: float
    allowed: float
    names: tuple[str, ...] = ()
    beside: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Of a batch: what its parts are for, by path, as far as the golden run shows it."""
    values: tuple[float, float] | None = None
    factor: float | None = None
    """Of an update: what all that moved moved by, in golden's moves, where that is one number."""
    since: int = -1
    """Of a later step: from which step on what is not trained had other values, -1 where it had not."""
    function: str = ""
    """Of a later step: what returned another number first."""
    same: tuple[str, ...] = ()
    """Of a later step: the functions that returned one number, where all of them returned golden's."""
    weighed: Weighed | None = None
    """Of a loss: the weights of its terms, where these are not the same."""
    first: Difference | None = None
    first_row: int = -1
    """Where the first difference is, among the events of the process."""
    behind: bool = False
    """Of what comes of a step: whether a call before it returned something else, which owes nothing to rounding."""
    among: bool = False
    """Whether other ranks train beside the one that it is about."""
    inner_row: int = -1
    """A call within the one that deviates: there is the code that computes it."""


@dataclass(frozen=True)
class Node:
    """A module in the tree of a model: the worst that became of its calls, and how far off they were."""

    path: str
    status: Status
    off: float
    calls: int


@dataclass(frozen=True)
class Comparison:
    """Claims in order of time, and the modules of all models in order of their first call."""

    claims: tuple[Claim, ...]
    nodes: tuple[Node, ...]
    called: frozenset[str] = frozenset()
    """Functions that golden called while it recorded gradients, in the steps that are compared."""
    masked: frozenset[str] = frozenset()
    """Functions that golden gave a mask, which may hide something in some steps only."""
    made: frozenset[str] = frozenset()
    """Keys of the places where golden's result was due, whether or not it came; none of the later steps."""
    lost: Mapping[str, str] = field(default_factory=dict)
    """Key of a call whose result owed nothing -> why, in words that go on behind a number of calls."""
    parting: Parting | None = None
    """Where the run went another way than golden's; None where it did not."""
    later: tuple[Course, ...] = ()
    """What was found of the steps behind those that are compared call by call, for each training process."""
    alike: frozenset[tuple[int, int]] = frozenset()
    """Process and step where an optimizer used golden's gradients, however they were computed, which it did in every
    step that is compared.
    """

    @property
    def deviating(self) -> frozenset[str]:
        """Keys of the places where golden's result did not come."""
        return frozenset(claim.key for claim in self.claims if not claim.holds)


def compare(golden: Recording, candidate: Recorded, platform: str = "") -> Comparison:
    """Process by process, by position: ranks in order."""
    claims: list[Claim] = []
    nodes: dict[str, Node] = {}
    made: set[str] = set()
    lost: dict[str, str] = {}
    partings: list[Parting] = []
    alike: set[tuple[int, int]] = set()
    unstable = frozenset(golden.unstable)
    for process in sorted(set(golden.calls["process"].tolist())):
        recordings = golden, candidate.recording
        for numbers in paired_phases(golden, candidate.recording, process):
            sides = [Computed(recording, process, phase) for recording, phase in zip(recordings, numbers, strict=True)]
            calls = Calls(sides[0], sides[1], platform, candidate.workers, golden.repeated)
            claims += _claims(calls, candidate, process, unstable)
            made |= _made(calls, process) - unstable
            if not numbers[0]:
                alike |= {(process, step) for step in steps_alike(calls)}
            lost.update(_lost(calls, process))
            # An evaluation that is given something else, after steps that were not looked at, parts nothing.
            found = parting(calls, process) if of_training(golden, process, numbers[0]) else None
            partings += [found] if found is not None else []
            for node in _nodes(calls):
                nodes[node.path] = _worse(nodes.get(node.path), node)
    made.update(claim.key for claim in claims)
    claims = [_weighed(claim, golden, candidate.recording) for claim in claims]
    courses, further = _later(golden, candidate)
    shared_out = _shared_out_since(golden, candidate.recording)
    owed = (claim for claim in (*claims, *further) if claim.holds or not _is_exchanged(claim, shared_out))
    return Comparison(
        tuple(owed),
        tuple(nodes.values()),
        _called(golden),
        _masked(golden),
        frozenset(made),
        lost,
        min(partings, key=lambda item: item.step, default=None),
        courses,
        frozenset(alike),
    )


def _weighed(claim: Claim, golden: Recording, candidate: Recording) -> Claim:
    """A claim about a loss with the weights of its terms, where these are other ones."""
    if claim.what != "loss" or claim.holds or claim.process >= min(len(golden.logs), len(candidate.logs)):
        return claim
    sides = [recording.logs[claim.process].steps for recording in (golden, candidate)]
    for ours, theirs in zip(*sides, strict=False):
        if ours.window == theirs.window == claim.step:
            return replace(claim, weighed=weighed(ours, theirs))
    return claim


def _shared_out_since(golden: Recording, candidate: Recording) -> Mapping[int, int]:
    """The step of each process from which on ranks share out their data otherwise than golden's did, each of which had
    as much as it had until the next wait for the others; of no process where they share it out as there.
    """
    pairs = [(log.waited, other.waited) for log, other in zip(golden.logs, candidate.logs, strict=False)]
    waits = min((len(both) for pair in pairs for both in pair), default=0)
    for number in range(waits):
        if any(ours[number] != theirs[number] for ours, theirs in pairs):
            return {place: theirs[number - 1] if number else 0 for place, (_, theirs) in enumerate(pairs)}
    return {}


def _is_exchanged(claim: Claim, shared_out: Mapping[int, int]) -> bool:
    """Whether a claim is about what other ranks have a part in, in a step in which they may be given anything."""
    since = shared_out.get(claim.process)
    return since is not None and claim.step >= since and claim.what in ("gradient", "step", "variable", LATER)


def _later(golden: Recording, candidate: Recorded) -> tuple[tuple[Course, ...], list[Claim]]:
    """What the logs of steps show, process by process, and a claim for each step that was given what golden's was."""
    courses, claims = [], []
    for process, (log, other) in enumerate(zip(golden.logs, candidate.recording.logs, strict=False)):
        course = later(log, other, sketched(golden, process), _autocast(golden))
        courses.append(course)
        for step in course.steps:
            logged = candidate.logs[process] if process < len(candidate.logs) else None
            rows = (logged.backward if step.of_backward else logged.rows) if logged is not None else None
            claims.append(
                Claim(
                    what=LATER,
                    subject="",
                    key=f"{process}|{LATER}|{step.number}",
                    process=process,
                    step=other.steps[step.number].window,
                    row=int(rows[step.number]) if rows is not None else -1,
                    name=log.steps[step.number].optimizer,
                    holds=step.holds,
                    off=step.off,
                    allowed=step.allowed,
                    names=step.names,
                    beside=step.what,
                    values=step.values,
                    since=step.since,
                    function=step.function,
                    same=step.same,
                    weighed=step.weighed,
                )
            )
    return tuple(courses), claims


def _autocast(golden: Recording) -> list[str]:
    return [golden.strings[number] for number in np.unique(golden.calls["autocast"]).tolist()]


def compare_with_itself(golden: Recording, platform: str = "", *, workers: bool = False) -> Comparison:
    """What a comparison makes where nothing has changed; `workers` as the candidate that is to be judged has them."""
    nowhere = np.full(len(golden.calls), -1), np.zeros(len(golden.sketches), dtype=np.int64)
    return compare(golden, Recorded(golden, *nowhere, workers), platform)


def _made(calls: Calls, process: int) -> set[str]:
    """Keys of the calls that were given golden's inputs."""
    found = calls.compared.values()
    return {_key(item.golden, process) for item in found if item.status is not Status.NOT_COMPARABLE}


def _lost(calls: Calls, process: int) -> Iterator[tuple[str, str]]:
    """Calls of golden whose result is not asked for, and why."""
    for golden in calls.golden.calls.values():
        if made_elsewhere(calls, golden):
            yield _key_of_point(BATCH, golden, process), WORKERS
        if golden.kind not in ("module", "function", "collective"):
            continue
        found = calls.compared.get(golden.index)
        if found is None:
            yield _key(golden, process), "have no counterpart"
        elif found.status is Status.NOT_COMPARABLE:
            given = f"in.{found.why}" in calls.golden.inputs.get(golden.index, {})
            yield _key(golden, process), _REASONS.get(found.why, "were given something else" if given else _PARAMETERS)


_PARAMETERS = "had other parameters"
_REASONS = {
    "arguments": "are called otherwise",
    "result": "return another number of tensors, or other shapes",
    RANDOM: DRAWN,
    BEGINNING: HELD,
}


def _key(golden: Call, process: int) -> str:
    return f"{process}|{golden.kind}|{golden.window}|{golden.module}|{golden.name}|{golden.begin}"


def _key_of_point(what: str, golden: Call, process: int) -> str:
    return f"{process}|{what}|{golden.window}|{golden.name}|{golden.begin}"


def _called(golden: Recording) -> frozenset[str]:
    calls, function = golden.calls, golden.strings.index(FUNCTION) if FUNCTION in golden.strings else -1
    found = calls["name"][(calls["kind"] == function) & ((calls["flags"] & GRAD) != 0)]
    return frozenset(golden.strings[number] for number in set(found.tolist()))


def _masked(golden: Recording) -> frozenset[str]:
    slots = [number for number, text in enumerate(golden.strings) if text.startswith("in.") and "mask" in text]
    calls = golden.sketches["call"][np.isin(golden.sketches["slot"], slots)]
    return frozenset(golden.strings[number] for number in set(golden.calls["name"][calls[calls >= 0]].tolist()))


def _claims(calls: Calls, candidate: Recorded, process: int, unstable: frozenset[str]) -> Iterator[Claim]:
    roots = {found.golden.index for found in calls.roots}
    for found in calls.compared.values():
        if found.status is Status.NOT_COMPARABLE or (found.status is Status.DEVIATES) != (found.golden.index in roots):
            continue
        claim = _of_call(calls, found, candidate, process)
        if claim.key not in unstable:
            yield claim
    deviates = min((found.golden.end for found in calls.roots), default=INFINITE)
    for point in Flow(calls).points():
        claim = replace(_of_point(calls, point, candidate, process), behind=deviates < point.golden.end)
        if claim.key in unstable:
            return  # No golden run shows what follows: each ended here, as a walk does at what deviates.
        yield claim


def _of_call(calls: Calls, found: Compared, candidate: Recorded, process: int) -> Claim:
    golden = found.golden
    module = golden.kind == "module"
    first = first_within(calls, golden) if found.status is Status.DEVIATES else None
    if first is None and found.parts:
        first = first_after(calls, golden)
    within = calls.candidate.children.get(found.candidate.index, [])
    inside = golden.module.partition(".")[0]
    return Claim(
        what=MODULE if inside else FUNCTION,
        subject=inside or FUNCTIONS,
        key=_key(golden, process),
        process=process,
        step=found.candidate.window,
        row=int(candidate.rows[found.candidate.index]),
        name=golden.module if module else golden.name,
        holds=found.status is not Status.DEVIATES,
        off=found.off,
        allowed=found.allowed,
        names=found.parts,
        first=first,
        first_row=int(candidate.rows[first.call.index]) if first is not None else -1,
        inner_row=int(candidate.rows[within[-1]]) if within else -1,
        beside=found.why,
    )


def _of_point(calls: Calls, point: Point, candidate: Recorded, process: int) -> Claim:
    golden = point.golden
    names = point.names
    first = first_within_step(calls, golden) if point.what == "loss" and not point.holds else None
    row = int(candidate.rows[point.candidate.index])
    return Claim(
        what=point.what,
        subject=_subject(point),
        key=_key_of_point(point.what, golden, process),
        process=process,
        step=point.candidate.window,
        row=int(candidate.rows[first.call.index]) if first is not None else row,
        name=golden.name,
        holds=point.holds,
        off=point.off,
        allowed=point.allowed,
        names=names,
        beside=point.beside,
        roles=roles_of_batch(calls.golden, golden) if golden.kind == "data" and not point.holds else {},
        values=_values(calls, golden, point.candidate) if point.what in ("loss", "told") else None,
        factor=point.factor,
        first=first,
    )


def _subject(point: Point) -> str:
    if point.what == "step":
        return point.golden.optimizer
    return point.golden.name if point.what in ("gradient", "told") else ""


def _values(calls: Calls, golden: Call, candidate: Call) -> tuple[float, float] | None:
    """The losses of both, or what both schedulers are given, where each is one number."""
    ours = list(calls.golden.inputs.get(golden.index, {}).values())
    theirs = list(calls.candidate.inputs.get(candidate.index, {}).values())
    if len(ours) == len(theirs) == 1 and ours[0].size == theirs[0].size == 1:
        return ours[0].mean, theirs[0].mean
    return None


_ORDER = (Status.NOT_COMPARABLE, Status.SAME, Status.DRIFTED, Status.DEVIATES)


def _worse(first: Node | None, second: Node) -> Node:
    if first is None:
        return second
    worse = max(first, second, key=lambda node: (_ORDER.index(node.status), node.off))
    return Node(second.path, worse.status, worse.off, first.calls + second.calls)


def _nodes(calls: Calls) -> Iterator[Node]:
    found: dict[str, Node] = {}
    for call in sorted(calls.golden.calls.values(), key=lambda call: call.begin):
        if call.kind != "module" or not call.module:
            continue
        compared: Compared | None = calls.compared.get(call.index)
        status = compared.status if compared is not None else Status.NOT_COMPARABLE
        off = compared.off if compared is not None else 0.0
        found[call.module] = _worse(found.get(call.module), Node(call.module, status, off, 1))
    return iter(found.values())


def against_itself(recorded: Recorded, platform: str = "") -> Comparison:
    """Every claim that can be made of a run: against itself it meets every condition."""
    return compare(replace(recorded.recording, repeated=True), recorded, platform)


def settled(first: Recorded, others: Sequence[Recorded], platform: str = "") -> Recording:
    """The recording of a golden run that claims nothing where others, given the same, gave something else; and nothing
    of batches that workers make unless another run had the same ones to make.
    """
    golden = first.recording
    found = [compare(replace(golden, repeated=True), other, platform) for other in others]
    unstable = {key for comparison in found for key in comparison.deviating}
    own = _batches(against_itself(first, platform))
    return replace(
        golden,
        unstable=tuple(sorted({*golden.unstable, *unstable})),
        repeated=bool(own) and own <= set().union(*map(_batches, found), unstable),
    )


def _batches(comparison: Comparison) -> set[str]:
    """Places of batches that are known by what is in them."""
    return {claim.key for claim in comparison.claims if claim.what == BATCH and claim.beside}


def with_repeats(golden: Recording, again: Sequence[Recorded], platform: str = "") -> Recording:
    """A recording that knows which of its places other golden runs with its seed reached with the same inputs."""
    if not again:
        return replace(golden, logs=())
    logs = golden.logs
    for other in again:
        logs = shared(logs, other.recording.logs)
    own = compare_with_itself(golden, platform, workers=again[0].workers).made
    reached = own.intersection(*(compare(golden, other, platform).made for other in again))
    return replace(golden, unrepeated=tuple(sorted(own - reached)), logs=logs)


def compare_run(recording: Recording, run: Run) -> Comparison | None:
    """A run against a recording; None where nothing was sketched in it."""
    recorded = record(run)
    if recorded is None:
        return None
    return run.memo(("replayed", id(recording)), lambda: compare(recording, recorded, run.platform))
