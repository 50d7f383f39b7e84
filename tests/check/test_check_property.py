"""Whatever the loop, its own golden accepts it under another seed and after a refactor that changes nothing."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from judgements import describe
from training_story import DROPOUT, LINEAR, NORM, PARAMETERS, Loop, Recorder

from pytest_traincheck.check.result import Verdict

LOOPS = st.builds(
    Loop,
    steps=st.integers(2, 8),
    ranks=st.integers(1, 2),
    layers=st.sampled_from([(LINEAR,), (LINEAR, DROPOUT), (LINEAR, NORM, DROPOUT)]),
    buffers=st.sampled_from([(), ("norm.running_mean",)]),
    frozen=st.sampled_from([(), ("fc1.bias",), ("fc1.weight", "fc1.bias")]),
    zero_grad=st.sampled_from(["top", "bottom", "model", "assign", "never"]),
    microbatches=st.integers(1, 3),
    unreached=st.sampled_from([(), ("fc2.weight",)]),
    criterion=st.booleans(),
    clip=st.sampled_from([None, 1.0]),
    clip_after_step=st.booleans(),
    skip_step=st.sampled_from([(), (0,), (2,)]),
    stuck=st.sampled_from([(), ("fc1.bias",)]),
    schedule=st.sampled_from(["after", "before", "never"]),
    training=st.booleans(),
    autocast=st.sampled_from([None, "bfloat16"]),
    synced=st.booleans(),
    evaluate_after=st.sampled_from([(), (0,), (1,), (1, 3)]),
    eval_mode=st.booleans(),
    eval_no_grad=st.booleans(),
    back_to_train=st.booleans(),
    ema=st.booleans(),
    ema_moves=st.booleans(),
)
REFACTORS = st.fixed_dictionaries(
    {
        "seed": st.integers(5, 50),
        "name": st.sampled_from(["Net", "Renamed"]),
        "logging": st.booleans(),
    }
)


@settings(max_examples=25, deadline=None)
@given(loop=LOOPS, refactor=REFACTORS)
def test_a_golden_accepts_its_own_loop(loop: Loop, refactor: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(Path(directory))
        golden = recorder.golden(loop)
        outcome = recorder.check(golden, replace(loop, **refactor))  # type: ignore[arg-type]
    assert not outcome.incidents, describe(outcome.incidents)
    assert {item.verdict for item in outcome.verdicts} <= {Verdict.HELD}, "every rule comes up again"
    assert set(PARAMETERS) == set(golden.models["Net"])
