"""CollectiveOrder: the ranks of a process group issue the same collectives in the same order, and get the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.meaning import Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels

ISSUED: Final = "issued"
RESULT: Final = "result"

Fact = Literal["api", "dtype", "numel"]
_FACTS: tuple[Fact, ...] = ("api", "dtype", "numel")


@dataclass(frozen=True)
class IssuedAlike(Claim):
    """All ranks issue a collective at the same place, with the same dtype, or with the same number of elements."""

    of: Literal["issued"] = field(default=ISSUED, init=False)
    api: str
    same: Fact


@dataclass(frozen=True)
class SameResult(Claim):
    """What a collective leaves is the same on all ranks."""

    of: Literal["result"] = field(default=RESULT, init=False)
    api: str


class CollectiveOrder:
    """Per process group: the k-th collective of every rank is the same one, with the same dtype and number of elements;
    and what all ranks share after it (`all_reduce`, `all_gather`, `broadcast`) has the same content on all.
    """

    name = "CollectiveOrder"
    claims: ClassVar[tuple[type[Claim], ...]] = (IssuedAlike, SameResult)

    def layer(self, claim: IssuedAlike | SameResult) -> int:
        return 1 if isinstance(claim, IssuedAlike) else 2

    def meaning(self, rule: Invariant[IssuedAlike | SameResult]) -> Meaning:
        return Meaning(Place.EXCHANGE, general=True)

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        if not run.peers:
            return
        apis: dict[str, None] = {}
        for process in run.processes:
            apis.update(dict.fromkeys(process.api.groups(_calls(process))))
        for api in sorted(apis):
            for what in _FACTS:
                yield Hypothesis(self.name, api, IssuedAlike(api, what))
            yield Hypothesis(self.name, api, SameResult(api))

    def examples(self, claim: IssuedAlike | SameResult, run: Run) -> Examples:
        if isinstance(claim, SameResult):
            return Examples.concatenate([_results(run, peers, claim) for peers in run.peers])
        return Examples.concatenate([_issued(run, peers, claim) for peers in run.peers])

    def sentence(self, claim: IssuedAlike | SameResult, subject: str, when: str) -> str:
        if isinstance(claim, SameResult):
            return f"After `{subject}` all ranks of the process group have the same values{when}."
        if claim.same == "api":
            return f"If one rank calls `{subject}`, all ranks of its process group do, in the same order{when}."
        return f"All ranks of a process group call `{subject}` with the same {_spoken(claim)}{when}."

    def finding(
        self, invariant: Invariant[IssuedAlike | SameResult], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        api = claim.api
        seen = examples.observed[int(broken[0])] if examples.observed is not None else ""
        if isinstance(claim, SameResult):
            return Finding(
                f"After `{api}` all ranks had the same values in the golden run; in the candidate they differ "
                "between ranks.",
                "the same values on all ranks",
                "different values between ranks",
            )
        if claim.same == "api":
            return Finding(
                f"In the golden run all ranks called `{api}` together; in the candidate they call different things: "
                f"{seen}.",
                "the same collective on all ranks",
                seen,
            )
        return Finding(
            f"In the golden run all ranks called `{api}` with the same {_spoken(claim)}; in the candidate it "
            f"differs: {seen}.",
            f"the same {_spoken(claim)} on all ranks",
            seen,
        )


def _spoken(claim: IssuedAlike) -> str:
    return {"api": "call", "dtype": "dtype", "numel": "number of elements"}[claim.same]


def _calls(process: Process) -> Ints:
    """Outermost collectives that returned."""

    def compute() -> Ints:
        rows = process.rows_of_type("collective")
        raised = (process.events["flags"][rows] & fmt.RAISED) != 0
        outermost: Ints = rows[~process.inside("collective")[rows] & ~raised]
        return outermost

    return process.memo("collectives", compute)


def _facts(process: Process, number: int) -> tuple[str, str, str]:
    """Group, dtype and number of elements of the tensors of one argument list."""
    values = process.raw.symbols["args"][number].get("values") or {}
    tensors = [tensor for name, value in values.items() if name != "group" for tensor in _tensors(value)]
    dtypes = sorted({str(tensor.get("dtype")) for tensor in tensors})
    sizes = [int(np.prod([max(size, 0) for size in tensor.get("shape", ())] or [1])) for tensor in tensors]
    return str(values.get("group")), ", ".join(dtypes), " and ".join(map(str, sizes))


def _tensors(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        return []
    if "tensor" in value:
        return [value["tensor"]]
    items = value.get("list") or value.get("tuple") or ()
    return [tensor for item in items for tensor in _tensors(item)]


def _by_group(process: Process) -> Mapping[str, list[tuple[int, str, str, str]]]:
    """Row, API, dtype and sizes of every collective, in order, for each group."""

    def compute() -> Mapping[str, list[tuple[int, str, str, str]]]:
        found: dict[str, list[tuple[int, str, str, str]]] = {}
        rows = _calls(process)
        numbers = process.events["args"][rows].tolist()
        facts = {number: _facts(process, number) for number in set(numbers)}
        for row, number in zip(rows.tolist(), numbers, strict=True):
            group, dtype, size = facts[number]
            found.setdefault(group, []).append((row, process.api[row], dtype, size))
        return found

    return process.memo("collectives by group", compute)


def _groups(run: Run, peers: tuple[int, ...]) -> dict[str, list[int]]:
    """Positions of the processes that used each group."""
    found: dict[str, list[int]] = {}
    for position in peers:
        for group in _by_group(run.processes[position]):
            found.setdefault(group, []).append(position)
    return found


def _issued(run: Run, peers: tuple[int, ...], claim: IssuedAlike) -> Examples:
    api, what = claim.api, claim.same
    rows: list[int] = []
    process: list[int] = []
    holds: list[bool] = []
    texts: list[str] = []
    for group, members in _groups(run, peers).items():
        columns = [_by_group(run.processes[position])[group] for position in members]
        if len(members) < 2:
            continue
        for place in range(max(map(len, columns))):
            entries = [column[place] if place < len(column) else None for column in columns]
            present = [entry for entry in entries if entry is not None]
            if not any(entry[1] == api for entry in present):
                continue
            same_api = len(present) == len(entries) and len({entry[1] for entry in present}) == 1
            if what != "api" and not (same_api and any(entry[2] for entry in present)):
                continue  # a barrier has no tensors
            index = {"api": 1, "dtype": 2, "numel": 3}[what]
            seen = [str(entry[index]) if entry is not None else "nothing" for entry in entries]
            anchor = next(number for number, entry in enumerate(entries) if entry is not None)
            rows.append(present[0][0])
            process.append(members[anchor])
            holds.append(same_api if what == "api" else len(set(seen)) == 1)
            texts.append(_listing(run, members, seen))
    return _table(run, rows, process, holds, texts)


def _listing(run: Run, members: list[int], seen: list[str]) -> str:
    pairs = list(zip(members, seen, strict=True))[:4]
    return ", ".join(f"{text or 'no tensor'} on rank {run.processes[position].rank}" for position, text in pairs)


def _results(run: Run, peers: tuple[int, ...], claim: SameResult) -> Examples:
    rows: list[int] = []
    process: list[int] = []
    holds: list[bool] = []
    for group, members in _groups(run, peers).items():
        columns = []
        for position in members:
            mine = run.processes[position]
            measured = mine.measures("collective.result")
            table = dict(zip(mine.events["parent"][measured].tolist(), mine.events["digest"][measured].tolist(),
                             strict=True))  # fmt: skip
            calls = [entry[0] for entry in _by_group(mine)[group] if entry[1] == claim.api]
            columns.append([(row, table[seq]) for row in calls if (seq := int(mine.events["seq"][row])) in table])
        if len(members) < 2:
            continue
        for place in range(min(map(len, columns))):
            rows.append(columns[0][place][0])
            process.append(members[0])
            holds.append(len({column[place][1] for column in columns}) == 1)
    return _table(run, rows, process, holds, [])


def _table(run: Run, rows: list[int], process: list[int], holds: list[bool], texts: list[str]) -> Examples:
    if not rows:
        return EMPTY
    first = np.array([run.processes[p].window[row] == 0 for p, row in zip(process, rows, strict=True)], dtype=bool)
    return Examples(
        np.array(holds, dtype=bool),
        np.array(process, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.zeros(len(rows), dtype=np.int64),
        {"first_step": Labels.flags(first)},
        Labels.of(np.arange(len(texts)), texts) if texts else None,
    )
