"""Where a run's modules and variables lie in the golden's models, when they lie in other modules there or have other
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NOT_IN_GOLDEN = " (new)"
"""Ends the names of what would otherwise have a name that golden has for something else."""

Models = Mapping[str, Mapping[str, Sequence[int]]]
"""Root -> parameter -> shape."""


@dataclass(frozen=True)
class Move:
    """What lies at and below `path` of `root` is what the golden has at and below `golden_path` of `golden_root`.

    An empty path is the root itself.
    """

    root: str
    path: str
    golden_root: str
    golden_path: str


@dataclass(frozen=True)
class Relocation:
    """Some moves at a time, and other names for the roots of everything that they leave in place."""

    moves: tuple[Move, ...] = ()
    roots: Mapping[str, str] = field(default_factory=dict)

    def place(self, root: str, path: str) -> tuple[str, str]:
        """Root and path that stand for a module or variable."""
        for move in sorted(self.moves, key=lambda move: -len(move.path)):
            if move.root == root and (rest := below(move.path, path)) is not None:
                return move.golden_root, self._free(move, joined(move.golden_path, rest))
        for move in self.moves:
            # A module must not keep a name that a sibling has been given.
            if move.root == move.golden_root == root and (rest := below(move.golden_path, path)) is not None:
                path = joined(f"{move.golden_path} (new)" if move.golden_path else "", rest)
                break
        return self.roots.get(root, root), path

    def _free(self, around: Move, path: str) -> str:
        """Where a path comes with the module around it, unless what lies there comes from elsewhere: the second of four
        stages may be an activation, and the golden's second stage the third.
        """
        for move in self.moves:
            inner = move.golden_root == around.golden_root and below(around.golden_path, move.golden_path)
            if inner and move != around and (rest := below(move.golden_path, path)) is not None:
                return joined(f"{move.golden_path}{NOT_IN_GOLDEN}", rest)
        return path

    def origins(self, root: str, path: str) -> set[tuple[str, str]]:
        """What may now have this root and path: what was moved there, and what was there before."""
        found = {(next((old for old, new in self.roots.items() if new == root), root), path)}
        for move in self.moves:
            if move.golden_root == root and (rest := below(move.golden_path, path)) is not None:
                found.add((move.root, joined(move.path, rest)))
        return found


@dataclass(frozen=True)
class Placement:
    """Relocations, one after the other: each speaks of the names that the ones before it gave."""

    steps: tuple[Relocation, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether anything but roots gets another name."""
        return any(step.moves for step in self.steps)

    def then(self, step: Relocation) -> Placement:
        return Placement((*self.steps, step)) if step.moves or step.roots else self

    def place(self, root: str, path: str) -> tuple[str, str]:
        """Root and path of a module or variable as the golden has them."""
        for step in self.steps:
            root, path = step.place(root, path)
        return root, path

    def models(self, models: Models) -> dict[str, dict[str, Sequence[int]]]:
        """Models as they are after all relocations."""
        found: dict[str, dict[str, Sequence[int]]] = {}
        for root, parameters in models.items():
            for name, shape in parameters.items():
                place, path = self.place(root, name)
                found.setdefault(place, {}).setdefault(path, shape)
        return found

    def renamed(self, models: Models, golden: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """(name in the run, name in the golden) of roots and modules that have another one there."""
        known = frozenset(golden)
        pairs: dict[str, str] = {}
        for root, path in self._sources(models):
            place, inner = self.place(root, path)
            old, new = joined(root, path), joined(place, inner)
            if place in known and old != new and not inner.endswith(NOT_IN_GOLDEN):
                pairs[old] = new
        return tuple(sorted(pairs.items()))

    def _sources(self, models: Models) -> Iterator[tuple[str, str]]:
        for root, parameters in models.items():
            # A root counts where something of it is left that is not told by a move.
            if any(self._moved(root, name) is False for name in parameters):
                yield root, ""
        for number, step in enumerate(self.steps):
            for move in step.moves:
                places = {(move.root, move.path)}
                for earlier in reversed(self.steps[:number]):
                    places = {origin for place in places for origin in earlier.origins(*place)}
                yield from (place for place in places if _exists(models, *place))

    def _moved(self, root: str, path: str) -> bool:
        for step in self.steps:
            if any(move.root == root and below(move.path, path) is not None for move in step.moves):
                return True
            root, path = step.place(root, path)
        return False


def _exists(models: Models, root: str, path: str) -> bool:
    return any(below(path, name) is not None for name in models.get(root, ()))


def joined(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest else path or rest


def below(path: str, name: str) -> str | None:
    """What of a dotted name comes after `path`; `None` if it does not lie there."""
    if not path or name == path:
        return name[len(path) :]
    return name[len(path) + 1 :] if name.startswith(f"{path}.") else None
