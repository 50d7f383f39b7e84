"""Words, functions and counts of planted mistakes belong together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_traincheck.mutants import tally
from pytest_traincheck.mutants.catalogue import KINDS


def test_the_words_need_no_torch() -> None:
    code = "import sys; import pytest_traincheck.mutants.catalogue; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_kind_is_planted_by_one_function() -> None:
    from pytest_traincheck.mutants.install import PLANTS

    assert {kind.name for kind in KINDS} == set(PLANTS)
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_a_kind_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    from pytest_traincheck.mutants.install import start

    with pytest.raises(ValueError, match="no mistake is called 'zero-grad'"):
        start("zero-grad", tmp_path)


def test_counts_are_there_at_once_and_summed_over_processes(tmp_path: Path) -> None:
    first, second = tally.Tally(tmp_path), tally.Tally(tmp_path)
    for _ in range(12):
        first.add("loss-scaled")
    first.add("step-twice")
    second.add("loss-scaled")
    # Nothing was closed: this is what a process leaves that was killed.
    assert tally.read(tmp_path) == {"loss-scaled": 13, "step-twice": 1}


def test_a_damaged_count_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "mutants-1-1.txt").write_bytes(b"          3 step-twice\n\xff\x00 what\n       -4 loss-scaled\n")
    assert tally.read(tmp_path) == {"step-twice": 3}
