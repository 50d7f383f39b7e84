"""CollectiveOrder: the ranks of a process group issue the same collectives in the same order, and get the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import SKETCHES, Looks
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.exchanged import MADE, Exchange, Made, exchanges, makes, puts_in_zeros
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.side_by_side import side_by_side
from pytest_traincheck.trace.stages import TRAIN

ISSUED: Final = "issued"
RESULT: Final = "result"
MAKES: Final = "makes"
GIVEN: Final = "given"

Fact = Literal["api", "dtype", "numel"]
_FACTS: tuple[Fact, ...] = ("api", "dtype", "numel")
_OF_ONE = ("group", "gather_list", "scatter_list")
"""Arguments of which no other rank has the like: one rank has a list of tensors for all."""
_REDUCED: tuple[Made, ...] = ("sum", "mean")
_COPIED: tuple[Made, ...] = ("copy",)
"""What collectives make that reduce, and all others."""


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


@dataclass(frozen=True)
class Makes(Claim):
    """What a collective makes of what the ranks put in."""

    of: Literal["makes"] = field(default=MAKES, init=False)
    api: str
    made: Made


@dataclass(frozen=True)
class PutsIn(Claim):
    """No rank puts in nothing but zeros."""

    of: Literal["given"] = field(default=GIVEN, init=False)
    api: str


_Claim = IssuedAlike | SameResult | Makes | PutsIn


class CollectiveOrder:
    """Per process group: the k-th collective of every rank is the same one, with the same dtype and number of elements;
    and what all ranks share after it (`all_reduce`, `all_gather`, `broadcast`) has the same content on all, which is
    the sum, the mean or a copy of what they put in.
    """

    name = "CollectiveOrder"
    looks: ClassVar[Looks] = frozenset({SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (IssuedAlike, SameResult, Makes, PutsIn)

    def layer(self, claim: _Claim) -> int:
        return 2 if isinstance(claim, SameResult) else 1

    def meaning(self, rule: Invariant[_Claim]) -> Meaning:
        # Which values are exchanged, and whether they are added up, is up to the program.
        return Meaning(Place.EXCHANGE, general=isinstance(rule.claim, (IssuedAlike, SameResult)))

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
            for made in _REDUCED if "reduce" in api else _COPIED:
                yield Hypothesis(self.name, api, Makes(api, made), family=f"{MAKES} {api}")
            yield Hypothesis(self.name, api, PutsIn(api), scope=Scope.PINNED)

    def examples(self, claim: _Claim, run: Run) -> Examples:
        if isinstance(claim, SameResult):
            return Examples.concatenate([_results(run, peers, claim) for peers in run.peers])
        if isinstance(claim, (Makes, PutsIn)):
            return Examples.concatenate([_exchanged(run, peers, claim) for peers in run.peers])
        return Examples.concatenate([_issued(run, peers, claim) for peers in run.peers])

    def sentence(self, claim: _Claim, subject: str, when: str) -> str:
        if isinstance(claim, SameResult):
            return f"After `{subject}` all ranks of the process group have the same values{when}."
        if isinstance(claim, Makes):
            return f"`{subject}` leaves {MADE[claim.made]} on every rank{when}."
        if isinstance(claim, PutsIn):
            return f"What ranks put into `{subject}` is not all zero{when}."
        if claim.same == "api":
            return f"If one rank calls `{subject}`, all ranks of its process group do, in the same order{when}."
        return f"All ranks of a process group call `{subject}` with the same {_spoken(claim)}{when}."

    def finding(self, invariant: Invariant[_Claim], run: Run, examples: Examples, broken: Ints) -> Finding:
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
        if isinstance(claim, Makes):
            rank, _, now = seen.partition(" ")
            return Finding(
                f"`{api}` left {MADE[claim.made]} on every rank in the golden run; in the candidate rank {rank} has "
                f"{now}.",
                MADE[claim.made],
                f"{now} on rank {rank}",
            )
        if isinstance(claim, PutsIn):
            return Finding(
                f"Every rank put numbers other than zero into `{api}` in the golden run; in the candidate {seen} "
                "nothing but zeros.",
                "no rank puts in zeros alone",
                f"{seen} zeros alone",
                deviation=Deviation.LACKING,
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
    """Group, dtype and number of elements of the tensors of one argument list, but for what one rank alone gives."""
    values = process.raw.symbols["args"][number].get("values") or {}
    tensors = [tensor for name, value in values.items() if name not in _OF_ONE for tensor in _tensors(value)]
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
        if process.raw.stretch is not None and process.raw.joins:
            # Where one rank saves for all, what is known of each before a resume may end behind another step.
            rows = rows[process.era(process.events["seq"][rows]) == len(process.raw.joins)]
        if process.sampled:
            rows = rows[_in_whole_steps(process, rows)]
        numbers = process.events["args"][rows].tolist()
        facts = {number: _facts(process, number) for number in set(numbers)}
        for row, number in zip(rows.tolist(), numbers, strict=True):
            group, dtype, size = facts[number]
            found.setdefault(group, []).append((row, process.api[row], dtype, size))
        return found

    return process.memo("collectives by group", compute)


def _in_whole_steps(process: Process, rows: Ints) -> Bools:
    """Which of these calls of a process that sleeps between steps do not come between its waking, or its last step, and
    the next model that it trains. One rank wakes sooner than another, as by an archive that it alone writes.
    """
    windows, numbers = process.window[rows], process.numbers
    entries = process.entry_rows[process.stage[process.entry_rows] == TRAIN]
    following = np.searchsorted(entries, rows)
    begun = np.zeros(len(rows), dtype=bool)
    begun[following > 0] = process.window[entries[following[following > 0] - 1]] == windows[following > 0]
    goes_on = windows > 0
    goes_on[goes_on] = np.diff(numbers)[windows[goes_on] - 1] == 1
    return np.asarray(begun | goes_on | (windows == 0))


def _groups(run: Run, peers: tuple[int, ...]) -> Mapping[str, Mapping[int, list[tuple[int, str, str, str]]]]:
    """For each group the collectives of the processes that used it, but for those that have nothing beside them."""

    def compute() -> Mapping[str, Mapping[int, list[tuple[int, str, str, str]]]]:
        found: dict[str, dict[int, list[tuple[int, str, str, str]]]] = {}
        beside = side_by_side(run, peers)
        for place, position in enumerate(peers):
            process = run.processes[position]
            for group, entries in _by_group(process).items():
                seq = process.events["seq"][[entry[0] for entry in entries]].astype(np.int64)
                kept = beside.together(place, seq).tolist()
                together = [entry for entry, is_kept in zip(entries, kept, strict=True) if is_kept]
                found.setdefault(group, {})[position] = together
        return found

    return run.memo(("collectives of groups", peers), compute)


def _issued(run: Run, peers: tuple[int, ...], claim: IssuedAlike) -> Examples:
    api, what = claim.api, claim.same
    rows: list[int] = []
    process: list[int] = []
    holds: list[bool] = []
    texts: list[str] = []
    for members in _groups(run, peers).values():
        columns = list(members.values())
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
            process.append(list(members)[anchor])
            holds.append(same_api if what == "api" else len(set(seen)) == 1)
            texts.append(_listing(run, list(members), seen))
    return _table(run, rows, process, holds, texts)


def _listing(run: Run, members: list[int], seen: list[str]) -> str:
    pairs = list(zip(members, seen, strict=True))[:4]
    return ", ".join(f"{text or 'no tensor'} on rank {run.processes[position].rank}" for position, text in pairs)


def _results(run: Run, peers: tuple[int, ...], claim: SameResult) -> Examples:
    rows: list[int] = []
    process: list[int] = []
    holds: list[bool] = []
    for members in _groups(run, peers).values():
        columns = []
        for position, entries in members.items():
            mine = run.processes[position]
            measured = mine.measures("collective.result")
            table = dict(zip(mine.events["parent"][measured].tolist(), mine.events["digest"][measured].tolist(),
                             strict=True))  # fmt: skip
            calls = [entry[0] for entry in entries if entry[1] == claim.api]
            columns.append([(row, table[seq]) for row in calls if (seq := int(mine.events["seq"][row])) in table])
        if len(members) < 2:
            continue
        for place in range(min(map(len, columns))):
            rows.append(columns[0][place][0])
            process.append(next(iter(members)))
            holds.append(len({column[place][1] for column in columns}) == 1)
    return _table(run, rows, process, holds, [])


def _exchanged(run: Run, peers: tuple[int, ...], claim: Makes | PutsIn) -> Examples:
    """One example for each collective of which all ranks of the group know what they put in and what was left."""
    rows: list[int] = []
    process: list[int] = []
    holds: list[bool] = []
    texts: list[str] = []
    for entries in _groups(run, peers).values():
        members = list(entries)
        columns = [_known(run.processes[position], entries[position], claim.api) for position in members]
        if len(members) < 2 or len({len(column) for column in columns}) != 1:
            continue
        for place in range(len(columns[0])):
            calls = [column[place][1] for column in columns]
            if any(call is None for call in calls):
                continue
            known = [call for call in calls if call is not None]
            first = columns[0][place][0]
            judged = _judged(claim, known, _source(run, members, first))
            if judged is None:
                continue
            rows.append(first)
            process.append(members[0])
            holds.append(judged[0])
            texts.append(_of_ranks(judged[1], [run.processes[position].rank for position in members]))
    return _table(run, rows, process, holds, texts)


def _known(process: Process, entries: list[tuple[int, str, str, str]], api: str) -> list[tuple[int, Exchange | None]]:
    """Row and exchange of every call of a collective."""
    found = exchanges(process)
    rows = [entry[0] for entry in entries if entry[1] == api]
    return [(row, found.get(int(process.events["seq"][row]))) for row in rows]


def _judged(claim: Makes | PutsIn, known: list[Exchange], source: int) -> tuple[bool, str] | None:
    if isinstance(claim, Makes):
        return makes(claim.made, known, source)
    zeros = puts_in_zeros(known)
    if zeros is None:
        return None
    # Where all put in zeros there is nothing to exchange yet.
    return all(zeros) or not any(zeros), " ".join(str(place) for place, zero in enumerate(zeros) if zero)


def _source(run: Run, members: list[int], row: int) -> int:
    """Position of the rank that a collective copies from; -1 where it copies from each."""
    process = run.processes[members[0]]
    values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
    ranks = [run.processes[position].rank for position in members]
    if values.get("src") in ranks:
        return ranks.index(values["src"])
    within = values.get("group_src")
    return within if isinstance(within, int) and within < len(ranks) else -1


def _of_ranks(text: str, ranks: list[int]) -> str:
    """The positions that a text begins with as ranks: `1 zero` of the ranks 4 and 5 as `5 zero`."""
    words = text.split()
    # A list of positions, or one and what is said of it, which may begin with a number too: `1 2 times that`.
    places = words if all(map(str.isdecimal, words)) else words[:1]
    rest = words[len(places) :]
    named = [str(ranks[int(place)]) for place in places]
    if rest or not named:
        return " ".join([*named, *rest])
    return f"rank{'s' if len(named) > 1 else ''} {' and '.join(named)} put{'' if len(named) > 1 else 's'} in"


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
