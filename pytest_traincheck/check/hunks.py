"""The changed lines that touch an incident's place, or none: an unrelated change is never shown.

Pure: what changed between both trees is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_traincheck.check.blocks import MAX_LINES, ChangedFile
from pytest_traincheck.check.result import ChangedLines, Incident, Violation
from pytest_traincheck.check.standing import Known, Place, Standing, sort_out
from pytest_traincheck.observing import short_names

CONTAINS = "contains the line"
SAME_FUNCTION = "same function"
SAME_FILE = "same file"
OTHER_FILE = "another file"
ON_THE_PATH = "same function as a consequence"
ONLY_CHANGE = "the only change"
ONLY_READ = "the only change that runs"

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIMENSIONS = re.compile(r"[123]d$")

_COMMON = frozenset({"train", "eval", "step", "forward", "lr"})
"""Names that stand for much else; as API they count only where they are called on something, `model.train()`."""

_RATE = frozenset({"lr", "learning_rate"})
"""Two words for one thing."""

_GENERIC_PARTS = frozenset({"weight", "bias", "in_proj_weight", "in_proj_bias", "module", "model", "layers"})


@dataclass(frozen=True)
class Names:
    """What an incident's place is called in code: names of APIs, and words such as arguments and variables."""

    apis: frozenset[str]
    words: frozenset[str]
    parts: frozenset[str] = frozenset()
    """What a name has between its underscores, in lower case."""

    def count(self, lines: Iterable[str]) -> int:
        """How many of these lines name it."""
        return sum(self._in(line) for line in lines)

    def _in(self, line: str) -> bool:
        if line.lstrip().startswith("#"):
            return False
        for found in _WORD.finditer(line):
            word = found.group()
            if word in self.words:
                return True
            if word in _COMMON:
                called = line[found.end() :].lstrip().startswith("(") and line[: found.start()].endswith(".")
                if called and word in self.apis:
                    return True
            elif _plain(word) in self.apis or not self.parts.isdisjoint(_parts(word)):
                return True
        return False


def attach(
    incidents: Sequence[Incident], changes: Mapping[str, tuple[str, str]], known: Known | None = None
) -> tuple[Incident, ...]:
    """The incidents with the changed lines that touch them.

    Args:
        changes: text in golden and in the candidate for each file that differs, "" where it does not exist. Paths are
            as in the incidents' `source`.
        known: what else is known of the candidate; None where nothing is.
    """
    known = known or Known()
    renamed = known.renamed_modules
    files = [ChangedFile(path, old, new, renamed) for path, (old, new) in sorted(changes.items())]
    standing = sort_out(files, known)
    return tuple(replace(incident, diff=_changed_lines(incident, standing)) for incident in incidents)


def _changed_lines(incident: Incident, changes: Standing) -> ChangedLines | None:
    """The hunk that says most about an incident, or None.

    What cannot have been behind it is left aside as long as there is anything else.
    """
    best = changes.best
    found = _connected(incident, best) or _only(best, ONLY_CHANGE if len(best) == changes.count else ONLY_READ)
    if found is None and changes.likely and changes.unlikely:
        found = _connected(incident, (*changes.likely, *changes.unlikely))
    return found


def _connected(incident: Incident, places: Sequence[Place]) -> ChangedLines | None:
    """The hunk that a line, a name or a consequence of an incident leads to."""
    root = incident.cause
    for source in dict.fromkeys((root.place or root.source, root.source)):
        found = _lines_at(incident, source, places)
        if found is not None:
            return found
    return _on_the_path(incident, places) if is_missing(root) else None


