"""Models that were cut into other pieces, matched by what is in them.

With golden's seed nearly every parameter begins with golden's numbers, whatever it is called and wherever it lies. What
was split, joined, renamed and regrouped in one go is found again by these; a module is golden's where exactly the same
parameters lie in it, unless it is known to return something else. A parameter that never changes may be a buffer
now, or a plain number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pytest_traincheck.alignment.placement import NOT_IN_GOLDEN, Models, Move, Relocation, below, joined
from pytest_traincheck.alignment.returned import Sizes, differ, sizes_of_golden, sizes_of_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.reader import read_sketches
from pytest_traincheck.trace.run import Run

Place = tuple[str, str]
"""Root and name of a parameter, or root and path of a module."""
Content = tuple[Any, ...]
"""Numbers that tell the values of one tensor, one after the other, from those of others."""

_NUMBERS = ("norm", "mean", "projections")
_VALUES = "var"
"""Slot of a sketch of what a parameter holds."""


def find_by_content(
    golden: Golden, run: Run, models: Models, held: frozenset[Place], trained: frozenset[str]
) -> Relocation:
    """Where the parameters and modules of a run lie in the golden by the numbers that they begin with.

    Args:
        models: the run's models.
        held: the run's parameters that an optimizer holds.
        trained: golden roots that an optimizer holds parameters of.
    """
    theirs, mine = _of_golden(golden), _of_run(run, models)
    is_held = {place: place in held for place in mine}
    is_trained = {place: place[0] in trained for place in theirs}
    pairs = _paired(mine, theirs, {}, {})
    moments = max((len(values) for side in (mine, theirs) for values in side.values()), default=0)
    for number in range(moments - 1, 1, -1):
        # One side may have been looked at once more, when another model began: what was alive then is up to the run.
        pairs |= _paired(*_open(pairs, mine, theirs, number), {}, {})
    for flags in ((is_held, is_trained), ({}, {})):
        # What went another way after the first step began alike; biases of zeros did all.
        pairs |= _paired(*_open(pairs, mine, theirs, 1), *flags)
    pairs |= dict(_mirrored(pairs, models, golden.models))
    returned = sizes_of_golden(golden.recording), sizes_of_run(run)
    # What never changes may be no parameter here, and then nothing of it is found again.
    constant = {place for place, values in theirs.items() if len(values) > 1 and len(set(values)) == 1}
    moves = [*_moves(pairs, models, _without(golden.models, constant - set(pairs.values())), returned)]
    kept = {root for root in models if any(move.root == root and not move.path for move in moves)}
    taken = {move.golden_root for move in moves}
    return Relocation(tuple(moves), {root: f"{root} (new)" for root in models if root in taken - kept})


def _without(models: Models, places: Collection[Place]) -> Models:
    """Models without those parameters."""
    return {
        root: {name: shape for name, shape in parameters.items() if (root, name) not in places}
        for root, parameters in models.items()
    }


def placed_parameters(golden: Models, models: Models) -> int:
    """How many parameters of golden the models have at its place and in its shape."""
    return sum(
        list(models.get(root, {}).get(name, (-1,))) == list(shape)
        for root, parameters in golden.items()
        for name, shape in parameters.items()
    )


def _of_golden(golden: Golden) -> dict[Place, Content]:
    """What each parameter held in the first steps of the recorded run, in the order in which they were first seen."""
    if golden.recording is None:
        return {}
    strings, sketches = golden.recording.strings, golden.recording.sketches
    if _VALUES not in strings:
        return {}
    places = {joined(root, name): (root, name) for root, names in golden.models.items() for name in names}
    rows = sketches[sketches["slot"] == strings.index(_VALUES)]
    kinds = [place for place, text in enumerate(strings) if text == "parameter"]
    rows = rows[np.isin(rows["kind"], kinds)]
    found: dict[Place, Content] = {}
    for row in rows:
        place = places.get(strings[int(row["variable"])])
        if place is not None:
            found[place] = (*found.get(place, ()), _content(row, strings[int(row["shape"])]))
    return found


def _of_run(run: Run, models: Models) -> dict[Place, Content]:
    found: dict[Place, Content] = {}
    for process in run.processes:
        for place, content in _of_process(process):
            if place[1] in models.get(place[0], ()):
                found[place] = (*found.get(place, ()), content)
    return found


def _of_process(process: Process) -> Iterator[tuple[Place, Content]]:
    sketches = read_sketches(process.raw)
    slots = process.raw.symbols["slot"]
    named = [number for number, slot in enumerate(slots) if slot.get("name") == _VALUES]
    variables = process.raw.symbols["var"]
    for row in sketches[np.isin(sketches["slot"], named)]:
        symbol = variables[int(row["var"])]
        if symbol.get("kind") == "parameter":
            root = process.names.roots[symbol.get("root", 0)]
            shape = "x".join(map(str, slots[int(row["slot"])].get("shape", [])))
            yield (root, str(symbol["name"])), _content(row, shape)


def _content(row: Any, shape: str) -> Content:
    return (shape, int(row["size"]), *(tuple(np.ravel(row[name]).tolist()) for name in _NUMBERS))


def _paired(
    mine: Mapping[Place, Content],
    theirs: Mapping[Place, Content],
    held: Mapping[Place, bool],
    trained: Mapping[Place, bool],
) -> dict[Place, Place]:
    """Parameters that take the same values. Several alike, as biases of zeros are, go by what they are called, or by
    their order where there are as many of one name.
    """
    ours, others = _grouped(mine, held), _grouped(theirs, trained)
    pairs: dict[Place, Place] = {}
    for content, places in ours.items():
        known = others.get(content, [])
        if len(places) == len(known) == 1:
            pairs.update(zip(places, known, strict=True))
            continue
        by_leaf, known_by_leaf = (_by_leaf(each) for each in (places, known))
        for leaf, alike in by_leaf.items():
            if len(alike) == len(known_by_leaf.get(leaf, ())):
                pairs.update(zip(alike, known_by_leaf[leaf], strict=True))
    return pairs


def _open(
    pairs: Mapping[Place, Place], mine: Mapping[Place, Content], theirs: Mapping[Place, Content], moments: int
) -> tuple[dict[Place, Content], dict[Place, Content]]:
    """What has no partner on either side, with the values of its first moments."""
    known = set(pairs.values())
    return (
        {place: values[:moments] for place, values in mine.items() if place not in pairs},
        {place: values[:moments] for place, values in theirs.items() if place not in known},
    )


def _mirrored(pairs: Mapping[Place, Place], models: Models, golden: Models) -> Iterator[tuple[Place, Place]]:
    """Pairs of models of which nobody knows what they began with, by those of another one of the same parts: a second
    network of a class is cut as the first one is. Several go by the order in which they were made.
    """
    known: dict[str, set[str]] = {}
    for (root, _), (other, _) in pairs.items():
        known.setdefault(root, set()).add(other)
    taken = {other for others in known.values() for other in others}
    for root in sorted((root for root in models if root not in known), key=_as_made):
        for like, homes in known.items():
            home = next(iter(homes))
            if (
                len(homes) > 1
                or models[like] != models[root]
                or any((like, name) not in pairs for name in models[like])
            ):
                continue
            free = [other for other in golden if other not in taken and golden[other] == golden[home]]
            free.sort(key=_as_made)
            if free:
                chosen = root if root in free else free[0]
                taken.add(chosen)
                yield from (((root, name), (chosen, pairs[like, name][1])) for name in models[root])
                break


def _as_made(root: str) -> tuple[str, int]:
    """Sorts roots of one class by their number; as texts the eleventh would come before the third."""
    kind, _, number = root.partition("#")
    return kind, int(number) if number.isdecimal() else 0


def _by_leaf(places: Iterable[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in places:
        found.setdefault(place[1].rpartition(".")[2], []).append(place)
    return found


def _grouped(contents: Mapping[Place, Content], flags: Mapping[Place, bool]) -> dict[Content, list[Place]]:
    found: dict[Content, list[Place]] = {}
    for place, content in contents.items():
        found.setdefault((content, flags.get(place, False)), []).append(place)
    return found


def _moves(
    pairs: Mapping[Place, Place], models: Models, golden: Models, returned: tuple[Sizes, Sizes]
) -> Iterator[Move]:
    """Moves of modules that hold golden's parameters, and of every parameter that these do not bring to its place."""
    theirs, mine = returned
    modules = {
        module: home
        for module, home in _modules(pairs, models, golden)
        if not (module[1] and home[1] and differ(theirs.get(joined(*home)), mine.get(joined(*module))))
    }
    modules |= _displaced(pairs, models, golden, modules, theirs.keys())
    for (root, path), (other, inner) in modules.items():
        yield Move(root, path, other, inner)
    for (root, name), (other, known) in pairs.items():
        around = _innermost(root, name, modules)
        if around is not None:
            home, path = modules[around]
            rest = below(around[1], name)
            if rest is not None and (home, joined(path, rest)) == (other, known):
                continue
        yield Move(root, name, other, known)


