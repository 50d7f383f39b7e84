"""`--traincheck-refresh`: learns instead of checking, refuses what nobody said was meant, writes all or nothing."""

from __future__ import annotations

import json

import pytest

from pytest_traincheck.check.serialise import to_plain
from pytest_traincheck.golden import locks, store
from pytest_traincheck.pytest_plugin import checks

pytest_plugins = ["pytester"]

CONFTEST = """
import json, pathlib
from dataclasses import replace
from pytest_traincheck.check.serialise import from_plain
from pytest_traincheck.golden import store
from pytest_traincheck.pytest_plugin import checks
from pytest_traincheck.workflow.refresh import Relearned, described

HERE = pathlib.Path(__file__).parent

def relearn(config, spec, **options):
    path = store.golden_path(config.store, spec.name)
    result = from_plain(json.loads((HERE / f"{spec.name}.result").read_text()))
    if result.errors:
        return Relearned(spec.name, path, result)
    old = store.read(path)
    new = replace(old, invariants=old.invariants[:2])
    return described(path, old, new, result=result, reason="", notes=())

checks.relearn = relearn
"""

NET, GAN = "golden_invariants/net.jsonl", "golden_invariants/gan.jsonl"


@pytest.fixture
def refreshing(project, monkeypatch):
    monkeypatch.setattr(checks, "relearn", None)
    (project.root / "conftest.py").write_text(CONFTEST)
    return project


def rules(project, path):
    return len(store.read(project.root / path).invariants)


def test_both_goldens_are_learned_and_the_difference_is_shown(refreshing):
    result = refreshing.run("--traincheck-refresh")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*= traincheck =*",
            "net: learned 2 rules, wrote *net.jsonl",
            "*Removed*",
            "*SGD.step is called once per step*",
            "gan: learned 2 rules, wrote *gan.jsonl",
        ]
    )
    assert (rules(refreshing, NET), rules(refreshing, GAN)) == (2, 2)
    assert refreshing.runs == []


def test_a_run_that_failed_leaves_all_goldens_as_they_were(refreshing, results):
    refreshing.set(results["crashed"]("gan"))
    result = refreshing.run("--traincheck-refresh")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["net: learned 2 rules, wrote nothing", "*nothing was written: the refresh of gan failed"]
    )
    result.stdout.fnmatch_lines(["FAILED *gan.jsonl::refresh - the candidate run*exited with 1"])
    assert (rules(refreshing, NET), rules(refreshing, GAN)) == (3, 3)


def test_incidents_are_refused_with_the_commands_that_accept_them(refreshing, results):
    refreshing.set(results["failed"]("net"))
    result = refreshing.run("--traincheck-refresh")
    result.assert_outcomes(passed=2, failed=1)
    command = "pytest --traincheck-refresh --traincheck-pipeline net --traincheck-accept abc"
    result.stdout.fnmatch_lines(["*zero_grad was never called*", "*Nothing was written.", f"*intended: {command}"])
    assert (rules(refreshing, NET), rules(refreshing, GAN)) == (3, 3)
    assert refreshing.run(*command.split()[1:]).ret == 0
    assert (rules(refreshing, NET), rules(refreshing, GAN)) == (2, 3)


@pytest.mark.parametrize("words", [["--traincheck-accept-all"], ["--traincheck-accept", "torch.optim.Optimizer.*"]])
def test_what_is_meant_is_learned_and_named_in_the_block(refreshing, results, words):
    refreshing.set(results["failed"]("net"))
    result = refreshing.run("--traincheck-refresh", *words)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["[*][*]Accepted[*][*]: 1 incident*", "- `abc` zero_grad was never called"])


def test_an_acceptance_that_names_nothing_is_wrong_use(refreshing, results):
    refreshing.set(results["failed"]("net"))
    result = refreshing.run("--traincheck-refresh", "--traincheck-accept", "abc", "--traincheck-accept", "nonsense")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*'nonsense' is to be accepted and names no incident*", "*abc  net: zero_grad*"])
    assert (rules(refreshing, NET), rules(refreshing, GAN)) == (3, 3)


def test_a_session_that_stops_early_writes_nothing(refreshing):
    (refreshing.root / "tests" / "test_other.py").write_text("def test_other():\n    assert False\n")
    result = refreshing.run("--traincheck-refresh", "-x", "golden_invariants/net.jsonl", "tests")
    result.stdout.fnmatch_lines(["*nothing was written: the session was stopped before its end"])
    assert rules(refreshing, NET) == 3


def test_another_refresh_is_waited_for_and_named(refreshing, monkeypatch):
    monkeypatch.setattr(locks, "REFRESH_TIMEOUT_S", 0.05)
    with locks.refreshing(refreshing.root / "golden_invariants", "traincheck refresh net", lambda _holder: None):
        result = refreshing.run("--traincheck-refresh")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*process * (traincheck refresh net, since *) has been refreshing them*"])


def test_paths_that_are_typed_say_what_to_refresh(refreshing):
    refreshing.run("--traincheck-refresh", "tests").assert_outcomes(passed=1)
    refreshing.run("--traincheck-refresh", "golden_invariants/net.jsonl").assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.sweep
def test_workers_learn_and_the_controller_writes(refreshing, results):
    pytest.importorskip("xdist")
    result = refreshing.run_apart("--traincheck-refresh", "-n2", "--dist", "loadfile")
    result.stdout.fnmatch_lines(["gan: learned 2 rules, wrote *gan.jsonl", "net: learned 2 rules, wrote *net.jsonl"])
    assert (rules(refreshing, NET), rules(refreshing, GAN)) == (2, 2)
    (refreshing.root / "net.result").write_text(json.dumps(to_plain(results["failed"]("net"))))
    result = refreshing.run_apart("--traincheck-refresh", "-n2", "--dist", "loadfile")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*nothing was written: the refresh of net failed"])
