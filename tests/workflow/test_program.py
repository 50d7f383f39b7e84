"""Whether a command is golden's, for as long or longer, or another one, and in what."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.workflow.program import Sameness, sameness

GOLDEN = "python train.py --steps 8 --width 16 --out {tmp}"


def of(command: str, golden: str = GOLDEN) -> Sameness:
    spec = PipelineSpec("net", golden, seed_arg="--seed {seed}")
    return sameness(shlex.split(command), spec)


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --steps 400 --width 16 --out runs/1",
        "python train.py --steps 400 --width 16 --out=runs/1 --seed 3",
        "python train.py --steps 400 --width 16",
        "python train.py --resume runs/1/last.pt --steps 400 --width 16 --out {tmp} --save-every 10",
        "python train.py --steps 400 --width 16 --log-dir runs",
        "python -u train.py --steps 400 --width 16",
        "/usr/bin/python3.12 -uB -W ignore -X faulthandler -Wonce train.py --steps 400 --width 16",
        "python train.py --steps 400 --width 16 --snapshot half.pt",
        "python train.py --steps 400 --width 16 --from-snapshot half.pt",
        "python train.py --steps 400 --width 16 --dump=runs/half.ckpt",
        "python train.py --steps 400 --width 16 --resume",
        "python train.py --resume --steps 400 --width 16 --auto-resume",
        "python train.py --steps 400 --save --width 16",
    ],
)
def test_where_a_training_writes_is_not_what_it_trains(command: str) -> None:
    assert of(command) == Sameness(True, True, 3 if "--seed 3" in command else None)


def test_a_directory_of_each_run_may_have_any_name() -> None:
    assert of("python train.py --steps 9 --dump here", "python train.py --steps 8 --dump {tmp}/x").same_spec
    assert of("python train.py out 9 --max_steps=9", "python train.py {tmp} 9 --max_steps=3").same_spec
    assert not of("python train.py out 8", "python train.py {tmp} 9").same_spec
    assert not of("python train.py --steps 9 --dump here", "python train.py --steps 8 --dump there").same_spec


@pytest.mark.parametrize(
    ("command", "differs"),
    [
        ("python train.py --steps 400 --width 8 --out o", "`8` instead of `16`"),
        ("python train.py --steps 400 --out o", "`--width 16` left out"),
        ("python train.py --steps 400 --width 16 --lr 0.1", "`--lr 0.1` added"),
        ("python train.py --steps 400 --width 16 --resume --fast", "`--fast` added"),
        ("python train.py --steps 400 --width 16 --shift -0.5", "`--shift -0.5` added"),
        ("python train.py --steps 400 --width 16 --log", "`--log` added"),
        ("python -O train.py --steps 400 --width 16", "`-O` added"),
        ("python -m train --steps 400 --width 16", "`-m train` instead of `train.py`"),
        ("python other.py --steps 400 --width 16 --fast", "`other.py` instead of `train.py`, `--fast` added"),
    ],
)
def test_another_command_says_in_what(command: str, differs: str) -> None:
    found = of(command)
    assert (found.same_spec, found.other_length, found.differs) == (False, False, differs)


def test_a_file_that_somebody_else_has_made_is_part_of_what_is_trained() -> None:
    assert not of("python train.py --steps 400 --width 16 --pretrained net.pt").same_spec
    assert not of("python train.py --steps 400 --width 16 --init-from net.pt").same_spec
    assert not of("python train.py --steps 9 --start net.pt", "python train.py --steps 8 --start other.pt").same_spec


def test_what_is_there_is_what_a_continued_training_goes_on_with(tmp_path: Path) -> None:
    spec = PipelineSpec("net", GOLDEN, seed_arg="--seed {seed}")
    words = shlex.split(f"python train.py --steps 400 --width 16 --out o --from {tmp_path}")
    assert not sameness(words, spec).same_spec
    assert sameness(words, spec, continued=True).same_spec
    assert not sameness([*words[:-1], "nothing"], spec, continued=True).same_spec


def test_a_number_is_no_place_to_write_to() -> None:
    assert (
        of("python train.py --out 64 --steps 9", "python train.py --out 32 --steps 8").differs == "`64` instead of `32`"
    )


def test_passwords_make_no_other_command_and_are_not_shown() -> None:
    known = "python train.py --hf-token abcdef --steps 8"
    assert of("python train.py --hf-token secret99 --steps 9", known).same_spec
    other = of("python train.py --hf-token secret99 --steps 9 --lr 1", known)
    assert other.differs == "`--lr 1` added"
    assert "secret99" not in of("python train.py --wandb-api-key secret99", "python train.py").differs


def test_golden_s_own_command_is_of_its_length() -> None:
    assert of(GOLDEN + " --seed 2") == Sameness(True, False, 2)
