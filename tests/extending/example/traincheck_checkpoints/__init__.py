"""Extends pytest-traincheck: a relation about checkpoints, and incidents as CSV."""

from traincheck_checkpoints.incidents_csv import IncidentsCsv
from traincheck_checkpoints.saved_last import SavedLast


def pytest_traincheck_relations():
    return [SavedLast()]


def pytest_traincheck_reporters():
    return [IncidentsCsv()]
