"""The item that says whether golden's comparisons took place: it hides in no test that passed."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pytest_traincheck.check.result import CheckResult, Commands, Coverage, Parted, Warned
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations.replay import Repeats
from pytest_traincheck.rules.model import Invariant, Kind, Scope

pytest_plugins = ["pytester"]

NET = "golden_invariants/net.jsonl"
REPLAY = Invariant(
    "Replay", "Net", Repeats("module"), (), Scope.PINNED, Kind.NUMERIC, "every module returns what it did", 8, 1
)
WARNED = Warned(
    "coverage", "only 2 of 40 comparisons with the golden run took place; the runs first differ in step 0", "train.py:7"
)


@pytest.fixture
def replayed(project):
    """The project, whose golden compares numbers."""
    spec = PipelineSpec("net", "python train.py").fingerprint()
    golden = Golden("net", spec, (REPLAY,), seeds=(0, 1, 2), runs=3)
    store.write(store.golden_path(project.root / "golden_invariants", "net"), golden)
    return project


def looked_at(result: CheckResult, *warnings: Warned, made: int = 40) -> CheckResult:
    place = Parted("first batch: part 0 differs", 0, "train.py:7") if made < 40 else None
    return replace(result, coverage=Coverage(40, made, 1.0, True, place, 40 - made), warnings=warnings)


def test_it_is_known_before_anything_runs_where_a_golden_compares_numbers(replayed):
    listed = replayed.run("--traincheck", "--collect-only", "-q", NET).outlines
    assert [line for line in listed if "::" in line] == [f"{NET}::ran", f"{NET}::coverage", f"{NET}::Net"]


def test_it_passes_where_all_was_compared(replayed, results):
    replayed.set(looked_at(results["passed"]("net")), golden=False)
    replayed.run("--traincheck", f"{NET}::coverage").assert_outcomes(passed=1)


def test_a_warning_skips_it_with_the_reason_and_is_shown(replayed, results):
    replayed.set(looked_at(results["passed"]("net"), WARNED, made=2), golden=False)
    result = replayed.run("--traincheck", NET, "-rs", "--junitxml=junit.xml", "--traincheck-json=result.json")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "net: passed - * 1 warning",
            "warning:*only 2 of 40 comparisons with the golden run took place*At train.py:7.",
            "coverage:*2 of 40 comparisons with the golden run took place (5.0 %)",
            f"SKIPPED*{NET}:*warning: only 2 of 40 comparisons*",
        ]
    )
    case = next(case for case in ElementTree.parse(replayed.root / "junit.xml").iter("testcase")
                if case.get("name") == "coverage")  # fmt: skip
    assert case.find("skipped") is not None
    properties = {item.get("name"): item.get("value") for item in case.iter("property")}
    assert properties["traincheck_coverage"] == "2 of 40"


def test_under_strict_it_fails_with_the_commands(replayed, results):
    commands = Commands(("traincheck", "check", "net", "--strict"), ("traincheck", "refresh", "net"))
    failed = replace(looked_at(results["passed"]("net"), replace(WARNED, fails=True), made=2), commands=commands)
    replayed.set(failed, golden=False)
    result = replayed.run("--traincheck", NET)
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*reproduce: traincheck check net --strict", "if intended: traincheck refresh net"])
    result.stdout.fnmatch_lines([f"FAILED {NET}::coverage - only 2 of 40 comparisons*"])


def test_it_is_skipped_where_nothing_was_due(replayed, results):
    other = Coverage(40, 0, 1.0, True, Parted("seed 3 instead of 0"), 40, "seed 3 instead of 0")
    replayed.set(replace(results["passed"]("net"), coverage=other), golden=False)
    result = replayed.run("--traincheck", f"{NET}::coverage", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*not compared: seed 3 instead of 0"])
