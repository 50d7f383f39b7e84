"""Models that lie inside another one in the run and not in the golden, or the other way round."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_traincheck.alignment.placement import Models, Move, below

ALIKE = 0.9
"""Share of parameters with equal names and shapes, of all that either has, from which a part is taken for a model."""

Content = frozenset[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class _Match:
    whole: str
    holder: str
    path: str
    rank: tuple[float, ...]


def content(parameters: Mapping[str, Sequence[int]]) -> Content:
    """Parameters as something that can be compared: names and shapes."""
    return frozenset((name, tuple(shape)) for name, shape in parameters.items())


def alike(first: Content, second: Content) -> float:
    """Share of equal names with equal shapes."""
    return len(first & second) / len(first | second) if first and second else 0.0


def subtrees(parameters: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Sequence[int]]]:
    """Path -> the parameters below it, named from there; without the root itself."""
    found: dict[str, dict[str, Sequence[int]]] = {}
    for name, shape in parameters.items():
        parts = name.split(".")
        for depth in range(1, len(parts)):
            found.setdefault(".".join(parts[:depth]), {})[".".join(parts[depth:])] = shape
    return found


def find_parts(
    golden: Models,
    candidate: Models,
    roots: Mapping[str, str],
    trained: frozenset[str],
    held: frozenset[tuple[str, str]],
) -> tuple[Move, ...]:
    """Moves of parts of the candidate's models to models of the golden, then of its models to parts of golden's.

    Args:
        candidate: models, each with its parameters in the order of their creation.
        roots: candidate root -> golden root, as far as whole models are alike; what they explain stays in place.
        trained: golden roots that an optimizer holds parameters of.
        held: root and name of the candidate's parameters that an optimizer holds.
    """
    partners = {root: roots.get(root, root) for root in candidate}
    settled = {
        root
        for root, partner in partners.items()
        if alike(content(candidate[root]), content(golden.get(partner, {}))) >= ALIKE
    }
    settled_golden = {partners[root] for root in settled}
    free = {root: _unexplained(candidate[root], golden.get(partners[root], {})) for root in candidate}
    of_golden = {partner: root for root, partner in partners.items()}
    free_golden = {root: _unexplained(golden[root], candidate.get(of_golden.get(root, ""), {})) for root in golden}

    def agree(whole: str, holder: str, path: str) -> bool:
        is_held = any(root == holder and below(path, name) is not None for root, name in held)
        return is_held == (whole in trained)

    taken: list[_Match] = _matches(
        {root: golden[root] for root in sorted(golden, key=natural) if root not in settled_golden},
        {root: (candidate[root], free[root]) for root in candidate},
        agree,
    )
    moves = [Move(match.holder, match.path, match.whole, "") for match in taken]
    gone = {match.whole for match in taken}
    # What holds a part is no part itself.
    wholes = {
        root: candidate[root]
        for root in candidate
        if root not in settled and root not in {match.holder for match in taken}
    }
    holders = {
        root: (dict(sorted(golden[root].items(), key=lambda item: natural(item[0]))), free_golden[root])
        for root in golden
        if root not in gone
    }
    moves += [Move(match.whole, "", match.holder, match.path) for match in _matches(wholes, holders, lambda *_: True)]
    return tuple(moves)


def _unexplained(mine: Mapping[str, Sequence[int]], partner: Mapping[str, Sequence[int]]) -> frozenset[str]:
    return frozenset(name for name, shape in mine.items() if list(partner.get(name, (-1,))) != list(shape))


def _matches(
    wholes: Models,
    holders: Mapping[str, tuple[Mapping[str, Sequence[int]], frozenset[str]]],
    agree: Callable[[str, str, str], bool],
) -> list[_Match]:
    """Which model stands for which part of which holder, best first; no part is given twice, nor within another."""
    contents = {whole: content(parameters) for whole, parameters in wholes.items()}
    found: list[_Match] = []
    for place, (holder, (parameters, free)) in enumerate(holders.items()):
        for number, (path, inner) in enumerate(subtrees(parameters).items()):
            if not all(f"{path}.{name}" in free for name in inner):
                continue
            own = content(inner)
            for order, (whole, wanted) in enumerate(contents.items()):
                share = alike(own, wanted)
                if share >= ALIKE:
                    likely = (float(agree(whole, holder, path)), _affinity(whole, path))
                    found.append(
                        _Match(whole, holder, path, (-share, *(-item for item in likely), order, place, number))
                    )
    taken: list[_Match] = []
    for match in sorted(found, key=lambda match: match.rank):
        if any(
            match.whole == other.whole or (match.holder == other.holder and _overlap(match.path, other.path))
            for other in taken
        ):
            continue
        taken.append(match)
    return taken


def _overlap(first: str, second: str) -> bool:
    return below(first, second) is not None or below(second, first) is not None


def _affinity(root: str, path: str) -> float:
    """Whether an attribute sounds like a class: `student` and `Student`."""
    name = root.partition("#")[0].lower()
    attribute = path.rpartition(".")[2].replace("_", "").lower()
    return float(bool(attribute) and not attribute.isdigit() and (attribute in name or name in attribute))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts `layer2` before `layer10`."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name))
