"""`--traincheck-refresh`: learns instead of checking, and shows what changed."""

from __future__ import annotations

import pytest

from pytest_traincheck.testing import checks

pytest_plugins = ["pytester"]

CONFTEST = """
from dataclasses import replace
from pytest_traincheck.check.result import RunError
from pytest_traincheck.golden import store
from pytest_traincheck.golden.diff import diff, render_diff
from pytest_traincheck.testing import checks
from pytest_traincheck.workflow import RefreshReport

def refresh(config, spec, **options):
    path = store.golden_path(config.store, spec.name)
    if spec.name == "gan":
        return RefreshReport("gan", path, errors=(RunError("golden", "the golden run exited with 1", "Correct it."),))
    old = store.read(path)
    new = replace(old, invariants=old.invariants[:2])
    store.write(path, new)
    return RefreshReport("net", path, old, new, render_diff(diff(old, new)), changed=True)

checks.refresh = refresh
"""


@pytest.fixture
def refreshing(project, monkeypatch):
    monkeypatch.setattr(checks, "refresh", None)
    (project.root / "conftest.py").write_text(CONFTEST)
    return project


def test_diff_is_shown_and_a_failed_run_fails(refreshing):
    result = refreshing.run("--traincheck-refresh")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*= traincheck =*",
            "net: learned 2 rules, wrote *net.jsonl",
            "*Removed*",
            "*SGD.step is called once per step*",
        ]
    )
    result.stdout.fnmatch_lines(["FAILED *gan.jsonl::refresh - the golden run exited with 1"])
    assert refreshing.runs == []


def test_paths_that_are_typed_say_what_to_refresh(refreshing):
    refreshing.run("--traincheck-refresh", "tests").assert_outcomes(passed=1)
    refreshing.run("--traincheck-refresh", "golden_invariants/net.jsonl").assert_outcomes(passed=1)


def test_workers_send_the_diff_to_the_controller(refreshing):
    pytest.importorskip("xdist")
    result = refreshing.run_apart("--traincheck-refresh", "-n1")
    result.stdout.fnmatch_lines(["net: learned 2 rules, wrote *net.jsonl"])
