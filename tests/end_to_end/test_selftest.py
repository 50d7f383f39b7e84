"""The gate tests itself: mistakes planted into real training, in real processes, checked against a real golden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TRAIN = """\
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    assert model.training
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(torch.randn(16, 6)), torch.ones(16, 1))
    loss.backward()
    optimizer.step()
"""

CONFIG = """\
[pipelines.net]
run = "python train.py"
seed_arg = "--seed {seed}"
seeds = [0]
timeout = 120
"""

KINDS = ("loss-scaled", "trained-in-eval", "targets-shifted", "clipping-dropped")
"""One for each fate: found, fatal by the assertion, without effect on equal targets, without a place."""


def traincheck(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **variables},
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small pipeline with a stored golden, learned while a mistake is left over in the shell."""
    directory = tmp_path_factory.mktemp("selftest")
    (directory / "train.py").write_text(TRAIN)
    (directory / "traincheck.toml").write_text(CONFIG)
    done = traincheck(directory, "refresh", "net", TRAINCHECK_MUTANT="loss-scaled")
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def result(project: Path) -> dict[str, Any]:
    chosen = [word for kind in KINDS for word in ("--kinds", kind)]
    done = traincheck(
        project, "selftest", "net", *chosen, "--fail-under", "90%", "--json", "result.json", "--artifacts", "kept"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((project / "result.json").read_text())
    return {**found, "printed": done.stdout}


def test_each_mistake_has_its_fate(result: dict[str, Any]) -> None:
    fates = {mutant["kind"]: mutant["fate"] for mutant in result["mutants"]}
    assert fates == {
        "loss-scaled": "killed",
        "trained-in-eval": "did not finish",
        "targets-shifted": "equivalent",
        "clipping-dropped": "not applicable",
    }
    assert result["kill_rate"] == 1.0
    assert result["survivors"] == []


def test_the_incident_names_the_mistake(result: dict[str, Any]) -> None:
    """The golden was learned without it, whatever the shell said: what differs is what `backward` starts from."""
    killed = next(mutant for mutant in result["mutants"] if mutant["kind"] == "loss-scaled")
    assert killed["applied"] == 4
    assert "from 1/10 times that" in killed["incident"]["title"]
    assert killed["incident"]["source"] == f"train.py:{1 + TRAIN.splitlines().index('    loss.backward()')}"


def test_a_crash_is_shown_apart_with_its_error(result: dict[str, Any]) -> None:
    crashed = next(mutant for mutant in result["mutants"] if mutant["kind"] == "trained-in-eval")
    assert "AssertionError" in crashed["detail"]
    assert "1 killed by the run itself: it did not finish" in result["printed"]


def test_the_users_files_are_as_they_were(project: Path, result: dict[str, Any]) -> None:
    assert result["verdict"] == "pass"
    assert (project / "train.py").read_text() == TRAIN
    assert sorted(path.name for path in (project / "kept" / "net").iterdir() if path.is_dir()) == [
        "mutant-loss-scaled",
        "mutant-targets-shifted",
        "mutant-trained-in-eval",
        "unchanged",
    ]


def test_what_the_policy_overlooks_survives(project: Path) -> None:
    """Rules that are switched off see nothing: the mistake survives, and the floor is missed."""
    (project / "lax.toml").write_text(CONFIG + '[policy]\n"*" = "off"\n')
    done = traincheck(
        project, "selftest", "net", "--config", "lax.toml", "--kinds", "loss-scaled", "--fail-under", "0.5"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "net: FAILED - 0 of 1 mistake killed (0 %), 50 % were asked for" in done.stdout
    assert "1. loss-scaled" in done.stdout
