"""Lines of JSON to a golden. The file is untrusted: everything is checked, nothing is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_traincheck.golden import format_1
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import ARGUMENTS, EXTENSIONS, FORMAT, IGNORES_SEED, STEPS, TRAININGS, Golden
from pytest_traincheck.json_lines import (
    Place,
    check_keys,
    choice,
    count,
    is_integer,
    is_shape,
    object_,
    parse,
    short,
    string,
)
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Condition, condition_from_json
from pytest_traincheck.rules.model import Invariant, Kind, Scope

_HEADER_KEYS = (
    *("format", "pipeline", "spec", "commit", "environment", "seeds", "runs"),
    *("invariants", "reason", "models", "optimizers"),
)
_INVARIANT_KEYS = ("id", "relation", "subject", "sentence", "scope", "kind", "claim", "when", "support")

_DAMAGED = "Restore the file from version control, or learn it again with `traincheck refresh`."
_MERGED = "Check out either side of the merge and run `traincheck refresh`."


def _place(name: str, line: int) -> Place:
    return Place(name, line, GoldenError, _DAMAGED, _MERGED)


def decode(data: bytes, name: str) -> Golden:
    """The golden that the bytes of a file describe; `name` is the file's name for messages.

    Raises `GoldenError` naming the line for anything that `encode` would not have written: a truncated or edited
    file, a newer format, wrong types, numbers that are not finite, an id that does not match its claim.
    Claims are as they stand in the file (`Foreign`), those of former formats in today's words.
    """
    first = _place(name, 1)
    if not data:
        raise first.error("the file is empty")
    lines = data.split(b"\n")
    complete = lines.pop() == b""
    if not complete and not lines:
        # One piece without a line end: not a golden at all, or its header cut short.
        parse(data, first)
        raise first.error("the line has no end, so the file was cut short")
    header = _header(parse(lines[0], first), first)
    if not complete:
        raise _place(name, len(lines) + 1).error("the line has no end, so the file was cut short")
    invariants: dict[str, tuple[int, Invariant]] = {}
    for number, line in enumerate(lines[1:], start=2):
        place = _place(name, number)
        invariant = _invariant(parse(line, place), place)
        if header.version == 1:
            invariant = format_1.translated(invariant)
        if invariant.id in invariants:
            raise place.error(f"the id {invariant.id} stands on line {invariants[invariant.id][0]} already")
        invariants[invariant.id] = (number, invariant)
    if len(invariants) != header.count:
        raise _place(name, len(lines)).error(
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


def _header(content: Mapping[str, Any], place: Place) -> _Header:
    # The version first: a newer format may have any other keys.
    if "format" not in content:
        raise place.error(
            "there is no `format`, so this is not the header of a golden file",
            "Give the path of a file that `traincheck refresh` wrote.",
        )
    version = count(content, "format", place)
    if version > FORMAT:
        raise place.error(
            f"the file has format {version}, and this pytest-traincheck reads up to {FORMAT}",
            "Upgrade pytest-traincheck, or learn the file again with `traincheck refresh`.",
        )
    if version < 1:
        raise place.error(f"the file has format {version}, which never existed")
    ignores_seed = IGNORES_SEED in content
    if ignores_seed and content[IGNORES_SEED] is not True:
        raise place.error(f"`{IGNORES_SEED}` is {short(content[IGNORES_SEED])} and not `true`")
    extensions = object_(content, EXTENSIONS, place) if EXTENSIONS in content else {}
    if not all(isinstance(value, str) for value in extensions.values()):
        raise place.error(f"`{EXTENSIONS}` holds something that is not a string")
    arguments = object_(content, ARGUMENTS, place) if ARGUMENTS in content else {}
    if not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in arguments.values()
    ):
        raise place.error(f"`{ARGUMENTS}` does not give a list of names for every model")
    steps = count(content, STEPS, place) if STEPS in content else 0
    trainings = content.get(TRAININGS, [])
    if not isinstance(trainings, list) or not all(is_integer(each) and each >= 0 for each in trainings):
        raise place.error(f"`{TRAININGS}` is {short(trainings)} and not a list of numbers")
    optional = {IGNORES_SEED, EXTENSIONS, ARGUMENTS, STEPS, TRAININGS}
    check_keys(content, (*_HEADER_KEYS, *(optional & set(content))), place)
    models = object_(content, "models", place)
    for root, shapes in models.items():
        if not isinstance(shapes, dict) or not all(is_shape(shape) for shape in shapes.values()):
            raise place.error(f"`models` does not give a shape for every parameter of {short(root)}")
    environment = object_(content, "environment", place)
    if not all(isinstance(value, str) for value in environment.values()):
        raise place.error("`environment` holds something that is not a string")
    optimizers = object_(content, "optimizers", place)
    if not all(isinstance(value, dict) for value in optimizers.values()):
        raise place.error("`optimizers` holds something that is not an object")
    seeds = content["seeds"]
    if not isinstance(seeds, list) or not all(is_integer(seed) for seed in seeds):
        raise place.error(f"`seeds` is {short(seeds)} and not a list of integers")
    facts = {
        **{key: string(content, key, place) for key in ("pipeline", "spec", "commit", "reason")},
        "environment": environment,
        "seeds": tuple(seeds),
        "runs": count(content, "runs", place),
        "models": models,
        "optimizers": optimizers,
        IGNORES_SEED: ignores_seed,
        EXTENSIONS: extensions,
        ARGUMENTS: arguments,
        STEPS: steps,
        TRAININGS: tuple(trainings),
    }
    return _Header(version, count(content, "invariants", place), facts)


def _invariant(content: Mapping[str, Any], place: Place) -> Invariant:
    check_keys(content, _INVARIANT_KEYS, place)
    support = object_(content, "support", place)
    check_keys(support, ("examples", "runs"), place)
    when = content["when"]
    if not isinstance(when, list):
        raise place.error(f"`when` is {short(when)} and not a list")
    invariant = Invariant(
        relation=string(content, "relation", place),
        subject=string(content, "subject", place),
        sentence=string(content, "sentence", place),
        claim=Foreign(object_(content, "claim", place)),
        when=tuple(_condition(item, place) for item in when),
        scope=choice(content, "scope", Scope, place),
        kind=choice(content, "kind", Kind, place),
        examples=count(support, "examples", place),
        runs=count(support, "runs", place),
    )
    if string(content, "id", place) != invariant.id:
        raise place.error(
            f"the id {short(content['id'])} does not belong to this rule (its claim has {invariant.id}): "
            "the line was edited by hand",
            "Undo the edit; to change what a golden says, change the code and run `traincheck refresh`.",
        )
    return invariant


def _condition(item: object, place: Place) -> Condition:
    try:
        return condition_from_json(item)
    except ValueError as error:
        raise place.error(f"`when` holds {short(item)}, which {error}") from error
