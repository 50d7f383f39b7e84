"""A commit with two changes, of which the run comes to one: that one is shown beside the incident."""

from __future__ import annotations

import json
import os
import shutil
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from training_repository import CONFIG, TrainingRepository

from pytest_traincheck.check.marks import LAYERS
from pytest_traincheck.check.ran import ran_of
from pytest_traincheck.trace import load_run

pytestmark = pytest.mark.slow

NETS = """\
from torch import nn
from torch.nn import functional as F

NETS = {}


def register(name):
    def keep(kind):
        NETS[name] = kind
        return kind

    return keep


@register("dense")
class Dense(nn.Module):
    def __init__(self, width, drop=0.1):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3))
        self.drop = drop

    def forward(self, x):
        return F.dropout(self.layers(x), self.drop, self.training)


@register("conv")
class Convolving(nn.Module):
    def __init__(self, width, drop=0.1):
        super().__init__()
        self.layer = nn.Conv1d(1, width, 3, padding=1)
        self.last = nn.Linear(width, 3)
        self.drop = drop

    def forward(self, x):
        x = F.dropout(self.layer(x.unsqueeze(1)).mean(2), self.drop, self.training)
        return self.last(x)
"""

DATA = """\
import torch


def batches(count):
    for _ in range(count):
        values = torch.randn(16, 6) * 2
        yield standardised(values), values.argmax(1) % 3


def standardised(values):
    return (values - values.mean(0)) / values.std(0)
"""

TRAIN = """\
import argparse
import json
from pathlib import Path

import torch

from data import batches
from nets import NETS


DECAY = 0.05


def settings_in(path):
    with open(path) as file:
        return json.load(file)


def optimizer_of(net, name, rate):
    if name == "sgd":
        return torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, weight_decay=DECAY)
    return torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=DECAY)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)
settings = settings_in("settings.json")
net = NETS[settings["net"]](8)
optimizer = optimizer_of(net, settings["optimizer"], float(Path("rate.txt").read_text()))
for inputs, targets in batches(5):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(inputs), targets)
    loss.backward()
    optimizer.step()
"""

SETUP = 'from setuptools import setup\n\nsetup(name="nets", version="0.1.0")\n'


class Project(TrainingRepository):
    """Two nets and two optimizers, of which the settings choose one each, and the golden of that."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        texts = {"nets.py": NETS, "data.py": DATA, "train.py": TRAIN, "setup.py": SETUP, "rate.txt": "0.01\n"}
        texts["../pyproject.toml"] = CONFIG.replace(" --steps 6", "")
        texts["settings.json"] = json.dumps({"net": "dense", "optimizer": "adamw"}, indent=2)
        for name, text in texts.items():
            (path / "training" / name).write_text(text)
        self.commit("Two nets")
        learned = self.call("pytest_traincheck", "refresh")
        assert learned.returncode == 0, learned.stdout + learned.stderr
        self.commit("The golden")

    def copied(self, path: Path) -> Project:
        """One of its own for a test."""
        project = copy(self)
        project.path = shutil.copytree(self.path, path)
        return project

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.path / "training" / name
        text = path.read_text()
        assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new))

    def diffs(self) -> list[dict[str, Any] | None]:
        """The changed lines beside each incident of the working tree."""
        document = self.path.parent / "result.json"
        done = self.call("pytest_traincheck", "check", "--json", str(document))
        assert done.returncode == 1, done.stdout + done.stderr
        return [incident["diff"] for incident in json.loads(document.read_text())["incidents"]]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("learned") / "repository")


@pytest.fixture
def project(learned: Project, tmp_path: Path) -> Project:
    return learned.copied(tmp_path / "repository")


def test_a_net_and_a_branch_that_never_ran_are_not_shown(project: Project) -> None:
    project.edit("nets.py", "x = F.dropout(self.layer(x.unsqueeze(1)).mean(2), self.drop, ", "x = F.dropout(x, 0.2, ")
    project.edit("train.py", "momentum=0.9, weight_decay=DECAY", "momentum=0.9, weight_decay=0.0")
    project.edit("train.py", "DECAY = 0.05", "DECAY = 0.5")
    (diff,) = project.diffs()
    assert diff is not None
    assert (diff["file"], diff["how"]) == ("train.py", "the only change that runs")
    assert [line for line in diff["hunk"].splitlines() if line[0] in "+-"] == ["-DECAY = 0.05", "+DECAY = 0.5"]


def test_the_one_change_that_runs_is_shown_however_far_from_the_place(project: Project) -> None:
    project.edit("nets.py", "self.last(x)", "self.last(x) * 2")
    project.edit("setup.py", "0.1.0", "0.1.1")
    project.edit("data.py", "values.argmax(1)", "values.argmin(1)")
    diffs = project.diffs()
    assert diffs
    for diff in diffs:
        assert diff is not None
        assert (diff["file"], diff["how"]) == ("data.py", "the only change that runs")


def test_a_file_of_data_is_shown_where_it_is_all_that_changed(project: Project) -> None:
    project.edit("rate.txt", "0.01", "0.02")
    diffs = project.diffs()
    assert diffs
    assert all(diff is not None and (diff["file"], diff["how"]) == ("rate.txt", "the only change") for diff in diffs)


MARKS = """\
import torch
from torch import nn

kinds = {kinds}
sizes = {{"Bilinear": (2, 2, 2), "Embedding": (2, 2), "EmbeddingBag": (2, 2), "Linear": (2, 2)}}
for kind in {{*kinds}} - {{"Linear"}}:
    sizes.setdefault(kind, (2, 2, 1) if "Conv" in kind else (2, 2))
{made}
net = nn.Linear(2, 2)
optimizer = torch.optim.SGD(
    net.parameters(), lr=0.1
)
for _ in range(2):
    net(torch.ones(2, 2)).sum().backward()
    optimizer.step()
"""


def test_what_is_counted_on_to_leave_a_trace_leaves_one(project: Project) -> None:
    kinds = sorted(name.rpartition(".")[2] for name in LAYERS)
    made = "\n".join(f"nn.{kind}(*sizes[{kind!r}])" for kind in kinds)
    text = MARKS.format(kinds=kinds, made=made)
    script = project.path / "training" / "marks.py"
    script.write_text(text)
    trace = project.path.parent / "trace"
    done = project.call(
        "pytest_traincheck", "collect", "--run", "python marks.py", "--output", str(trace), cwd=script.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    known = ran_of(load_run(trace))
    assert known is not None
    seen = known.with_paths(lambda path: os.path.relpath(path, script.parent))
    lines = text.splitlines()
    left = {lines[number - 1].strip() for number in seen.lines["marks.py"]}
    assert {*made.splitlines(), "optimizer = torch.optim.SGD(", "net(torch.ones(2, 2)).sum().backward()"} <= left
    assert "marks.py" in seen.imported
    assert "SGD" in seen.classes
