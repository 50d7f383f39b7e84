"""What is drawn of a run, taken from its trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training_story import Loop, Recorder

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.portrait import Portrait
from pytest_traincheck.replay.portray import portrait


@pytest.fixture
def told(tmp_path: Path) -> Callable[[Loop], Portrait]:
    recorder = Recorder(tmp_path)
    return lambda loop: portrait(recorder.record(loop))


def names(found: Portrait, step: int) -> list[str]:
    return [call.name.rpartition(".")[2] for call in found.outline.step(step)]


def test_a_step_is_told_by_its_outermost_calls(told: Callable[[Loop], Portrait]) -> None:
    assert names(told(Loop()), 1) == ["step", "zero_grad", "__next__", "Net", "cross_entropy", "backward",
                                      "clip_grad_norm_", "step"]  # fmt: skip


def test_a_call_that_is_missing_is_missing(told: Callable[[Loop], Portrait]) -> None:
    assert "zero_grad" not in names(told(Loop(zero_grad="never")), 1)


def test_an_evaluation_is_one_call(told: Callable[[Loop], Portrait]) -> None:
    found = told(Loop())
    assert names(found, 3).count("evaluation") == 1
    assert "evaluation" not in names(found, 2)


def test_steps_that_are_alike_share_a_shape(told: Callable[[Loop], Portrait]) -> None:
    outline = told(Loop(steps=20, evaluate_after=())).outline
    assert len(outline.steps) == 20
    assert len(outline.shapes) == 2


def test_groups_hold_what_the_optimizer_was_given(told: Callable[[Loop], Portrait]) -> None:
    held, nobody = told(Loop(held=("fc1.weight", "fc1.bias"))).groups
    assert (held.optimizer, held.tensors, held.elements) == ("AdamW[Net]", 2, 16)
    assert dict(held.settings)["lr"] == "0.01"
    assert (nobody.optimizer, nobody.tensors, nobody.names) == ("", 1, ("Net.fc2.weight",))


def test_every_rank_is_there(told: Callable[[Loop], Portrait]) -> None:
    assert [rank.rank for rank in told(Loop(ranks=2)).ranks] == [0, 1]


def test_a_golden_knows_the_curves_of_every_seed(judge: Any, train: Callable[..., Any]) -> None:
    golden = judge.golden(lambda seed: train(seed=seed)())
    kept = golden.recording.portrait
    assert [curve.seed for curve in kept.curves] == ["0", "1"]
    (first, second) = kept.curves
    assert len(first.losses) == len(first.norms) == len(first.rates[0]) == 3
    assert first.losses != second.losses
    same = check_run(golden, judge.run(lambda seed: train(seed=seed)()), same_spec=True).portraits
    assert same is not None
    assert same.golden == kept
    assert same.candidate.curves == kept.curves[:1]
    assert same.candidate.ranks == kept.ranks


def test_the_curves_of_another_command_are_no_measure(judge: Any, train: Callable[..., Any]) -> None:
    golden = judge.golden(lambda seed: train(seed=seed)())
    found = check_run(golden, judge.run(lambda seed: train(seed=seed)()), same_spec=False).portraits
    assert found is not None
    assert found.golden is None


@pytest.fixture
def train() -> Callable[..., Any]:
    from replays import train as made

    return made
