"""The `traincheck` fixture in ordinary tests; recording and rules are stand-ins, the way through is real."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from pytest_traincheck.check.result import Coverage, Parted, Verdict
from pytest_traincheck.golden import store
from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.pytest_plugin import fixture

pytest_plugins = ["pytester"]

CONFTEST = """
import contextlib, json, pathlib
import pytest_traincheck.probe
from pytest_traincheck.check.result import InvariantVerdict, Verdict
from pytest_traincheck.check.serialise import from_plain
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.pytest_plugin import fixture
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.engine import Engine

HERE = pathlib.Path(__file__).parent
SEEN = []
MEASURED = []

@contextlib.contextmanager
def observe(run_dir, seed=None, extensions=None):
    (run_dir / "proc-1-1").mkdir()
    (run_dir / "proc-1-1" / "meta.json").write_text('{"platform": "linux-x86_64-cpu"}')
    yield

def load_run(run_dir):
    if (HERE / "untrained").exists():
        raise TraceError("nothing was trained: no optimizer step; train at least two steps")
    return run_dir

def check_run(golden, run, *, same_spec):
    SEEN.append(same_spec)
    MEASURED.append((golden.platform, *golden.numbers))
    return from_plain(json.loads((HERE / "net.result").read_text()))

def learn(runs, *, pipeline, spec, commit, environment, seeds, reason):
    return Golden(pipeline, spec, (), commit, environment, seeds, len(runs), reason)

