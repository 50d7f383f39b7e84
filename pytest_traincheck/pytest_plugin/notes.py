"""What a session that looked at everything can say beyond its results: goldens and exceptions that nobody needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.config import STORED, Config
from pytest_traincheck.pytest_plugin.settings import Settings
from pytest_traincheck.workflow.exceptions import needless, today
from pytest_traincheck.workflow.goldens import unused_goldens, unused_text

_PARTIAL = ("keyword", "markexpr", "deselect", "lf", "stepwise", "maxfail")
"""Options of pytest with which a session may leave things out."""


def is_complete(config: pytest.Config, settings: Settings) -> bool:
    """Whether every configured pipeline is part of this session."""
    partial = any(getattr(config.option, name, None) for name in _PARTIAL)
    return not partial and not settings.pipelines and not config.getoption("collectonly")


def notes(
    config: pytest.Config, loaded: Config, settings: Settings, used: Collection[str], results: Sequence[CheckResult]
) -> tuple[str, ...]:
    """Notes at the end of a complete session."""
    if (settings.golden or loaded.golden) != STORED and not settings.refresh:
        return needless(loaded, results, today())
    # Another test may be the one that uses a golden: only where all of them ran is it known that none does.
    typed = config.args_source is pytest.Config.ArgsSource.ARGS
    unused = unused_goldens(loaded, None if typed or not _all_ran(config) else used)
    return (
        *needless(loaded, results, today()),
        *unused_text(unused, config.invocation_params.dir, with_command=settings.refresh),
    )


def _all_ran(config: pytest.Config) -> bool:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return False
    unsure = [report for key in ("failed", "error", "skipped", "xfailed") for report in reporter.stats.get(key, ())]
    own = ("traincheck_pipeline", "traincheck_exception")
    return all(any(key in own for key, _ in getattr(report, "user_properties", ())) for report in unsure)
