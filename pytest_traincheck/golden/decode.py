"""Lines of JSON to a golden. The file is untrusted: everything is checked, nothing is evaluated."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pytest_traincheck.golden import format_1
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import ARGUMENTS, EXTENSIONS, FORMAT, IGNORES_SEED, STEPS, Golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Condition, condition_from_json
from pytest_traincheck.rules.model import Invariant, Kind, Scope

LINE_LIMIT = 8 * 1024 * 1024
"""Bytes of the longest line that is read."""

DEPTH_LIMIT = 32
"""Nesting of objects and lists that a line may have."""

_HEADER_KEYS = (
    *("format", "pipeline", "spec", "commit", "environment", "seeds", "runs"),
    *("invariants", "reason", "models", "optimizers"),
)
_INVARIANT_KEYS = ("id", "relation", "subject", "sentence", "scope", "kind", "claim", "when", "support")

_Choice = TypeVar("_Choice", Scope, Kind)


@dataclass(frozen=True)
class _Place:
    """Where in which file; knows how to complain about it."""

    name: str
    line: int

    def error(self, what: str, remedy: str = "") -> GoldenError:
        remedy = remedy or "Restore the file from version control, or learn it again with `traincheck refresh`."
        return GoldenError(f"{self.name}, line {self.line}: {what}. {remedy}")


def decode(data: bytes, name: str) -> Golden:
    """The golden that the bytes of a file describe; `name` is the file's name for messages.

    Raises `GoldenError` naming the line for anything that `encode` would not have written: a truncated or edited
    file, a newer format, wrong types, numbers that are not finite, an id that does not match its claim.
    Claims are as they stand in the file (`Foreign`), those of former formats in today's words.
    """
    first = _Place(name, 1)
    if not data:
        raise first.error("the file is empty")
    lines = data.split(b"\n")
    complete = lines.pop() == b""
    if not complete and not lines:
        # One piece without a line end: not a golden at all, or its header cut short.
        _parse(data, first)
        raise first.error("the line has no end, so the file was cut short")
    header = _header(_parse(lines[0], first), first)
    if not complete:
        raise _Place(name, len(lines) + 1).error("the line has no end, so the file was cut short")
    invariants: dict[str, tuple[int, Invariant]] = {}
    for number, line in enumerate(lines[1:], start=2):
        place = _Place(name, number)
        invariant = _invariant(_parse(line, place), place)
        if header.version == 1:
            invariant = format_1.translated(invariant)
        if invariant.id in invariants:
            raise place.error(f"the id {invariant.id} stands on line {invariants[invariant.id][0]} already")
        invariants[invariant.id] = (number, invariant)
    if len(invariants) != header.count:
        raise _Place(name, len(lines)).error(
            f"the file ends after {len(invariants)} rules but its header announces {header.count}: it was cut short, "
            "merged or edited by hand"
        )
    return header.golden(tuple(invariant for _, invariant in invariants.values()))


@dataclass(frozen=True)
class _Header:
    version: int
    count: int
    facts: Mapping[str, Any]

    def golden(self, invariants: tuple[Invariant, ...]) -> Golden:
        return Golden(invariants=invariants, **self.facts)


def _header(content: Mapping[str, Any], place: _Place) -> _Header:
    # The version first: a newer format may have any other keys.
    if "format" not in content:
        raise place.error(
            "there is no `format`, so this is not the header of a golden file",
            "Give the path of a file that `traincheck refresh` wrote.",
        )
    version = _count(content, "format", place)
    if version > FORMAT:
        raise place.error(
            f"the file has format {version}, and this pytest-traincheck reads up to {FORMAT}",
            "Upgrade pytest-traincheck, or learn the file again with `traincheck refresh`.",
        )
    if version < 1:
        raise place.error(f"the file has format {version}, which never existed")
    ignores_seed = IGNORES_SEED in content
    if ignores_seed and content[IGNORES_SEED] is not True:
        raise place.error(f"`{IGNORES_SEED}` is {_short(content[IGNORES_SEED])} and not `true`")
    extensions = _object(content, EXTENSIONS, place) if EXTENSIONS in content else {}
    if not all(isinstance(value, str) for value in extensions.values()):
        raise place.error(f"`{EXTENSIONS}` holds something that is not a string")
    arguments = _object(content, ARGUMENTS, place) if ARGUMENTS in content else {}
    if not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in arguments.values()
    ):
        raise place.error(f"`{ARGUMENTS}` does not give a list of names for every model")
    steps = _count(content, STEPS, place) if STEPS in content else 0
    _check_keys(content, (*_HEADER_KEYS, *({IGNORES_SEED, EXTENSIONS, ARGUMENTS, STEPS} & set(content))), place)
    models = _object(content, "models", place)
    for root, shapes in models.items():
        if not isinstance(shapes, dict) or not all(_is_shape(shape) for shape in shapes.values()):
            raise place.error(f"`models` does not give a shape for every parameter of {_short(root)}")
    environment = _object(content, "environment", place)
    if not all(isinstance(value, str) for value in environment.values()):
        raise place.error("`environment` holds something that is not a string")
    optimizers = _object(content, "optimizers", place)
    if not all(isinstance(value, dict) for value in optimizers.values()):
        raise place.error("`optimizers` holds something that is not an object")
    seeds = content["seeds"]
    if not isinstance(seeds, list) or not all(_is_integer(seed) for seed in seeds):
        raise place.error(f"`seeds` is {_short(seeds)} and not a list of integers")
    facts = {
        **{key: _string(content, key, place) for key in ("pipeline", "spec", "commit", "reason")},
        "environment": environment,
        "seeds": tuple(seeds),
        "runs": _count(content, "runs", place),
        "models": models,
        "optimizers": optimizers,
        IGNORES_SEED: ignores_seed,
        EXTENSIONS: extensions,
        ARGUMENTS: arguments,
        STEPS: steps,
    }
    return _Header(version, _count(content, "invariants", place), facts)


def _invariant(content: Mapping[str, Any], place: _Place) -> Invariant:
    _check_keys(content, _INVARIANT_KEYS, place)
    support = _object(content, "support", place)
    _check_keys(support, ("examples", "runs"), place)
    when = content["when"]
    if not isinstance(when, list):
        raise place.error(f"`when` is {_short(when)} and not a list")
    invariant = Invariant(
        relation=_string(content, "relation", place),
        subject=_string(content, "subject", place),
        sentence=_string(content, "sentence", place),
        claim=Foreign(_object(content, "claim", place)),
        when=tuple(_condition(item, place) for item in when),
        scope=_choice(content, "scope", Scope, place),
        kind=_choice(content, "kind", Kind, place),
        examples=_count(support, "examples", place),
        runs=_count(support, "runs", place),
    )
    if _string(content, "id", place) != invariant.id:
        raise place.error(
            f"the id {_short(content['id'])} does not belong to this rule (its claim has {invariant.id}): "
            "the line was edited by hand",
            "Undo the edit; to change what a golden says, change the code and run `traincheck refresh`.",
        )
    return invariant


def _condition(item: object, place: _Place) -> Condition:
    try:
        return condition_from_json(item)
    except ValueError as error:
        raise place.error(f"`when` holds {_short(item)}, which {error}") from error


def _parse(line: bytes, place: _Place) -> Mapping[str, Any]:
    """The object on one line, with finite numbers, no key twice, and only text that can be encoded again."""
    if len(line) > LINE_LIMIT:
        raise place.error(f"the line has {len(line)} bytes; the limit is {LINE_LIMIT}")
    if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")):
        raise place.error(
            "the line is a conflict marker of a merge",
            "Check out either side of the merge and run `traincheck refresh`.",
        )
    # Most lines have too few brackets to be nested so deep.
    if line.count(b"[") + line.count(b"{") > DEPTH_LIMIT and _depth(line) > DEPTH_LIMIT:
        raise place.error(f"objects are nested deeper than {DEPTH_LIMIT}")
    try:
        content = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        if b"\\u" in line:
            # An escaped half of a surrogate pair passes the parser but can neither be hashed nor written.
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise place.error(f"the line is not valid JSON ({what})") from error
    if not isinstance(content, dict):
        raise place.error(f"the line holds {_short(content)} and not an object")
    return content


_OUTSIDE_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[^\[\]{}"]+')


def _depth(line: bytes) -> int:
    """The deepest nesting of brackets outside strings; the parser itself would recurse and overflow."""
    deepest = depth = 0
    for character in _OUTSIDE_BRACKETS.sub(b"", line):
        if character in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in b"]}":
            depth -= 1
    return deepest


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


def _check_keys(content: Mapping[str, Any], known: tuple[str, ...], place: _Place) -> None:
    missing = [key for key in known if key not in content]
    if missing:
        raise place.error(f"`{missing[0]}` is missing")
    unknown = [key for key in content if key not in known]
    if unknown:
        raise place.error(f"{_short(unknown[0])} is not a key of this format")


def _typed(kind: str, test: Callable[[object], bool]) -> Callable[[Mapping[str, Any], str, _Place], Any]:
    def get(content: Mapping[str, Any], key: str, place: _Place) -> Any:
        value = content[key]
        if not test(value):
            raise place.error(f"`{key}` is {_short(value)} and not {kind}")
        return value

    return get


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(_is_count(size) for size in value)


_string = _typed("a string", lambda value: isinstance(value, str))
_object = _typed("an object", lambda value: isinstance(value, dict))
_count = _typed("a count", _is_count)


def _choice(content: Mapping[str, Any], key: str, choices: type[_Choice], place: _Place) -> _Choice:
    value = _string(content, key, place)
    known = [choice.value for choice in choices]
    if value not in known:
        raise place.error(f"`{key}` is {_short(value)}; it must be one of {', '.join(known)}")
    return choices(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
