"""Every kind of mistake changes what it says, and nothing when places are only counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.mutants.catalogue import KINDS

ROOT = Path(__file__).resolve().parents[2]

_ADAM = {"lr": [0.5, 0.25], "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}

EXPECTED: dict[str, tuple[Any, Any]] = {
    "zero-grad-skipped": (1.0, 2.0),
    "zero-grad-partial": ([True, True, True, True], [False, True, False, True]),
    "zero-grad-within-accumulation": (1.0, 0.25),
    "accumulation-not-normalised": (1.0, 4.0),
    "loss-scaled": (1.0, 0.1),
    "backward-skipped": (3.0, 2.0),
    "output-detached": (True, False),
    "clipping-dropped": (1.0, 50.0),
    "clipping-times-ten": (1.0, 10.0),
    "clipping-by-another-norm": (1.0, 0.714),
    "clipping-before-backward": (1.0, 50.0),
    "clipping-after-step": ([-1.0, 1.0], [-10.0, 1.0]),
    "step-every-second": (-2.0, -1.0),
    "step-never": (-2.0, 0.0),
    "step-twice": (-2.0, -4.0),
    "optimizer-made-anew": (-2.5, -2.0),
    "optimizer-of-copies": (-1.0, 0.0),
    "parameter-left-out": (2, 1),
    "parameter-frozen": (2, 1),
    "learning-rate-times-ten": (_ADAM, {**_ADAM, "lr": [5.0, 2.5]}),
    "momentum-changed": (0.5, 0.25),
    "betas-changed": (_ADAM, {**_ADAM, "betas": [0.45, 0.999]}),
    "eps-changed": (_ADAM, {**_ADAM, "eps": 1e-4}),
    "weight-decay-lost": (_ADAM, {**_ADAM, "weight_decay": 0.0}),
    "weight-decay-everywhere": ([0.5, 0.0], [0.5, 0.5]),
    "scheduler-skipped": ([1.0, 0.5, 0.25], [1.0, 1.0, 1.0]),
    "scheduler-twice": ([1.0, 0.5, 0.25], [1.0, 0.25, 0.0625]),
    "scheduler-every-second": ([1.0, 0.5, 0.25], [1.0, 0.5, 0.5]),
    "scheduler-before-optimizer": ([1.0, 0.5, 0.25], [0.5, 0.25, 0.125]),
    "autocast-off": ("torch.bfloat16", "torch.float32"),
    "autocast-in-another-dtype": ("torch.bfloat16", "torch.float16"),
    "scaler-skips-steps": (-2.0, -1.0),
    "loss-not-scaled": (4.0, 1.0),
    "scaler-never-updated": (16.0, 4.0),
    # The step unscales what was not unscaled before, so it goes as far as ever.
    "unscale-omitted": ([1.0, -1.0], [4.0, -1.0]),
    "left-in-eval": ([False, True], [False, False]),
    "trained-in-eval": (True, False),
    "evaluated-in-train-mode": ([False, True], [True, True]),
    "evaluated-with-gradients": (False, True),
    "weights-in-bfloat16": (1 - 2**-10, 1.0),
    # A mean, a sum, and a mean of what is not trained on.
    "loss-summed": ([1.0, 4.0, 1.0], [4.0, 4.0, 1.0]),
    "loss-averaged": ([1.0, 4.0, 1.0], [1.0, 1.0, 1.0]),
    "targets-shifted": (0.0, 1.0),
    "softmax-before-loss": ([0.0, 0.0], [0.31, 0.31]),
    "label-smoothing-lost": (25.0, 0.0),
    "class-weights-lost": (4.0, 2.0),
    "loss-of-half-the-batch": (0.5, 0.0),
    "dropout-off": ([True, False], [False, False]),
    "dropout-in-evaluation": ([True, False], [True, True]),
    "batch-norm-momentum-changed": ([0.1, 1e-5, 1e-5], [0.9, 1e-5, 1e-5]),
    "batch-norm-frozen": (True, False),
    "norm-eps-changed": ([0.1, 1e-5, 1e-5], [0.1, 0.01, 0.01]),
    "attention-mask-dropped": ([True, True, True], [False, False, False]),
    "masked-fill-skipped": (7.0, 0.0),
    "activation-dropped": ([0.0, 0.0], [-1.0, 0.0]),
    "inputs-not-normalised": (1.0, 10.0),
    "one-batch-reused": ([[0, 1], [2, 3]], [[0, 1], [0, 1]]),
    "batch-size-halved": ([[0, 1], [2, 3]], [[0], [1], [2], [3]]),
    "shuffling-dropped": ([False, False], [True, True]),
    "set-epoch-ignored": (3, 0),
    "one-shard-for-all": ([1, 3], [0, 2]),
    "workers-seeded-alike": (2, 1),
    "same-numbers-drawn": (False, True),
    "initialisation-scaled": ([1.0, 1.0], [3.0, 1.0]),
    # As the training process makes a batch, and as a worker does.
    "labels-shifted-in-batches": ([[0, 1, 2, 3], [0, 1, 2, 3]], [[1, 2, 3, 0], [1, 2, 3, 0]]),
    "labels-permuted-in-batches": ([[0, 1, 2, 3], [0, 1, 2, 3]], [[3, 0, 1, 2], [3, 0, 1, 2]]),
    "masks-inverted-in-batches": ([6, 6], [2, 2]),
    "inputs-zeroed-in-batches": ([[True] * 4] * 2, [[False, True, True, True]] * 2),
    "inputs-noised-in-batches": ([[True] * 4] * 2, [[False, True, True, True]] * 2),
    "run-cut-short": (-2.0, -1.0),
    "initialisation-constant": (False, True),
    "initialisation-drawn-anew": (True, False),
    "initialisation-skipped": ([1.0, 1.0], [0.0, 1.0]),
    "tied-weights-broken": (True, False),
    "model-not-restored": (0.0, 1.0),
    "optimizer-not-restored": (0.5, 1.0),
    "scheduler-not-restored": (3, 0),
    "average-not-updated": ([1.0, 0.5, 5.0], [0.0, 1.0, 5.0]),
    # What each of two ranks sees.
    "all-reduce-dropped-on-one-rank": ([2.0, 2.0], [2.0, 1.0]),
    "all-reduce-corrupted-on-one-rank": ([2.0, 2.0], [2.0, 2.02]),
    "all-reduce-skipped": ([2.0, 2.0], [1.0, 1.0]),
    "broadcast-corrupted-on-one-rank": ([1.0, 1.0], [1.0, 1.01]),
    "ranks-begin-apart": ([[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [1.01, 2.0]]),
    "raw-module-called": ([[1.0, 2.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 3.0]]),
    "no-sync-over-all": ([[1.0, 2.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 3.0]]),
    "clipping-on-one-rank": ([1.0, 1.0], [1.0, 10.0]),
    "learning-rate-differs-on-one-rank": ([-1.0, -1.0], [-1.0, -2.0]),
}
"""What the story of each kind sees without the mistake and with it."""


@pytest.fixture(scope="module")
def stories() -> dict[str, dict[str, Any]]:
    """All stories, told in one process and its children."""
    script = Path(__file__).with_name("stories.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def test_every_kind_has_a_story() -> None:
    assert len(KINDS) >= 30
    assert {kind.name for kind in KINDS} == set(EXPECTED)


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_mistake_changes_what_it_says(stories: dict[str, dict[str, Any]], kind: str) -> None:
    story = stories[kind]
    without, planted = EXPECTED[kind]
    assert story["without"] == without
    assert story["with"] == planted
    assert story["applied"] > 0, "the mistake was made, and nobody counted it"


@pytest.mark.parametrize("kind", EXPECTED)
def test_counting_places_changes_nothing(stories: dict[str, dict[str, Any]], kind: str) -> None:
    """All kinds are there at once and make no mistake: the run that says which kinds have a place."""
    assert stories[kind]["counting"] == stories[kind]["without"]
    assert stories[kind]["places"] > 0


def test_sentences_are_sentences() -> None:
    for kind in KINDS:
        assert kind.mistake.endswith("."), kind.name
        assert kind.meaning.endswith("."), kind.name
        assert not kind.needs.endswith("."), kind.name
    assert len({kind.mistake for kind in KINDS}) == len(KINDS)
