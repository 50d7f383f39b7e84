"""`--traincheck-jobs`: the next pipelines are begun while the first is reported, and nothing that no item asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_traincheck.check.result import CheckResult

if TYPE_CHECKING:
    from conftest import Project

pytest_plugins = ["pytester"]

Results = dict[str, Callable[[str], CheckResult]]

# A check that takes until another one has begun, or until nobody wants it any more.
SLOW = """
import json, pathlib, time
from pytest_traincheck.check.serialise import from_plain
from pytest_traincheck.pytest_plugin import checks
from pytest_traincheck.workflow.overlap import Stopped, look

HERE = pathlib.Path(__file__).parent
LOG = HERE / "runs.log"

def say(text):
    with LOG.open("a") as log:
        log.write(f"{text}\\n")

def canned(config, spec, *arguments, **options):
    say(spec.name)
    waits = (HERE / f"{spec.name}.waits").read_text() if (HERE / f"{spec.name}.waits").exists() else ""
    deadline = time.monotonic() + 20
    try:
        while waits and waits not in LOG.read_text().split() and time.monotonic() < deadline:
            look()
            time.sleep(0.02)
    except Stopped:
        say(f"{spec.name}-stopped")
        raise
    say(f"{spec.name}-done")
    return from_plain(json.loads((HERE / f"{spec.name}.result").read_text()))

checks.check_stored = checks.check_live = canned
"""


@pytest.fixture
def slow(project: Project) -> Project:
    (project.root / "conftest.py").write_text(SLOW)
    return project


def _waits(project: Project, name: str, until: str) -> None:
    (project.root / f"{name}.waits").write_text(until)


def test_the_next_pipeline_runs_beside_the_first(slow: Project) -> None:
    _waits(slow, "net", "gan-done")
    result = slow.run("--traincheck", "--traincheck-jobs", "2", "-v")
    assert slow.runs[-1] == "net-done"
    assert sorted(slow.runs) == ["gan", "gan-done", "net", "net-done"]
    # Whoever was first, the report has them in the order of their items.
    result.stdout.fnmatch_lines(["*net.jsonl::ran PASSED*", "*gan.jsonl::ran PASSED*"])
    assert result.ret == 0


@pytest.mark.parametrize("how", ["default", "ini", "workers"])
def test_one_at_a_time_unless_it_is_asked_for(slow: Project, how: str) -> None:
    options = {"default": [], "ini": ["-o", "traincheck_jobs=2"], "workers": ["-n1", "--dist=loadfile"]}[how]
    if how == "workers":
        # A worker knows nothing of what is left to it.
        options += ["--traincheck-jobs", "2"]
    if how == "ini":
        _waits(slow, "net", "gan")
    run = slow.run_apart if how == "workers" else slow.run
    run("--traincheck", *options).assert_outcomes(passed=9)
    begins = slow.runs.index("gan") < slow.runs.index("net-done")
    assert begins if how == "ini" else slow.runs == ["net", "net-done", "gan", "gan-done"]


def test_the_configuration_says_how_many(slow: Project) -> None:
    file = slow.root / "pyproject.toml"
    file.write_text(file.read_text() + "\n[tool.traincheck]\njobs = 2\n")
    _waits(slow, "net", "gan-done")
    slow.run("--traincheck").assert_outcomes(passed=9)
    assert slow.runs[-1] == "net-done"


@pytest.mark.parametrize(
    "selection",
    [
        ["--deselect", "golden_invariants/gan.jsonl"],
        ["-k", "net"],
        ["--traincheck-pipeline", "net"],
        ["golden_invariants/net.jsonl"],
    ],
    ids=" ".join,
)
def test_a_pipeline_that_was_left_out_is_not_begun(slow: Project, selection: list[str]) -> None:
    result = slow.run("--traincheck", "--traincheck-jobs", "2", *selection)
    assert slow.runs == ["net", "net-done"]
    assert result.ret == 0


def test_a_pipeline_whose_items_are_skipped_is_not_begun(slow: Project) -> None:
    (slow.root / "conftest.py").write_text(
        SLOW
        + """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if "gan" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="not today"))
"""
    )
    slow.run("--traincheck", "--traincheck-jobs", "2").assert_outcomes(passed=5, skipped=4)
    assert slow.runs == ["net", "net-done"]


def test_the_first_failure_ends_what_runs_beside_it(slow: Project, results: Results) -> None:
    slow.set(results["failed"]("net"))
    _waits(slow, "net", "gan")
    _waits(slow, "gan", "never")
    result = slow.run("--traincheck", "--traincheck-jobs", "2", "-x")
    assert slow.runs[2:] == ["net-done", "gan-stopped"]
    result.assert_outcomes(failed=1, passed=2, skipped=1)
    # What nobody asked for is in no report.
    result.stdout.no_fnmatch_line("*gan:*")


def test_an_ordinary_test_has_the_process_for_itself(slow: Project) -> None:
    """Its threads and its handlers of signals are those that it would find without us."""
    (slow.root / "tests" / "test_other.py").write_text(
        "import signal, threading\n"
        "before = threading.active_count()  # other plugins may have some\n"
        "def test_other():\n"
        "    assert threading.active_count() == before\n"
        "    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
    )
    _waits(slow, "net", "gan-done")
    stores = ["golden_invariants/net.jsonl", "golden_invariants/gan.jsonl"]
    slow.run_apart(*stores, "tests", "--traincheck", "--traincheck-jobs", "2").assert_outcomes(passed=9)
    assert slow.runs[-1] == "net-done"
    (slow.root / "runs.log").unlink()
    _waits(slow, "net", "")
    between = [stores[0], "tests", stores[1]]
    slow.run_apart(*between, "--traincheck", "--traincheck-jobs", "2").assert_outcomes(passed=9)
    assert slow.runs == ["net", "net-done", "gan", "gan-done"]


def test_a_pipeline_that_breaks_does_not_stop_the_next(slow: Project) -> None:
    (slow.root / "net.result").write_text("no json")
    result = slow.run("--traincheck", "--traincheck-jobs", "2")
    result.assert_outcomes(passed=5, failed=1, skipped=3)
    assert "gan-done" in slow.runs


@pytest.mark.parametrize("value", ["0", "many", "-1", "1.5"])
def test_what_is_no_number_of_runs_is_refused(slow: Project, value: str) -> None:
    result = slow.run("--traincheck", f"--traincheck-jobs={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*traincheck_jobs is '{value}'. Write a whole number above 0, or auto.*"])
