"""From a check result and real trees to the changed lines that a person reads beside the incident."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_traincheck.check.result import ChangedLines, CheckResult, Incident, Outcome, Violation
from pytest_traincheck.launch.sides import open_side, resolve_side
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerStep
from pytest_traincheck.report.terminal import render_result
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow import changed_lines
from pytest_traincheck.workflow.changed_lines import between_sides, since_golden

TRAIN = (
    "def train(model, optimizer):\n    for batch in data:\n        optimizer.zero_grad()\n        optimizer.step()\n"
)
BROKEN = TRAIN.replace("        optimizer.zero_grad()\n", "")
SHOWN = "@@ -1,4 +1,3 @@\n def train(model, optimizer):\n     for batch in data:\n-        optimizer.zero_grad()\n"


@pytest.fixture(autouse=True)
def _no_foreign_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "tester")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "tester@example.invalid")


def git(directory: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A good commit, tagged, and a branch on which `zero_grad` is gone and the notes have grown."""
    top = tmp_path / "project"
    (top / "jobs").mkdir(parents=True)
    (top / "golden_invariants").mkdir()
    git(top, "init", "--quiet", "--initial-branch=main")
    (top / "jobs" / "train.py").write_text(TRAIN)
    (top / "golden_invariants" / "job.jsonl").write_text("{}\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "good")
    git(top, "tag", "good")
    git(top, "checkout", "--quiet", "-b", "broken")
    (top / "jobs" / "train.py").write_text(BROKEN)
    (top / "jobs" / "notes.py").write_text("STEPS = 8\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "broken")
    return top


def failed(source: str = "train.py:3", subject: str = "torch.optim.AdamW.zero_grad") -> CheckResult:
    rule = Invariant(
        "Count", subject, PerStep(Called(subject), "once"), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, "", 9, 3
    )
    root = Violation(rule, "zero_grad is gone", "once", "never called", 1, "train", (0,), 5, source=source)
    return CheckResult("job", incidents=(Incident("id", 1, root),))


def diff_of(result: CheckResult) -> ChangedLines | None:
    assert result.outcome is Outcome.FAIL
    assert result.notes == ()
    return result.incidents[0].diff


def compared(repository: Path, golden: str, candidate: str, source: str = "train.py:3") -> ChangedLines | None:
    with (
        open_side(resolve_side(golden, repository / "jobs")) as old,
        open_side(resolve_side(candidate, repository / "jobs")) as new,
    ):
        return diff_of(between_sides(failed(source.replace("@", str(new.root))), old, new, new.path))


@pytest.mark.parametrize(("golden", "candidate"), [("good", "broken"), ("good", ".")], ids=["two refs", "working tree"])
def test_compare_shows_the_line_that_went(repository: Path, golden: str, candidate: str) -> None:
    diff = compared(repository, golden, candidate)
    assert diff is not None
    assert (diff.file, diff.how) == ("train.py", "same function")
    assert diff.hunk.startswith(SHOWN)


def test_what_is_not_committed_yet_is_part_of_the_candidate(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "good")
    (repository / "jobs" / "train.py").write_text(BROKEN)
    diff = compared(repository, "good", ".")
    assert diff is not None
    assert diff.hunk.startswith(SHOWN)


def test_compare_of_the_working_tree_with_a_later_commit(repository: Path) -> None:
    """Golden is what lies there, the candidate a ref: added and removed are not to be confused."""
    git(repository, "checkout", "--quiet", "good")
    diff = compared(repository, ".", "broken")
    assert diff is not None
    assert diff.hunk.startswith(SHOWN)


def test_compare_of_two_copies_that_no_repository_holds(tmp_path: Path) -> None:
    for name, text in (("a", TRAIN), ("b", BROKEN)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(text)
    with open_side(resolve_side("a", tmp_path)) as old, open_side(resolve_side("b", tmp_path)) as new:
        diff = diff_of(between_sides(failed(), old, new, new.path))
    assert diff is not None
    assert diff.hunk.startswith(SHOWN)


def test_two_folders_of_one_repository_are_two_trees(repository: Path) -> None:
    (repository / "old").mkdir()
    (repository / "old" / "train.py").write_text(TRAIN)
    with open_side(resolve_side("old", repository)) as old, open_side(resolve_side("jobs", repository)) as new:
        diff = diff_of(between_sides(failed(), old, new, new.path))
    assert diff is not None
    assert diff.hunk.startswith(SHOWN)


def test_a_file_outside_the_directory_of_the_run_is_named_from_there(repository: Path) -> None:
    """The probe names it by its whole path, which in a worktree is that of a temporary directory."""
    (repository / "lib.py").write_text("def step(optimizer):\n    optimizer.go()\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--amend", "-m", "broken")
    git(repository, "tag", "good2")
    (repository / "lib.py").write_text("def step(optimizer):\n    optimizer.run()\n")
    git(repository, "commit", "--quiet", "-am", "another")
    diff = compared(repository, "good2", "broken", "@/lib.py:2")
    assert diff is not None
    assert (diff.file, diff.how) == ("../lib.py", "contains the line")


def test_a_stored_golden_is_compared_with_the_commit_that_it_was_learned_from(repository: Path) -> None:
    golden = repository / "golden_invariants" / "job.jsonl"
    diff = diff_of(since_golden(failed(), git(repository, "rev-parse", "good"), golden, repository / "jobs"))
    assert diff is not None
    assert diff.hunk.startswith(SHOWN)


@pytest.mark.parametrize("commit", ["{good}-dirty", "0" * 40, ""], ids=["edited tree", "rebased away", "none"])
def test_a_golden_of_no_known_commit_is_compared_with_the_one_it_came_in_with(repository: Path, commit: str) -> None:
    golden = repository / "golden_invariants" / "job.jsonl"
    commit = commit.format(good=git(repository, "rev-parse", "good"))
    diff = diff_of(since_golden(failed(), commit, golden, repository / "jobs"))
    assert diff is not None
    assert diff.hunk.startswith(SHOWN)
    golden.write_text('{"edited": 1}\n')
    assert diff_of(since_golden(failed(), commit, golden, repository / "jobs")) is None


def test_where_there_is_no_repository_there_is_no_diff(tmp_path: Path) -> None:
    assert diff_of(since_golden(failed(), "abc", tmp_path / "job.jsonl", tmp_path)) is None


def test_a_diff_that_cannot_be_made_is_a_note_and_changes_no_verdict(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(changed_lines, "since_commit", broken)
    result = since_golden(failed(), "good", repository / "golden_invariants" / "job.jsonl", repository)
    assert (result.outcome, result.incidents) == (Outcome.FAIL, failed().incidents)
    assert "disk on fire" in result.notes[0]


def test_a_pass_costs_no_diff(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_lines, "find_repository", lambda _: pytest.fail("git was asked"))
    passed = replace(failed(), incidents=())
    assert since_golden(passed, "good", repository / "golden_invariants" / "job.jsonl", repository) == passed


def test_a_person_reads_it_below_the_incident(repository: Path) -> None:
    golden = repository / "golden_invariants" / "job.jsonl"
    text = render_result(since_golden(failed(), "good", golden, repository / "jobs"), 80).plain
    assert "   diff:      train.py, @@ -1,4 +1,3 @@ (same function)\n" in text
    assert "     -        optimizer.zero_grad()\n" in text
