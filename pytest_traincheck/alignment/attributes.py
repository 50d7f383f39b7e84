"""Attributes of models that have another name in the golden: `fc1` there, `hidden` here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

from pytest_traincheck.alignment.placement import Models, Move, joined

Tree = Mapping[str, Union["Tree", tuple[int, ...]]]
Signature = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes of all parameters below an attribute; that of a parameter has one entry without a name."""

_NUMBERED = re.compile(r"(.*?)(\d+)")


def find_renamed(golden: Models, candidate: Models) -> tuple[Move, ...]:
    """Moves of attributes to the names that golden has for them, in roots that both have.

    An attribute is recognised by its parent, by the parameters below it, and by being the only one like it, or one of
    equally many that are numbered. Where more than one answer is possible there is none.
    """
    moves: list[Move] = []
    for root, parameters in candidate.items():
        if root in golden and parameters.keys() != golden[root].keys():
            pairs = _below("", _tree(golden[root]), _tree(parameters))
            moves += [Move(root, mine, root, theirs) for mine, theirs in pairs]
    return tuple(moves)


def _tree(parameters: Mapping[str, Sequence[int]]) -> Tree:
    top: dict[str, Any] = {}
    for name, shape in parameters.items():
        node = top
        *parents, leaf = name.split(".")
        for parent in parents:
            inner = node.setdefault(parent, {})
            if not isinstance(inner, dict):
                break  # A parameter and a module of one name: no tree that a person would write.
            node = inner
        else:
            node[leaf] = tuple(shape)
    return top


def _signature(node: Tree | tuple[int, ...], path: str = "") -> Signature:
    if isinstance(node, tuple):
        return ((path, node),)
    return tuple(sorted(entry for name, inner in node.items() for entry in _signature(inner, joined(path, name))))


def _below(path: str, golden: Tree, candidate: Tree) -> Iterator[tuple[str, str]]:
    theirs = {name: _signature(node) for name, node in golden.items()}
    mine = {name: _signature(node) for name, node in candidate.items()}
    pairs = _shifted(theirs, mine)
    given = set(pairs.values())
    pairs |= _alone(
        {name: found for name, found in theirs.items() if name not in mine and name not in given},
        {name: found for name, found in mine.items() if name not in theirs and name not in pairs},
    )
    for name, known in pairs.items():
        yield joined(path, name), joined(path, known)
    # What lies below a pair is the same, by its signature.
    for name in sorted(candidate.keys() & golden.keys() - pairs.keys() - set(pairs.values())):
        inner, other = candidate[name], golden[name]
        if isinstance(inner, Mapping) and isinstance(other, Mapping):
            yield from _below(joined(path, name), other, inner)


def _families(names: Mapping[str, Signature]) -> dict[str, list[str]]:
    """Numbered names by what stands before the number, in the order of their numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            found.setdefault(match[1], []).append((int(match[2]), name))
    return {stem: [name for _, name in sorted(members)] for stem, members in found.items()}


def _shifted(theirs: Mapping[str, Signature], mine: Mapping[str, Signature]) -> dict[str, str]:
    """Numbered attributes that are the same ones in the same order under other numbers: a layer without parameters
    was put in between, or the count begins elsewhere.
    """
    pairs: dict[str, str] = {}
    golden = _families(theirs)
    for stem, members in _families(mine).items():
        others = golden.get(stem, [])
        if members != others and [mine[name] for name in members] == [theirs[name] for name in others]:
            pairs.update({name: other for name, other in zip(members, others, strict=True) if name != other})
    return pairs


def _alone(theirs: Mapping[str, Signature], mine: Mapping[str, Signature]) -> dict[str, str]:
    """Attributes that only one side has, and that are alike."""
    if not theirs or not mine:
        return {}
    pairs: dict[str, str] = {}
    # A parameter that became two, as a normalised weight does, has not been renamed to the one of its shape.
    whole = sum(map(_is_parameter, theirs.values())) == sum(map(_is_parameter, mine.values()))
    for wanted in dict.fromkeys(mine.values()):
        if _is_parameter(wanted) and not whole:
            continue
        others = [name for name, found in theirs.items() if found == wanted]
        members = [name for name, found in mine.items() if found == wanted]
        if len(others) == len(members) == 1:
            if not _same_family(others[0], members[0]):
                pairs[members[0]] = others[0]
        elif len(others) == len(members):
            pairs.update(_in_order(members, others))
    return pairs


def _in_order(members: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    families = [list(_families(dict.fromkeys(names, ())).values()) for names in (members, others)]
    if any(len(family) != 1 or len(family[0]) != len(members) for family in families):
        return {}
    return dict(zip(families[0][0], families[1][0], strict=True))


def _same_family(first: str, second: str) -> bool:
    """Two numbers of one name: which of its siblings would have moved up is not known."""
    one, other = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(second)
    return one is not None and other is not None and one[1] == other[1]


def _is_parameter(signature: Signature) -> bool:
    return len(signature) == 1 and not signature[0][0]
