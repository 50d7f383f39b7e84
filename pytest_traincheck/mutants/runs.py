"""Mistakes with the length of a run."""

from __future__ import annotations

from typing import Any

from .mutation import Mutation, plants
from .patching import Function, around_optimizer_steps


@plants("run-cut-short")
def _run_cut_short(mutation: Mutation) -> None:
    taken = 0

    def behave(optimizer: Any, step: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal taken
        result = step(*args, **kwargs)
        taken += 1
        if mutation.here() and taken >= mutation.half():
            raise SystemExit(0)
        return result

    around_optimizer_steps(behave)