def _displaced(
    pairs: Mapping[Place, Place],
    models: Models,
    golden: Models,
    modules: Mapping[Place, Place],
    called: Collection[str],
) -> dict[Place, Place]:
    """Modules that would come, with the one around them, to a place where golden has other parameters than theirs, or a
    module without any: the first of two stages is not the first of four layers, though the lists of both hold the same.
    """
    there = {module: images for images, chain in _by_parameters(_all(golden)).items() for module in chain}
    own = {module: parameters for parameters, chain in _by_parameters(_all(models)).items() for module in chain}
    found: dict[Place, Place] = {}
    for (root, path), parameters in sorted(own.items(), key=lambda item: len(item[0][1])):
        around = _innermost(root, path, {**modules, **found})
        if not path or (root, path) in modules or around is None or not all(place in pairs for place in parameters):
            continue
        home, inner = modules.get(around) or found[around]
        image = home, joined(inner, below(around[1], path) or "")
        known = image in there or joined(*image) in called
        if known and there.get(image) != frozenset(pairs[place] for place in parameters):
            found[root, path] = home, f"{image[1]}{NOT_IN_GOLDEN}"
    return found


def _all(models: Models) -> Iterator[Place]:
    return ((root, name) for root, names in models.items() for name in names)


def _innermost(root: str, name: str, modules: Mapping[Place, Place]) -> Place | None:
    path = name
    while path:
        path = path.rpartition(".")[0]
        if (root, path) in modules:
            return root, path
    return None


def _modules(pairs: Mapping[Place, Place], models: Models, golden: Models) -> Iterator[tuple[Place, Place]]:
    """Modules of the run that hold exactly the parameters of one of golden's; of several around one another the
    innermost, then the one around it, and so on.
    """
    wanted, whole = _by_parameters(_all(golden)), _by_parameters(_all(models))
    for parameters, chain in whole.items():
        images = frozenset(pairs[place] for place in parameters if place in pairs)
        if len(images) == len(parameters):
            yield from zip(reversed(chain), reversed(wanted.get(images, ())), strict=False)


def _by_parameters(places: Iterable[Place]) -> dict[frozenset[Place], Sequence[Place]]:
    """Sets of parameters, with the modules that hold exactly these, outermost first."""
    held: dict[Place, set[Place]] = {}
    for root, name in places:
        path = name
        while path:
            path = path.rpartition(".")[0]
            held.setdefault((root, path), set()).add((root, name))
    found: dict[frozenset[Place], list[Place]] = {}
    for module in sorted(held, key=lambda place: (place[0], len(place[1]), place[1])):
        found.setdefault(frozenset(held[module]), []).append(module)
    return {parameters: tuple(chain) for parameters, chain in found.items()}
