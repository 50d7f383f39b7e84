"""Extends pytest-traincheck: a relation about checkpoints, a mistake with them, incidents as CSV, and a library."""

from pathlib import Path

from pytest_traincheck.api import Mistake
from traincheck_checkpoints.incidents_csv import IncidentsCsv
from traincheck_checkpoints.paperlib_known import FOCAL_LOSS, PAPERLIB
from traincheck_checkpoints.saved_last import SavedLast


def pytest_traincheck_relations():
    return [SavedLast()]


def pytest_traincheck_reporters():
    return [IncidentsCsv()]


def pytest_traincheck_mistakes():
    return [
        Mistake(
            "checkpoint-skipped",
            group="checkpoints",
            mistake="`torch.save` saves nothing.",
            meaning="What was learned is lost.",
            needs="call of `torch.save`",
            file=Path(__file__).with_name("planted.py"),
        )
    ]


def pytest_traincheck_observations():
    return [FOCAL_LOSS]


def pytest_traincheck_frameworks():
    return [PAPERLIB]
