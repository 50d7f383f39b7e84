"""A library that only the example package knows: its function is observed, and its wrapper looked through."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden

HERE = Path(__file__).parent
PACKAGE = "pytest_traincheck"
FOCAL = "paperlib.losses.focal_loss"

SCRIPT = """
import os

import paperlib
import torch

torch.manual_seed(int(os.environ["SEED"]))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 1)

    def forward(self, x):
        return self.fc(x)


model = paperlib.Monitored(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = paperlib.focal_loss(model(torch.randn(16, 6)), torch.randint(2, (16, 1)), 2.0)
    loss.backward()
    optimizer.step()
"""

CONFIG = "[pipelines.net]\nrun = 'python train.py'\nseed_env = 'SEED'\nseeds = [0]\n"

Command = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Place:
    """Where the library is installed, as packages are (what lies there is not the user's own code), and a project."""

    library: Path
    project: Path

    @classmethod
    def made_below(cls, directory: Path) -> Place:
        place = cls(directory / "site-packages", directory / "project")
        shutil.copytree(HERE / "paperlib", place.library / "paperlib")
        place.project.mkdir()
        (place.project / "train.py").write_text(SCRIPT)
        (place.project / "traincheck.toml").write_text(CONFIG)
        return place

    def running(self, environment: dict[str, str]) -> Command:
        """Runs commands of ours in the project."""
        path = os.pathsep.join([str(self.library), environment["PYTHONPATH"]])

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", PACKAGE, *words]
            given = {**environment, "PYTHONPATH": path, "COLUMNS": "1000"}
            return subprocess.run(command, cwd=self.project, env=given, capture_output=True, text=True, check=False)

        return run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.made_below(tmp_path)


@pytest.fixture(scope="module")
def golden_with_plug_in(tmp_path_factory: pytest.TempPathFactory, with_example: dict[str, str]) -> Path:
    """The directory of a golden of the script, learned where the example package is installed."""
    place = Place.made_below(tmp_path_factory.mktemp("learned"))
    done = place.running(with_example)("refresh", "net")
    assert done.returncode == 0, done.stdout + done.stderr
    return place.project / "golden_invariants"


@pytest.fixture
def project(place: Place) -> Path:
    return place.project


@pytest.fixture
def learned_project(project: Path, golden_with_plug_in: Path) -> Path:
    """The project with its golden, for this test alone."""
    shutil.copytree(golden_with_plug_in, project / "golden_invariants")
    return project


@pytest.fixture
def with_plug_in(with_example: dict[str, str], place: Place) -> Command:
    """Runs a command of ours where the example package and the library are installed."""
    return place.running(with_example)


@pytest.fixture
def without(place: Place) -> Command:
    """Runs a command of ours where only the library is installed."""
    return place.running({**os.environ, "PYTHONPATH": str(HERE.parents[1])})


def learned(project: Path) -> Golden:
    return store.read(project / "golden_invariants" / "net.jsonl")


def rules_of(project: Path) -> list[dict[str, Any]]:
    """The rules of the stored golden, as its file has them."""
    _, *lines = (project / "golden_invariants" / "net.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def incidents(project: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((project / "out.json").read_text())["incidents"]
    return found


@pytest.mark.slow
def test_a_mistake_in_a_function_that_only_a_plug_in_knows_is_found(
    with_plug_in: Command, learned_project: Path
) -> None:
    golden = learned(learned_project)
    about = {
        (rule["relation"], rule["claim"].get("argument"), rule["claim"].get("per"))
        for rule in rules_of(learned_project)
        if rule["subject"] == FOCAL
    }
    assert about >= {("APIArg", "gamma", None), ("APIArg", "alpha", None), ("Count", None, "step")}
    assert set(golden.extensions) == {"framework paperlib", FOCAL}

    # The wrapper is looked through: the model is what it would be without it.
    assert set(golden.models) == {"Net"}
    assert set(golden.models["Net"]) == {"fc.weight", "fc.bias"}
    assert golden.environment["paperlib"] == "0.3"

    (learned_project / "train.py").write_text(SCRIPT.replace("(16, 1)), 2.0)", "(16, 1)), 0.2)"))
    check = with_plug_in("check", "net", "--json", "out.json")
    assert check.returncode == 1, check.stdout + check.stderr
    first = incidents(learned_project)[0]
    assert (first["relation"], first["subject"]) == ("APIArg", FOCAL)
    assert "gamma = 2" in first["golden"]
    assert first["source"].startswith("train.py:")

    (learned_project / "train.py").write_text(
        SCRIPT.replace("paperlib.focal_loss(", "torch.nn.functional.binary_cross_entropy_with_logits(").replace(
            "(16, 1)), 2.0)", "(16, 1)).float())"
        )
    )
    assert with_plug_in("check", "net", "--json", "out.json").returncode == 1
    assert any(item["relation"] == "Count" and item["subject"] == FOCAL for item in incidents(learned_project))


@pytest.mark.slow
def test_a_golden_of_the_wrapped_model_holds_for_the_model_alone(with_plug_in: Command, learned_project: Path) -> None:
    (learned_project / "train.py").write_text(SCRIPT.replace("paperlib.Monitored(Net())", "Net()"))
    check = with_plug_in("check", "net")
    assert check.returncode == 0, check.stdout


@pytest.mark.sweep
@pytest.mark.slow
def test_a_golden_that_was_learned_with_a_plug_in_is_not_checked_without_it(
    with_plug_in: Command, without: Command, learned_project: Path
) -> None:
    check = without("check", "net")
    assert check.returncode == 3, check.stdout
    said = " ".join(check.stdout.split())
    assert "none of" in said
    assert (
        "the golden runs, this run and this check do not all know the framework `paperlib` of a plug-in alike" in said
    )

    # The other way round: what golden took for the model is a wrapper now.
    refresh = without("refresh", "net")
    assert f"What a plug-in said of `paperlib`, `{FOCAL}` is not known here any more" in refresh.stdout + refresh.stderr
    assert not learned(learned_project).extensions
    assert with_plug_in("check", "net").returncode == 3
    assert without("check", "net").returncode == 0


@pytest.mark.sweep
@pytest.mark.slow
def test_rules_about_a_function_that_is_not_observed_say_nothing_and_that_is_told(
    with_plug_in: Command, without: Command, project: Path
) -> None:
    """The wrapper is not used here, so that its description makes no difference."""
    (project / "train.py").write_text(SCRIPT.replace("paperlib.Monitored(Net())", "Net()"))
    assert with_plug_in("refresh", "net").returncode == 0
    golden = learned(project)
    assert set(golden.extensions) == {FOCAL}
    of_focal = sum(FOCAL in json.dumps([rule["subject"], rule["claim"]]) for rule in rules_of(project))

    check = without("check", "net", "--json", "out.json")
    assert check.returncode == 0, check.stdout
    document = json.loads((project / "out.json").read_text())
    assert document["verdict"] == "pass"
    (warning,) = (item for item in document["warnings"] if "plug-in" in item["title"])
    told = f"{of_focal} rules of the golden could not be checked, since a plug-in had `{FOCAL}` observed on one side"
    assert warning["title"].startswith(told)
    assert document["invariants"]["not_evaluated"] >= of_focal

    refresh = without("refresh", "net")
    assert f"What a plug-in said of `{FOCAL}` is not known here any more" in refresh.stdout + refresh.stderr
    assert not learned(project).extensions
    # What golden does not know makes no difference to its rules.
    assert with_plug_in("check", "net").returncode == 0
