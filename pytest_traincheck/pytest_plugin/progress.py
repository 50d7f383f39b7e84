"""What a session says of runs that take long: a line a minute, unless it is to be quiet."""

from __future__ import annotations

import threading

import pytest

from pytest_traincheck.launch.progress import LogProgress, Progress, quiet


class SessionProgress(LogProgress):
    """Lines between those of pytest, written by its own thread alone."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(self._put)
        self._config = config

    def changed(self, seconds: float) -> None:
        """Write the line when it is time for one."""
        if threading.current_thread() is threading.main_thread():
            super().changed(seconds)

    def _put(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if reporter is None or capture is None:
            return
        # It is an item that waits, and what an item prints is captured.
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(line)


def progress_of(config: pytest.Config) -> Progress:
    """That of a session; a worker of xdist has no terminal, and `-q` says that nobody wants to know."""
    if hasattr(config, "workerinput") or config.get_verbosity() < 0:
        return quiet
    return SessionProgress(config)
