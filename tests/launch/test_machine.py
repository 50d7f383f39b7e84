"""What the machine has room for, as a container sees it, and what a command line asks of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_traincheck.launch import machine


def test_a_container_has_the_cores_and_the_memory_that_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text(f"{3 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**30}\n")
    assert machine.cores(tmp_path) == 1
    assert machine.memory(tmp_path) <= 2 * 2**30


def test_without_limits_it_has_what_the_process_has(tmp_path: Path) -> None:
    everything = machine.cores(tmp_path), machine.memory(tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.cores(tmp_path) == everything[0] >= 1
    assert machine.memory(tmp_path) > 0


def test_little_memory_leaves_room_for_one(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000")
    (tmp_path / "memory.current").write_text("1000")
    assert machine.places(tmp_path) == 1


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("python train.py", 1),
        ("torchrun --nproc-per-node 4 train.py", 4),
        ("torchrun --nproc_per_node=2 train.py", 2),
        ("accelerate launch --num_processes 3 train.py", 3),
    ],
)
def test_a_command_says_how_many_ranks_it_starts(command: str, ranks: int) -> None:
    assert machine.ranks_of(command) == ranks


def test_as_many_ranks_as_there_are_cores(tmp_path: Path) -> None:
    assert machine.ranks_of("torchrun --nproc-per-node auto train.py", tmp_path) == machine.cores(tmp_path)
