"""The sentence about what runs did to the user's own files, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_traincheck.launch.footprint import Footprint, together
from pytest_traincheck.text import plural

_MOST = 30


def written_notes(side: str, footprints: Iterable[Footprint], linked: bool = False) -> tuple[str, ...]:
    """One note for each tree that the runs of a side wrote to; none when they left everything as it was.

    With `linked` the trees are those that a worktree was let see.
    """
    return tuple(_note(side, footprint, linked) for footprint in together(footprints))


def _note(side: str, footprint: Footprint, linked: bool) -> str:
    what = "; ".join(
        f"{verb} {_listed(names)}"
        for verb, names in (
            ("created", footprint.created),
            ("changed", footprint.changed),
            ("deleted", footprint.deleted),
        )
        if names
    )
    who = f"while the {side} pipeline was running" if side else "while the pipeline was running"
    if linked:
        return (
            f"{who}, something in {footprint.root} was written, which `link` lets it see and which is no copy: {what}. "
            "Restore it, and let the pipeline write to `{tmp}`, a fresh directory for each run"
        )
    return (
        f"{who}, files of {footprint.root} were written: {what}. Where that is the pipeline's doing, let it write to "
        "`{tmp}` in `run`, a fresh directory for each run: python train.py --output {tmp}"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" if name else "it" for name in names[:_MOST])
    return shown if len(names) <= _MOST else f"{shown} and {plural(len(names) - _MOST, 'more path')}"
