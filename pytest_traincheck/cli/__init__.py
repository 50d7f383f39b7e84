"""The command `traincheck`: one module per command, each with `add` (its options) and `run` (its work)."""

from pytest_traincheck.cli.main import main

__all__ = ["main"]
