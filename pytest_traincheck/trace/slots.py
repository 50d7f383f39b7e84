"""What the place of a tensor is called in a sentence: a path among arguments, or among the parts of a batch."""

from __future__ import annotations

from collections.abc import Sequence


def argument(path: str) -> str:
    """`hidden.0` as "`hidden[0]`", which is how one gets at it."""
    name, *rest = path.split(".")
    return f"`{name}{''.join(f'[{part}]' if part.isdigit() else f'.{part}' for part in rest)}`"


def part_of_batch(path: str) -> str:
    """`labels` as "`labels`"; `1`, of a batch that is a tuple, as "part 1"; `0.x` as "`x` in part 0"."""
    first, _, rest = path.partition(".")
    if not first.isdigit():
        return argument(path)
    if not rest:
        return f"part {first}"
    return f"{part_of_batch(rest)} in part {first}"


def parts_of_batch(paths: Sequence[str]) -> str:
    """Several of them: "parts 1 and 2", or "`mask`, `labels` and part 3"."""
    if len(paths) > 1 and all(path.isdigit() for path in paths):
        return f"parts {', '.join(paths[:-1])} and {paths[-1]}"
    *others, last = [part_of_batch(path) for path in paths]
    return f"{', '.join(others)} and {last}" if others else last
