"""A command that trains in two processes, the second of which resumes: a whole check takes them for one training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_continued_training import CONFIGURATION, TRAIN, commit, traincheck

pytestmark = pytest.mark.slow

COMMAND = """\
set -e
place=$(mktemp -d)
python train.py --steps 4 --save $place/c.pt "$@"
python train.py --steps 8 --resume $place/c.pt "$@"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "train.py").write_text(TRAIN.replace("step % 20 == 0", "step % 4 == 0"))
    (root / "train.sh").write_text(COMMAND)
    (root / "traincheck.toml").write_text(CONFIGURATION.replace("python train.py --steps 6", "sh train.sh"))
    commit(root)
    done = traincheck(root, "refresh", "tiny", "--reason", "first")
    assert done.returncode == 0, done.stderr
    header = json.loads((root / "golden_invariants" / "tiny.jsonl").read_text().splitlines()[0])
    assert (header["trainings"], header["steps"]) == ([0, 0], 8)
    return root


def test_a_right_resume_is_silent(project: Path) -> None:
    done = traincheck(project, "check", "tiny")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("lost", "relation", "step"),
    [
        ("optimizer", "Carried", 4),
        pytest.param("scheduler", "Schedule", 5, marks=pytest.mark.sweep),
        pytest.param("rate", "Schedule", 4, marks=pytest.mark.sweep),
        pytest.param("average", "Between", 4, marks=pytest.mark.sweep),
        pytest.param("statistics", "Loaded", 4, marks=pytest.mark.sweep),
        pytest.param("head", "Loaded", 4, marks=pytest.mark.sweep),
        pytest.param("model", "Between", 4, marks=pytest.mark.sweep),
        ("random", "Distinct", 4),
    ],
)
def test_what_was_not_restored_is_told_at_the_first_step(
    project: Path, tmp_path: Path, lost: str, relation: str, step: int
) -> None:
    done = traincheck(project, "check", "tiny", "--json", str(tmp_path / "out.json"), LOST=lost)
    assert done.returncode == 1, done.stdout + done.stderr
    incidents = json.loads((tmp_path / "out.json").read_text())["incidents"]
    causes = [(item["relation"], item["step"]) for item in incidents]
    assert causes == [(relation, step)], done.stdout
