"""A few lines of training for each kind of mistake, whose outcome the mistake changes.

Run as a program: forks a child for each story and prints what all of them saw as JSON, with the mistake and without.
Torch is patched for good by a mistake, so no two of them share a process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stories_of_data  # noqa: F401 - enters its stories
import stories_of_models  # noqa: F401 - likewise
import stories_of_ranks  # noqa: F401 - likewise
import stories_of_steps  # noqa: F401 - likewise
import torch
import torch._dynamo  # optimizers import it at their first step, which would cost every child a second
import torch.distributed as dist
from story import RANKED, STORIES

from pytest_traincheck.mutants import install, tally
from pytest_traincheck.mutants.catalogue import KINDS

PLAIN = "plain"


def in_child(work: Callable[[], Any], output: Path) -> int:
    """Fork, and have the child write what `work` returns."""
    child = os.fork()
    if child:
        return child
    try:
        torch.manual_seed(0)
        found = {"saw": work()}
    except BaseException as error:  # noqa: BLE001 - the parent has to hear of it
        found = {"error": f"{type(error).__name__}: {error}"}
    output.write_text(json.dumps(found), encoding="utf-8")
    os._exit(0)


def alone(kinds: list[str], directory: Path) -> dict[str, Any]:
    """What the stories of some kinds see in one process, into which the directory's name is planted."""

    def work() -> Any:
        _plant(directory)
        return {kind: STORIES[kind]() for kind in kinds}

    os.waitpid(in_child(work, directory / "alone.json"), 0)
    found = _read(directory / "alone.json")
    return found.get("saw") or dict.fromkeys(kinds, found)


def together(kinds: list[str], directory: Path) -> dict[str, Any]:
    """The same for stories of two ranks."""

    def work(rank: int) -> Callable[[], Any]:
        def story_of_rank() -> dict[str, Any]:
            _plant(directory)
            dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2)
            found = {kind: RANKED[kind](rank) for kind in kinds}
            dist.barrier()
            return found

        return story_of_rank

    outputs = [directory / f"rank{rank}.json" for rank in range(2)]
    for child in [in_child(work(rank), output) for rank, output in enumerate(outputs)]:
        os.waitpid(child, 0)
    first, second = (_read(output) for output in outputs)
    for each in (first, second):
        if "error" in each:
            return dict.fromkeys(kinds, each)
    return {kind: [first["saw"][kind], second["saw"][kind]] for kind in kinds}


def _plant(directory: Path) -> None:
    if directory.name != PLAIN:
        install.start(directory.name, directory)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    found: dict[str, dict[str, Any]] = {}
    # In the order of the catalogue: accumulation is told before the process has seen a second optimizer step.
    kinds = [kind.name for kind in KINDS if kind.name in STORIES]
    with tempfile.TemporaryDirectory() as name:
        seen = {}
        for mode in (PLAIN, install.CENSUS):
            directory = Path(name) / mode
            directory.mkdir()
            seen[mode] = {**alone(kinds, directory), **together(list(RANKED), directory)}
        places = tally.read(Path(name) / install.CENSUS)
        for kind in (*STORIES, *RANKED):
            directory = Path(name) / kind
            directory.mkdir()
            planted = (together if kind in RANKED else alone)([kind], directory)
            found[kind] = {
                "without": seen[PLAIN][kind],
                "counting": seen[install.CENSUS][kind],
                "with": planted[kind],
                "applied": tally.read(directory).get(kind, 0),
                "places": places.get(kind, 0),
            }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
