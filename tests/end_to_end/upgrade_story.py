"""A library in two versions, and a repository whose training uses it: the world of the upgrade tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIBRARY = "tinylib"

_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tinylib"
version = "{version}"
"""

_MODULE = '''\
"""Losses for classifiers."""

import torch.nn.functional as F


def loss(logits, labels):
    return F.cross_entropy(logits, labels)


def batch_loss(logits, labels):
    return F.cross_entropy(logits, labels{argument})
'''

TRAIN = """\
import argparse

import tinylib
import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        inputs = torch.randn(16, 8)
        labels = inputs.argmax(dim=1) % 4
        optimizer.zero_grad()
        loss = tinylib.loss(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
"""

CONFIGURATION = """\
[tool.traincheck.pipelines.tiny]
run = "python train.py"
seed_arg = "--seed {seed}"
seeds = [0]
"""


def build_wheels(directory: Path) -> Path:
    """Version 1.0, and 2.0 in which `batch_loss` sums instead of averaging; without a network."""
    wheels = directory / "wheels"
    for version, argument in (("1.0", ""), ("2.0", ', reduction="sum"')):
        source = directory / version
        (source / "tinylib").mkdir(parents=True)
        (source / "pyproject.toml").write_text(_PROJECT.format(version=version))
        (source / "tinylib" / "__init__.py").write_text(_MODULE.format(argument=argument))
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*command, "--wheel-dir", str(wheels), str(source)], check=True)
    return wheels


AT_ONE_TIME = {"GIT_AUTHOR_DATE": "2024-01-31T12:00:00Z", "GIT_COMMITTER_DATE": "2024-01-31T12:00:00Z"}
"""With these variables what is the same is one commit wherever it is made, and its golden is learned once."""


def make_repository(directory: Path, train: str) -> Path:
    """A repository with one commit: the training script and its configuration."""
    directory.mkdir()
    (directory / "train.py").write_text(train)
    (directory / "pyproject.toml").write_text(CONFIGURATION)
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "."],
        ["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "Train"],
    ):
        subprocess.run(["git", *command], cwd=directory, env={**os.environ, **AT_ONE_TIME}, check=True)
    return directory