def _lines_at(incident: Incident, source: str, places: Sequence[Place]) -> ChangedLines | None:
    """The hunk that says most about an incident at one place."""
    missing = is_missing(incident.cause)
    path, line = position(source)
    names = names_of(incident.cause)
    here = [place for place in places if place.file.path == path and line]
    inside = [place for place in here if place.file.in_function(place.block, line)]
    touching = [place for place in here if place.file.touches(place.block, line)]

    def near(place: Place) -> int:
        return abs(place.block.j1 + 1 - line)

    def lost(place: Place) -> int:
        return names.count(place.file.lost(place.block))

    def gone(place: Place) -> int:
        return names.count(place.file.removed(place.block))

    def named(place: Place) -> int:
        return gone(place) + names.count(place.file.added(place.block))

    def by_name(mentions: Callable[[Place], int]) -> list[ChangedLines | None]:
        return [_best(some, how, mentions, near) for some, how in around]

    elsewhere = [place for place in places if place not in here]
    around = [(inside, SAME_FUNCTION), (here, SAME_FILE), (elsewhere, OTHER_FILE)]
    nearest = _best(inside, SAME_FUNCTION, lambda _: 1, near)
    if missing:
        # What is not there any more comes before what moved or was put under a condition.
        first, then = by_name(lost), by_name(gone)
        contains = _best(touching, CONTAINS, lambda place: 1 + gone(place), near)
        order = [*first[:2], *then[:2], contains, first[2], then[2], nearest]
    else:
        order = [_best(touching, CONTAINS, lambda place: 1 + named(place), near), *by_name(named), nearest]
    return next((item for item in order if item is not None), None)


def _only(places: Sequence[Place], how: str) -> ChangedLines | None:
    """All that changed, where that is one hunk, or a few in one file that are short enough to be shown together."""
    file = places[0].file if places else None
    if file is None or any(place.file is not file for place in places):
        return None
    hunks = file.hunks([place.block for place in places])
    if len(hunks) > 1 and sum(hunk.count("\n") for hunk in hunks) > MAX_LINES:
        return None
    _, focus = file.hunk(places[0].block)
    return ChangedLines(file.path, "\n".join(hunks), how, focus)


def _best(
    places: Sequence[Place], how: str, score: Callable[[Place], int], distance: Callable[[Place], int]
) -> ChangedLines | None:
    """The place with the highest score above 0, among equals the nearest."""
    scored = [(score(place), -distance(place), place) for place in places]
    best = max((item for item in scored if item[0] > 0), key=lambda item: item[:2], default=None)
    return None if best is None else _shown(best[2], how)


def _shown(place: Place, how: str) -> ChangedLines:
    text, focus = place.file.hunk(place.block)
    return ChangedLines(place.file.path, text, how, focus)


def _on_the_path(incident: Incident, places: Sequence[Place]) -> ChangedLines | None:
    """A change in a function that some consequence comes from."""
    for violation in incident.consequences:
        path, line = position(violation.source)
        for place in places:
            if line and place.file.path == path and place.file.in_function(place.block, line):
                return _shown(place, ON_THE_PATH)
    return None


def position(source: str) -> tuple[str, int]:
    """File and line of a `file:line`; an empty file and 0 for anything else."""
    file, _, line = source.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else ("", 0)


def is_missing(violation: Violation) -> bool:
    """Whether something that golden did is not done at all, so that the source line is only where it was noticed."""
    return violation.deviation.is_absence


def names_of(violation: Violation) -> Names:
    """Under which names the user's code would speak of what was violated."""
    spoken = violation.meaning.words
    apis = set(spoken.names) or set(_called(violation.invariant.subject)).union(*map(_called, spoken.apis))
    words = {*spoken.words}
    if words & _RATE:
        words |= _RATE
    for variable in (*(violation.variables if spoken.finds_variables else ()), *spoken.variables):
        # Without the model's own name, and without what every layer has.
        words.update(part for part in variable.split(".")[1:] if part not in _GENERIC_PARTS)
    kept = {word for word in words if len(word) > 1 and not word.isdigit()}
    names = frozenset(name if name in _COMMON else _plain(name) for name in apis)
    return Names(names, frozenset(kept), frozenset(spoken.parts))


def _called(subject: str) -> Iterable[str]:
    """What stands in user code for an API."""
    api = subject.partition("|")[0].partition(" ")[0]
    parts = api.split(".")
    if len(parts) == 1:
        return ()
    if parts[-1] in ("step", "forward", "lr"):
        return {parts[-2], *short_names(parts[-2]), parts[-1]} - {"Module", "forward"}
    return (parts[-1],)


def _plain(name: str) -> str:
    """`Dropout2d`, `dropout` and `dropout2d` are one name; so are `LayerNorm` and `layer_norm`."""
    return _DIMENSIONS.sub("", name.replace("_", "").lower())


def _parts(name: str) -> set[str]:
    """`model`, `ema` of `model_ema` and of `ModelEMA`."""
    return {part.lower() for part in _PART.findall(name)}
