"""What became of trained parameters between one step of an optimizer and the next: left alone, written to, restored."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.relations.loaded import MEASURE, MISSING, history_of
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Codes, Ints, Labels
from pytest_traincheck.trace.variables import Variables

HOLDS, WRITTEN, NOT_RESTORED, UNKNOWN = range(4)

RESTORE = "torch.nn.Module.load_state_dict"
EMBEDDING = "torch.nn.functional.embedding"
"""With `max_norm`, this one and `embedding_bag` scale rows in place."""


@dataclass(frozen=True)
class Pairs:
    """One line for each parameter and each two consecutive steps that moved it, as parallel columns."""

    variable: Ints
    """The parameter as the later step holds it."""
    before: Ints
    """The same as the earlier step left it: another id where a model takes the place of an earlier one."""
    root: Ints
    after: Ints
    """Time at which the earlier step ended."""
    until: Ints
    """Time at which the later step begins."""
    alike: Bools
    """Whether the parameter had the same content at both times."""
    row: Ints
    """Where the later content was first seen; the later step where that was before."""
    window: Ints

    def take(self, lines: Ints) -> Pairs:
        return Pairs(*(getattr(self, each.name)[lines] for each in fields(self)))


def pairs_of(process: Process) -> Pairs:
    """All pairs of a process. Parameters that no model holds, such as master copies, are left out."""
    return process.memo("pairs of steps", lambda: _pairs(process))


def judged(process: Process) -> Codes:
    """For each pair what became of the parameter in between."""
    return process.memo("between steps", lambda: _judged(process))


def _pairs(process: Process) -> Pairs:
    variables, events = Variables.of(process), process.events
    table = variables.step_table
    number = {name: code for code, name in enumerate(process.names.variables)}
    codes = np.array([number[name] for name in process.names.variables], dtype=np.int64)
    begins, ends, steps = (table.column(name) for name in ("begin", "end", "row"))
    lines = np.flatnonzero(variables.root[table.variable] > 0)
    lines = lines[np.lexsort((begins[lines], codes[table.variable[lines]]))]
    one_name = codes[table.variable[lines[1:]]] == codes[table.variable[lines[:-1]]]
    earlier, later = lines[:-1][one_name], lines[1:][one_name]
    after, until = ends[earlier], begins[later]
    stretch = process.raw.stretch
    if stretch is not None:
        # Of the steps between the beginning and the stretch nothing is there but what they have left.
        after = np.where(until > stretch.begin, np.maximum(after, stretch.begin), after)
    variable, before = table.variable[later], table.variable[earlier]
    before = np.where(variables.last(variable, after) >= 0, variable, before)
    # Behind steps that were not observed everything is seen for the first time once more.
    after = np.maximum(after, np.where(before == variable, _sighted(variables, variable, until), 0))
    left, found = variables.last(before, after), variables.last(variable, until)
    known = (after < until) & (left >= 0) & (found >= 0)
    left, found = np.maximum(left, 0), np.maximum(found, 0)
    alike = np.ones(len(later), dtype=bool)
    if len(events):
        for column in (events["new"], events["digest"]):
            alike &= column[left] == column[found]
    seen = events["seq"][found].astype(np.int64) if len(events) else found
    row = np.where(seen > after, found, steps[later])
    pairs = Pairs(variable, before, variables.root[variable], after, until, alike, row, process.window[steps[later]])
    return pairs.take(np.flatnonzero(known))


def _sighted(variables: Variables, variable: Ints, until: Ints) -> Ints:
    """When each variable was last seen for the first time before a time; 0 where it was not."""
    events = variables.process.events
    rows = variables.rows[events["old"][variables.rows] == fmt.UNSEEN]
    if not len(rows):
        return np.zeros(len(variable), dtype=np.int64)
    seq = events["seq"][rows].astype(np.int64)
    subject = events["subject"][rows].astype(np.int64)
    place = np.searchsorted((subject << 32) + seq, (variable << 32) + until) - 1
    mine = (place >= 0) & (subject[np.maximum(place, 0)] == variable)
    return np.where(mine, seq[np.maximum(place, 0)], 0)


def _judged(process: Process) -> Codes:
    pairs = pairs_of(process)
    found = np.full(len(pairs.row), HOLDS, dtype=np.int8)
    names = Labels.of(pairs.root, process.names.roots)
    # Models that take each other's place have one name.
    keys = names.codes.astype(np.int64) * (process.windows + 1) + pairs.window
    for key in np.unique(keys[~pairs.alike]).tolist():
        lines = np.flatnonzero(keys == key)
        found[lines] = _between(process, pairs.take(lines))
    return found


def _between(process: Process, pairs: Pairs) -> Codes:
    """What became of the parameters of one model before one step, some of which are not what they were."""
    size = len(pairs.row)
    since, until = int(pairs.after.min()), int(pairs.until.max())
    holds, unknown = np.full(size, HOLDS), np.full(size, UNKNOWN)
    if _steps_failed(process, since, until) or _waited(process, since, until):
        return unknown
    given = np.isin(pairs.variable, given_between(process, since, until))
    if given.all():
        return holds
    if _loads_unseen(process, pairs.root, since, until):
        return unknown
    if given.any():
        return np.where(given, HOLDS, NOT_RESTORED)
    anew = pairs.variable != pairs.before
    if not anew.all():
        wholly = not pairs.alike.any() and (_comes_from_elsewhere(process, since, until) or _had(process, pairs).all())
        written = UNKNOWN if wholly or _scales_rows(process, since, until) else WRITTEN
        return np.where(pairs.alike, HOLDS, written)
    # Ranks behind the first may get their values from it, in a way that shows nowhere; and what a model had that made
    # steps which were not observed is not known.
    if process.rank or _steps_unobserved(process, since, until):
        return unknown
    return _made_anew(process, pairs, since, until)


def _made_anew(process: Process, pairs: Pairs, since: int, until: int) -> Codes:
    """A model takes the place of another one, and nothing was seen to load it: its values tell where they are from."""
    had = pairs.alike | _had(process, pairs)
    if (process.era(pairs.after) < process.era(pairs.until)).all():
        # Another process has what it was made with, unless it was given something in a way that nobody saw.
        lost = np.where(_as_made(process, pairs), NOT_RESTORED, UNKNOWN)
        return np.where(pairs.alike | (had & ~_as_begun(process, pairs)), HOLDS, lost)
    if had.all():
        return np.full(len(had), HOLDS)
    # What begins with a constant has that anew without being restored.
    had &= ~_as_begun(process, pairs)
    # In later steps nobody knows all that the parameters once were.
    if _comes_from_elsewhere(process, since, until) and (not had.any() or process.raw.stretch is not None):
        return np.full(len(had), UNKNOWN)
    return np.where(pairs.alike | had, HOLDS, NOT_RESTORED)


def _as_begun(process: Process, pairs: Pairs) -> Bools:
    """Which parameters have the content that they were first seen with."""
    variables, digest = Variables.of(process), process.events["digest"]
    first = process.row_at(variables.first_seen(pairs.before))
    return np.asarray(digest[first] == digest[variables.last(pairs.variable, pairs.until)])


def _as_made(process: Process, pairs: Pairs) -> Bools:
    """Which parameters, as the later step holds them, have the content that they were first seen with."""
    variables, digest = Variables.of(process), process.events["digest"]
    first = process.row_at(variables.first_seen(pairs.variable))
    return np.asarray(digest[first] == digest[variables.last(pairs.variable, pairs.until)])


def _had(process: Process, pairs: Pairs) -> Bools:
    """Which parameters have a content that they were seen with, or saved with, before."""
    events, names, history = process.events, process.names.variables, history_of(process)
    last = Variables.of(process).last(pairs.variable, pairs.until)
    found = np.zeros(len(pairs.row), dtype=bool)
    for line, (row, number, time) in enumerate(
        zip(last.tolist(), pairs.variable.tolist(), pairs.after.tolist(), strict=True)
    ):
        earlier = history.of(int(events["digest"][row]))
        found[line] = any(
            int(events["seq"][place]) <= time and names[variable] == names[number] for _, place, variable in earlier
        )
    return found


def given_between(process: Process, since: int, until: int) -> Ints:
    """Parameters that a state was loaded into."""
    rows, seq = _loads(process)
    mine = (seq > since) & (seq < until) & (process.events["value"][rows] != MISSING)
    return np.unique(process.events["args"][rows[mine]].astype(np.int64))


def _loads(process: Process) -> tuple[Ints, Ints]:
    """Rows that say what a call was given, and when the call began: that is said when the parameter has a name."""
    rows = process.measures(MEASURE)
    rows = rows[process.parent_row[rows] >= 0]
    return rows, process.events["seq"][process.parent_row[rows]].astype(np.int64)


def _loads_unseen(process: Process, roots: Ints, since: int, until: int) -> bool:
    """Whether one of these models was loaded in a call of which nobody knows what it was given."""
    calls = process.rows_of_type("mode")
    seq = process.events["seq"][calls].astype(np.int64)
    calls = calls[(seq > since) & (seq < until) & process.api.isin([RESTORE])[calls]]
    calls = calls[np.isin(module_roots(process)[process.events["mod"][calls]], roots)]
    return not np.isin(process.events["seq"][calls].astype(np.int64), _loads(process)[1]).all()


def _comes_from_elsewhere(process: Process, since: int, until: int) -> bool:
    """Whether something was read from a file, or received from another rank."""
    names = process.api.values
    reads = np.array([("load" in name or "broadcast" in name) for name in names], dtype=bool)
    if not reads.any():
        return False
    rows = process.rows_of_type("io", "collective")
    rows = rows[reads[process.api.codes[rows]]]
    seq = process.events["seq"][rows]
    return bool(((seq > since) & (seq < until)).any())


def _scales_rows(process: Process, since: int, until: int) -> bool:
    """Whether an embedding was called that writes into its weights where they have grown too large."""
    symbols = process.raw.symbols["args"]
    limited = [number for number, each in enumerate(symbols) if (each.get("values") or {}).get("max_norm") is not None]
    rows = process.rows_of_type("function")
    seq = process.events["seq"][rows]
    rows = rows[(seq > since) & (seq < until) & np.isin(process.events["args"][rows], limited)]
    return any(process.api[row].startswith(EMBEDDING) for row in rows.tolist())


def _steps_unobserved(process: Process, since: int, until: int) -> bool:
    seq = process.events["seq"][process.measures(fmt.OBSERVED)]
    return bool(((seq > since) & (seq < until)).any())


def _waited(process: Process, since: int, until: int) -> bool:
    """Whether the rank waited for those that had more data, from which it has its parameters then."""
    seq = process.events["seq"][process.measures(fmt.WAITED)]
    return bool(((seq > since) & (seq < until)).any())


def _steps_failed(process: Process, since: int, until: int) -> bool:
    """Whether an optimizer's step raised, which may have moved some of what it holds."""
    rows = process.rows_of_type("optimizer")
    seq, raised = process.events["seq"][rows], (process.events["flags"][rows] & fmt.RAISED) != 0
    return bool(((seq > since) & (seq < until) & raised).any())
