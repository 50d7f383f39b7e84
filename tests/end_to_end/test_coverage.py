"""A real script that trains with golden's seed and yet cannot be compared: what the commands say, and their status."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from training_repository import TrainingRepository

pytestmark = pytest.mark.slow

TRAIN = """\
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(args.seed)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 24)
        self.drop = nn.Dropout(0.2)
        self.last = nn.Linear(24, 5)
        nn.init.normal_(self.first.weight, std=0.1)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.first(x))))


own = torch.Generator().manual_seed(1234)
data = TensorDataset(torch.randn(48, 12, generator=own), torch.randint(0, 5, (48,), generator=own))
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for inputs, labels in list(DataLoader(data, batch_size=8, shuffle=True))[: args.steps]:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
"""

FEWER = ("nn.init.normal_(self.first.weight, std=0.1)", "nn.init.normal_(self.first.weight[:12], std=0.1)")


class Pipeline:
    """The script with its golden, and checks of what it is changed to."""

    def __init__(self, path: Path) -> None:
        self.repository = TrainingRepository(path)
        self.repository.script.write_text(TRAIN)
        config = path / "pyproject.toml"
        config.write_text(config.read_text().replace("seeds = [0]", "seeds = [0, 1]"))

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.repository.call("pytest_traincheck", *arguments)

    def check(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Status, JSON and what was printed, on one line."""
        done = self.call("check", "--json", "result.json", "--junit", "junit.xml", *arguments)
        content = json.loads((self.repository.path / "result.json").read_text())
        return done.returncode, content, " ".join(done.stdout.split())

    def restore(self) -> None:
        self.repository.script.write_text(TRAIN)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    pipeline = Pipeline(tmp_path_factory.mktemp("coverage"))
    done = pipeline.call("refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout
    return pipeline


@pytest.fixture
def pipeline(learned: Pipeline) -> Pipeline:
    learned.restore()
    return learned


def test_golden_again_is_compared_in_full(pipeline: Pipeline) -> None:
    status, content, out = pipeline.check("--strict")
    assert status == 0, out
    coverage = content["coverage"]
    assert coverage["comparisons"] == coverage["made"] > 20
    assert (coverage["share"], coverage["floor"], coverage["parted"]) == (1.0, 1.0, None)
    assert content["warnings"] == []


def test_an_initialiser_that_draws_fewer_numbers_warns_and_fails_under_strict(pipeline: Pipeline) -> None:
    pipeline.repository.change(*FEWER)
    status, content, out = pipeline.check()
    assert (status, content["verdict"]) == (0, "pass")
    assert "net: passed - " in out
    assert ", 1 warning" in out
    assert "another seed" not in out
    place = "random numbers of torch: `normal_` draws 144 numbers, in the golden run 288"
    assert content["coverage"]["parted"] == {"what": place, "step": 0, "source": "train.py:19"}
    assert content["coverage"]["share"] == 0.0
    (warning,) = content["warnings"]
    assert (warning["kind"], warning["source"], warning["fails"]) == ("coverage", "train.py:19", False)
    assert place in out
    (case,) = [c for c in ElementTree.parse(pipeline.repository.path / "junit.xml").iter("testcase")
               if c.get("name") == "coverage"]  # fmt: skip
    assert case.find("skipped") is not None

    status, content, out = pipeline.check("--strict")
    assert (status, content["verdict"]) == (1, "fail")
    assert content["incidents"] == []
    assert "net: FAILED" in out
    assert "reproduce: traincheck check net --strict" in out


def test_pretrained_weights_that_were_not_loaded_are_named(pipeline: Pipeline) -> None:
    """Where a rule covers the place, the incident stays on top and the place stands beside it."""
    half = "model = Net()\nmodel.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()})"
    pipeline.repository.change("model = Net()", half)
    status, content, _ = pipeline.check()
    assert status == 1
    assert content["incidents"]
    assert content["coverage"]["parted"]["what"].startswith("initial values of")


@pytest.mark.sweep
def test_pytest_shows_it_as_an_item_of_its_own(pipeline: Pipeline, request: pytest.FixtureRequest) -> None:
    pipeline.repository.change(*FEWER)
    named = [] if request.config.pluginmanager.has_plugin("traincheck") else ["-p", "pytest_traincheck.plugin"]
    done = pipeline.repository.call("pytest", *named, "--traincheck", "-rs")
    assert done.returncode == 0, done.stdout
    assert "warning: The candidate ran the golden run's command with its seed" in " ".join(done.stdout.split())
    config = pipeline.repository.path / "pyproject.toml"
    former = config.read_text()
    config.write_text(f"[tool.traincheck]\nstrict = true\n{former}")
    try:
        done = pipeline.repository.call("pytest", *named, "--traincheck")
    finally:
        config.write_text(former)
    assert done.returncode == 1, done.stdout
    assert "FAILED golden_invariants/net.jsonl::coverage" in done.stdout
    assert "1 failed" in done.stdout


@pytest.mark.sweep
def test_a_command_that_ignores_its_seed_is_learned_with_a_warning(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.repository.change("torch.manual_seed(args.seed)", "torch.manual_seed(7)")
    done = pipeline.call("refresh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning: All golden runs were the same though their seeds differ" in done.stdout
    status, content, out = pipeline.check()
    assert status == 0
    assert [item["kind"] for item in content["warnings"]] == ["golden"]
    assert "the command ignores its seed" in out


@pytest.mark.sweep
def test_a_golden_that_does_not_repeat_says_so_and_expects_little(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.repository.change("own = torch.Generator().manual_seed(1234)", "own = torch.Generator(); own.seed()")
    done = pipeline.call("refresh")
    assert "warning: Two golden runs with the same seed differ" in done.stdout
    status, content, out = pipeline.check("--strict")
    assert status == 0, out
    assert content["warnings"] == []
    assert content["coverage"]["floor"] < 0.1
    assert "two golden runs with the same seed differ, so" in out