pytest_traincheck.probe.observe = observe
fixture.default_engine = lambda: Engine(None, load_run, learn, check_run)
"""


@pytest.fixture
def in_process(project, monkeypatch):
    import pytest_traincheck.probe

    monkeypatch.setattr(pytest_traincheck.probe, "observe", None)
    monkeypatch.setattr(fixture, "default_engine", None)
    (project.root / "conftest.py").write_text(CONFTEST)
    return project


def write_test(project, body):
    (project.root / "tests" / "test_net.py").write_text(
        f"from conftest import MEASURED, SEEN\ndef test_net(traincheck):\n{body}"
    )


BLOCK = "    with traincheck.pipeline('net'):\n        pass\n"


def test_passes_when_every_rule_holds(in_process):
    write_test(in_process, BLOCK)
    in_process.run("tests/test_net.py").assert_outcomes(passed=1)


def test_fails_with_the_incident_and_no_internals(in_process, results):
    in_process.set(results["failed"]("net"))
    write_test(in_process, BLOCK)
    result = in_process.run("tests/test_net.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "1. zero_grad was never called",
            "reproduce: pytest tests/test_net.py::test_net",
            "if intended: pytest --traincheck-refresh tests/test_net.py::test_net --traincheck-accept abc",
        ]
    )
    assert "fixture.py" not in result.stdout.str()


@pytest.mark.filterwarnings("default")  # those of the session within, which warns as a user's does
def test_what_could_not_be_compared_is_a_warning_of_the_test_and_fails_it_under_strict(in_process, results):
    place = Parted("first batch: part 0 differs", 0, "test_net.py:7")
    in_process.set(replace(results["passed"]("net"), coverage=Coverage(40, 2, 1.0, True, place, 38)))
    write_test(in_process, BLOCK)
    result = in_process.run("tests/test_net.py")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*CoverageWarning: net:*only 2 of 40 comparisons*first batch: part 0 differs*"])
    result = in_process.run("tests/test_net.py", "--traincheck-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["net: the training cannot be compared with its golden"])


def test_a_test_in_which_no_rule_could_be_checked_fails(in_process, results):
    idle = [replace(item, verdict=Verdict.NOT_OBSERVABLE) for item in results["passed"]("net").verdicts]
    in_process.set(replace(results["passed"]("net"), verdicts=tuple(idle)))
    write_test(in_process, BLOCK)
    result = in_process.run("tests/test_net.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*none of 3 rules of the golden could be checked*"])


def test_the_commands_are_for_where_pytest_was_started(in_process, results, monkeypatch):
    in_process.set(results["failed"]("net"))
    write_test(in_process, BLOCK)
    monkeypatch.chdir(in_process.root / "tests")
    result = in_process.run("test_net.py")
    result.stdout.fnmatch_lines(["reproduce: pytest test_net.py::test_net"])


def test_each_test_keeps_what_it_recorded(in_process, results):
    in_process.set(results["failed"]("net"))
    write_test(in_process, BLOCK + f"def test_other(traincheck):\n{BLOCK}")
    in_process.run("tests/test_net.py", "--traincheck-artifacts=kept").assert_outcomes(failed=2)
    kept = sorted(path.name.rpartition("-")[0] for path in (in_process.root / "kept").iterdir())
    assert kept == ["net-test_net", "net-test_other"]
    for directory in (in_process.root / "kept").iterdir():
        assert json.loads((directory / "result.json").read_text())["commands"]["accept"].startswith("pytest ")
        assert (directory / "candidate" / "proc-1-1" / "meta.json").is_file()


def test_artifacts_that_cannot_be_kept_are_one_message(in_process, results):
    in_process.set(results["passed"]("net"))
    (in_process.root / "kept").write_text("a file")
    write_test(in_process, BLOCK)
    result = in_process.run("tests/test_net.py", "--traincheck-artifacts=kept")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["No artifacts can be kept in *kept*Give a directory that can be written."])
    assert "fixture.py" not in result.stdout.str()


def test_works_under_traincheck_too(in_process, results):
    in_process.set(results["failed"]("net"))
    write_test(in_process, BLOCK)
    in_process.run("--traincheck", "-k", "test_net").assert_outcomes(failed=1, deselected=9)


def test_works_where_nothing_is_configured(in_process):
    (in_process.root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    write_test(in_process, BLOCK)
    in_process.run("--traincheck", "tests/test_net.py").assert_outcomes(passed=1)


def test_exception_of_the_block_goes_on_unchanged(in_process):
    write_test(in_process, "    with traincheck.pipeline('net'):\n        raise LookupError('mine')\n")
    result = in_process.run("tests/test_net.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * LookupError: mine"])
    assert "fixture.py" not in result.stdout.str()


def test_without_a_golden_the_failure_names_the_remedy(in_process):
    write_test(in_process, BLOCK.replace("net", "new"))
    result = in_process.run("tests/test_net.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["new: there is no golden at *new.jsonl.", "*pytest --traincheck-refresh *"])


def test_name_cannot_lead_out_of_the_store(in_process):
    write_test(in_process, BLOCK.replace("net", "../net"))
    result = in_process.run("tests/test_net.py", "--traincheck-refresh")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["The pipeline name '../net' cannot be*"])


def test_nothing_trained_is_a_failure(in_process):
    (in_process.root / "untrained").touch()
    write_test(in_process, BLOCK)
    result = in_process.run("tests/test_net.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["net: nothing was trained*"])


def test_pinned_rules_apply_only_to_goldens_learned_in_process(in_process):
    write_test(in_process, BLOCK + "    assert SEEN == [False]\n")
    in_process.run("tests/test_net.py").assert_outcomes(passed=1)


def test_refresh_learns_the_runs_of_one_name_together(in_process):
    body = "    for seed in range(3):\n        with traincheck.pipeline('new'):\n            pass\n"
    write_test(in_process, body)
    in_process.run("tests/test_net.py", "--traincheck-refresh").assert_outcomes(passed=1)
    golden = store.read(in_process.root / "golden_invariants" / "new.jsonl")
    assert (golden.runs, golden.spec) == (3, "in-process:new")
    write_test(in_process, body + "    assert SEEN == [True, True, True]\n")
    in_process.run("tests/test_net.py").assert_outcomes(passed=1)


def test_refresh_refuses_what_nobody_said_was_meant(in_process, results):
    in_process.set(results["failed"]("net"))
    path = in_process.root / "golden_invariants" / "net.jsonl"
    before = path.read_bytes()
    write_test(in_process, BLOCK)
    refused = in_process.run("tests/test_net.py", "--traincheck-refresh")
    refused.assert_outcomes(passed=1, errors=1)
    refused.stdout.fnmatch_lines(
        ["*intended: pytest --traincheck-refresh tests/test_net.py::test_net --traincheck-accept abc"]
    )
    assert path.read_bytes() == before
    in_process.run("tests/test_net.py", "--traincheck-refresh", "--traincheck-accept", "abc").assert_outcomes(passed=1)
    assert path.read_bytes() != before


def test_refresh_writes_nothing_when_the_block_raised(in_process):
    write_test(in_process, "    with traincheck.pipeline('new'):\n        raise LookupError('mine')\n")
    in_process.run("tests/test_net.py", "--traincheck-refresh").assert_outcomes(failed=1)
    assert not (in_process.root / "golden_invariants" / "new.jsonl").exists()


def test_the_numbers_of_this_platform_are_used(in_process):
    path = in_process.root / "golden_invariants" / "net.jsonl"
    golden = replace(store.read(path), spec=fixture.in_process_spec("net"))
    for platform, name in (("linux-x86_64-cpu", "here"), ("linux-x86_64-cuda-h100", "elsewhere")):
        numbers = {name: Numbers(("loss",), np.array([1.0]), np.array([2.0]))}
        store.write(path, replace(golden, platform=platform, numbers=numbers))
    write_test(in_process, BLOCK + "    assert MEASURED == [('linux-x86_64-cpu', 'here')]\n")
    in_process.run("tests/test_net.py").assert_outcomes(passed=1)
