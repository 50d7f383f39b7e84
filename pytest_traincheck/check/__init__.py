"""Checking: golden invariants against a run, and the violations explained as incidents."""

from pytest_traincheck.check.evaluate import CheckOutcome, check_run

__all__ = ["CheckOutcome", "check_run"]
