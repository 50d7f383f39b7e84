"""The pytest plugin: options, the `traincheck` fixture, and the switch that registers the rest when it is asked for.

Everything else lives in `pytest_traincheck.pytest_plugin` and is imported only then: a session without `--traincheck`
pays for this module and the names of its hooks.
"""

from __future__ import annotations

from argparse import SUPPRESS
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_traincheck import hookspecs

if TYPE_CHECKING:
    from pytest_traincheck.pytest_plugin.audit_fixture import Audit
    from pytest_traincheck.pytest_plugin.fixture import Traincheck


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("traincheck", "training invariants (pytest-traincheck)")
    group.addoption("--traincheck", action="store_true", help="run every configured pipeline and check its golden")
    group.addoption("--traincheck-golden", metavar="stored|REF", help="check against stored goldens, or a git ref")
    group.addoption(
        "--traincheck-no-cache", action="store_true", help="ignore the cache, and learn the golden of a git ref again"
    )
    group.addoption(
        "--traincheck-strict",
        action="store_true",
        help="fail, not warn, where the candidate cannot be compared with the golden run",
    )
    group.addoption("--traincheck-fail-fast", action="store_true", help="end a run at its first incident")
    group.addoption(
        "--traincheck-audit",
        action="store_true",
        help="as --traincheck, and hold each run against ready-made rules, too",
    )
    group.addoption("--traincheck-refresh", action="store_true", help="learn the goldens again instead of checking")
    group.addoption(
        "--traincheck-accept",
        action="append",
        metavar="ID",
        help="refresh: this incident is intended (its id, or the id or subject of its rule; repeatable)",
    )
    group.addoption("--traincheck-accept-all", action="store_true", help="refresh: all incidents are intended")
    group.addoption("--traincheck-pipeline", action="append", metavar="NAME", help="only this pipeline (repeatable)")
    group.addoption("--traincheck-html", metavar="FILE", help="write an HTML report")
    group.addoption("--traincheck-report", metavar="FILE", help=SUPPRESS)  # its name before; says so when it is used
    group.addoption("--traincheck-json", metavar="FILE", help="write the results as JSON")
    group.addoption(
        "--traincheck-write",
        action="append",
        metavar="NAME=FILE",
        help="write a report in a further format (repeatable)",
    )
    group.addoption("--traincheck-history", metavar="FILE", help="add a line to FILE, for `traincheck history`")
    group.addoption("--traincheck-artifacts", metavar="DIR", help="keep traces, goldens and results here")
    group.addoption(
        "--traincheck-jobs",
        metavar="N|auto",
        help="runs at a time; auto for what cores and memory allow (default: the configuration's, or 1)",
    )
    group.addoption(
        "--traincheck-github",
        choices=["auto", "on", "off"],
        help="job summary and annotations of GitHub Actions (default: auto, where GitHub runs this)",
    )
    parser.addini("traincheck", "as --traincheck", type="bool", default=False)
    parser.addini("traincheck_golden", "as --traincheck-golden", default="")
    parser.addini("traincheck_no_cache", "as --traincheck-no-cache", type="bool", default=False)
    parser.addini("traincheck_strict", "as --traincheck-strict", type="bool", default=False)
    parser.addini("traincheck_fail_fast", "as --traincheck-fail-fast", type="bool", default=False)
    parser.addini("traincheck_audit", "as --traincheck-audit", type="bool", default=False)
    parser.addini("traincheck_refresh", "as --traincheck-refresh", type="bool", default=False)
    parser.addini("traincheck_pipeline", "as --traincheck-pipeline", type="args", default=[])
    parser.addini("traincheck_html", "as --traincheck-html", default="")
    parser.addini("traincheck_report", "the name of traincheck_html before", default="")
    parser.addini("traincheck_json", "as --traincheck-json", default="")
    parser.addini("traincheck_write", "as --traincheck-write", type="linelist", default=[])
    parser.addini("traincheck_history", "as --traincheck-history", default="")
    parser.addini("traincheck_artifacts", "as --traincheck-artifacts", default="")
    parser.addini("traincheck_jobs", "as --traincheck-jobs", default="")
    parser.addini("traincheck_github", "as --traincheck-github", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "traincheck(pipeline): trains, and is checked against its golden or ready-made rules"
    )
    asked = ("traincheck", "traincheck_refresh", "traincheck_audit")
    if any(config.getoption(name) or config.getini(name) for name in asked):
        from pytest_traincheck.pytest_plugin.session import register

        register(config)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that train can be selected, or left out, with `-m`."""
    if not {"traincheck", "audit"}.isdisjoint(getattr(item, "fixturenames", ())):
        item.add_marker("traincheck")


@pytest.fixture
def traincheck(request: pytest.FixtureRequest) -> Iterator[Traincheck]:
    """Record training inside a test and check it against the stored golden.

    `with traincheck.pipeline("tiny_gpt", seed=0): train(steps=8)`
    """
    from pytest_traincheck.pytest_plugin.fixture import use

    yield from use(request)


@pytest.fixture
def audit(request: pytest.FixtureRequest) -> Iterator[Audit]:
    """Hold training inside a test against ready-made rules; the test fails for what breaks a law.

    `with audit(): train(steps=8)`
    """
    from pytest_traincheck.pytest_plugin.audit_fixture import use

    yield from use(request)
