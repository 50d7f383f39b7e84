"""What the place of a tensor is called in a sentence: a path among arguments, or among the parts of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NO_ROLES: Mapping[str, str] = {}


def argument(path: str) -> str:
    """`hidden.0` as "`hidden[0]`", which is how one gets at it."""
    name, *rest = path.split(".")
    return f"`{name}{''.join(f'[{part}]' if part.isdigit() else f'.{part}' for part in rest)}`"


def part_of_batch(path: str, roles: Mapping[str, str] = _NO_ROLES) -> str:
    """`labels` as "`labels`"; `1`, of a batch that is a tuple, as "`batch[1]`".

    `roles` says what parts are for, where that is known; then it is "the targets (`batch[1]`)". A name tells it itself.
    """
    if not path.partition(".")[0].isdigit():
        return argument(path)
    place = argument(f"batch.{path}")
    return f"the {roles[path]} ({place})" if path in roles else place


def parts_of_batch(paths: Sequence[str], roles: Mapping[str, str] = _NO_ROLES) -> str:
    """Several of them: "`mask`, `labels` and `batch[3]`"."""
    *others, last = [part_of_batch(path, roles) for path in paths]
    return f"{', '.join(others)} and {last}" if others else last


def is_singular(paths: Sequence[str], roles: Mapping[str, str] = _NO_ROLES) -> bool:
    """Whether a sentence about `parts_of_batch` has its verb in the singular."""
    return len(paths) == 1 and (paths[0] not in roles or not paths[0].partition(".")[0].isdigit())
