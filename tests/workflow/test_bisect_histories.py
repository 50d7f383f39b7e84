"""Bisecting real git histories, with stand-ins for training: what a commit does stands in its file `behaviour`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.result import Incident, InvariantVerdict, Verdict, Violation
from pytest_traincheck.config import load
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.launch.bisection import BisectError, Mark
from pytest_traincheck.launch.progress import quiet
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus
from pytest_traincheck.launch.sides import SideError
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerStep
from pytest_traincheck.report.bisect import BisectReport, document, render_end, render_tested
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.bisect import BisectRequest, EndFailed, bisect
from pytest_traincheck.workflow.engine import Engine

RULES = tuple(
    Invariant(
        "Count",
        name,
        PerStep(Called(name), "once"),
        (),
        Scope.TRANSFERABLE,
        Kind.BEHAVIOUR,
        f"{name} is called.",
        24,
        3,
    )
    for name in ("zero_grad", "step")
)


@dataclass
class Trainer:
    """A run does what `behaviour` says: `ok`, `crash`, `odd` (a rule cannot be judged), or names of broken rules."""

    ran: list[str] = field(default_factory=list)
    interrupt: bool = False

    def execute(self, request: RunRequest, progress: Callable[[float], None]) -> RunOutcome:
        progress(0.1)
        if self.interrupt and request.side == "candidate":
            raise KeyboardInterrupt
        behaviour = (request.cwd / "behaviour").read_text().strip()
        assert not (request.cwd / "leftover").exists(), "a run sees what an earlier one left"
        (request.cwd / "leftover").write_text("")
        self.ran.append(f"{request.side} {behaviour}")
        process = request.run_dir / "proc-1-1"
        process.mkdir(parents=True)
        (process / "meta.json").write_text(json.dumps({"versions": {}, "behaviour": behaviour}))
        if behaviour == "crash":
            return RunOutcome(request.run_dir, RunStatus.FAILED, 1, 0.1, "the run exited with 1", "Correct it.", "boom")
        return RunOutcome(request.run_dir, RunStatus.OK, 0, 0.1)

    def learn(self, runs: Sequence[Any], *, pipeline: str, spec: str, commit: str, environment: Mapping[str, str],
              seeds: tuple[int, ...], reason: str, varied: Sequence[Any] = (),
              repeated: Sequence[Any] = ()) -> Golden:  # fmt: skip
        assert not varied
        assert not repeated
        return Golden(pipeline, spec, RULES, commit, environment, seeds, len(runs), reason)

    def check_run(self, golden: Golden, run: Any, *, same_spec: bool) -> CheckOutcome:
        assert same_spec
        behaviour = json.loads((run.directory / "proc-1-1" / "meta.json").read_text())["behaviour"]
        broken = [rule for rule in golden.invariants if rule.subject in behaviour.split()]
        held = Verdict.NOT_TRIGGERED if behaviour == "odd" else Verdict.HELD
        verdicts = [InvariantVerdict(rule, Verdict.VIOLATED if rule in broken else held) for rule in golden.invariants]
        if behaviour == "odd":
            # The other rule came up, so that the run as a whole says something.
            verdicts[1] = InvariantVerdict(golden.invariants[1], Verdict.HELD)
        incidents = [
            Incident(rule.id, rank, Violation(rule, f"`{rule.subject}` is missing", "1", "0", 1, "train", (0,), 5))
            for rank, rule in enumerate(broken, start=1)
        ]
        return CheckOutcome(tuple(verdicts), tuple(incidents))

    @property
    def engine(self) -> Engine:
        return Engine(self.execute, _load_run, self.learn, self.check_run)  # type: ignore[arg-type]


def _load_run(run_dir: Path) -> Any:
    return SimpleNamespace(directory=run_dir, left_out={})


@dataclass
class History:
    """A repository whose commits are named by tags."""

    path: Path
    trainer: Trainer = field(default_factory=Trainer)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, name: str, behaviour: str) -> None:
        (self.path / "behaviour").write_text(behaviour + "\n")
        (self.path / "log").write_text(name)
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", f"Commit {name}")
        self.git("tag", name)

    def line(self, *behaviours: str) -> None:
        """Commits c0, c1, ... one after the other."""
        for number, behaviour in enumerate(behaviours):
            self.commit(f"c{number}", behaviour)

    def bisect(self, good: str, bad: str, told: list[str] | None = None) -> BisectReport:
        config = load(self.path)
        lines = [] if told is None else told
        return bisect(
            BisectRequest(config, config.pipelines["net"], good, bad, use_cache=False),
            quiet,
            lambda item: lines.append(item if isinstance(item, str) else render_tested(item)),
            self.trainer.engine,
        )

    def names(self, report: BisectReport) -> list[tuple[str, Mark]]:
        return [(item.commit.subject.removeprefix("Commit "), item.mark) for item in report.tested]

    def untouched(self) -> bool:
        trees = self.git("worktree", "list").splitlines()
        refs = self.git("for-each-ref", "refs/bisect")
        return len(trees) == 1 and not refs and not (self.path / ".git" / "worktrees").exists()


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "A. Person")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "person@example.invalid")
    path = tmp_path / "repository"
    path.mkdir()
    monkeypatch.chdir(path)
    (path / "traincheck.toml").write_text("[pipelines.net]\nrun = 'python train.py'\nseeds = [0]\n")
    history = History(path)
    history.git("init", "--quiet", "--initial-branch=main")
    return history


def test_the_first_bad_commit_of_a_line(history: History) -> None:
    history.line("ok", "ok", "ok", "ok", "zero_grad", "zero_grad", "zero_grad")
    told: list[str] = []
    report = history.bisect("c0", "c6", told)
    assert report.first_bad is not None
    assert report.first_bad.commit.subject == "Commit c4"
    assert report.first_bad.commit.author == "A. Person <person@example.invalid>"
    assert report.incident is not None
    assert report.incident.cause.title == "`zero_grad` is missing"
    assert len(report.tested) <= 5  # both ends, and half of what is left each time
    assert told[2] == "5 commits between them, about 3 to test"
    assert told[0].startswith(f"good  {report.good.short}  Commit c0\n")
    shown = render_end(report)
    assert shown.startswith(f"first bad commit: {history.git('rev-parse', 'c4')}\n  author:  A. Person")
    assert max(map(len, shown.splitlines())) <= 80
    # The golden is learned once; every commit is run once, and the good one a second time, to see that it is good.
    assert history.trainer.ran.count("golden ok") == 1
    assert len(history.trainer.ran) == 1 + len(report.tested)
    assert history.untouched()


def test_the_report_as_json(history: History) -> None:
    history.line("ok", "zero_grad step")
    content = json.loads(json.dumps(document(history.bisect("c0", "c1"))))
    assert content["first_bad"]["commit"] == history.git("rev-parse", "c1")
    assert content["first_bad"]["date"].startswith("20")
    assert content["incident"]["subject"] == "zero_grad"
    assert content["rule"] == RULES[0].id
    assert [item["verdict"] for item in content["tested"]] == ["good", "bad"]


def test_commits_that_do_not_run_are_skipped(history: History) -> None:
    history.line("ok", "ok", "ok", "crash", "zero_grad", "zero_grad", "zero_grad", "zero_grad")
    report = history.bisect("c0", "c7")
    if report.first_bad is not None:
        assert report.first_bad.commit.subject == "Commit c4"
    assert {name for name, mark in history.names(report) if mark is Mark.SKIP} <= {"c3"}


def test_with_only_skipped_commits_left_it_says_which_it_could_be(history: History) -> None:
    history.line("ok", "ok", "crash", "crash", "zero_grad")
    report = history.bisect("c0", "c4")
    assert report.first_bad is None
    assert {commit.subject for commit in report.possible} == {"Commit c2", "Commit c3", "Commit c4"}
    shown = render_end(report)
    assert shown.startswith("The first bad commit is one of 3: the rest is known, and 2 commits could not be\ntested.")
    assert f"  {report.possible[-1].short}  Commit c2" in shown
    assert [tested.reason for tested in report.tested if tested.mark is Mark.SKIP] == ["the run exited with 1"] * 2
    assert document(report)["first_bad"] is None
    assert len(document(report)["possible"]) == 3
    assert history.untouched()


def test_a_rule_that_cannot_be_judged_is_a_skip_and_no_verdict(history: History) -> None:
    history.line("ok", "odd", "zero_grad")
    report = history.bisect("c0", "c2")
    assert ("c1", Mark.SKIP) in history.names(report)
    assert {commit.subject for commit in report.possible} == {"Commit c1", "Commit c2"}


def test_another_incident_is_not_the_one(history: History) -> None:
    history.line("ok", "step", "step", "ok", "zero_grad", "zero_grad step")
    report = history.bisect("c0", "c5")
    assert report.first_bad is not None
    assert report.first_bad.commit.subject == "Commit c4"


def test_the_commit_on_a_merged_branch_is_found(history: History) -> None:
    history.commit("base", "ok")
    history.git("checkout", "--quiet", "-b", "side")
    history.commit("s1", "ok")
    history.commit("s2", "zero_grad")
    history.commit("s3", "zero_grad")
    history.git("checkout", "--quiet", "main")
    (history.path / "other").write_text("main goes on")
    history.git("add", "-A")
    history.git("commit", "--quiet", "-m", "Commit m1")
    history.git("merge", "--quiet", "--no-edit", "-m", "Merge side", "side")
    history.git("tag", "merged")
    report = history.bisect("base", "merged")
    assert report.first_bad is not None
    assert report.first_bad.commit.subject == "Commit s2"


def test_a_merge_that_brings_it_is_named_as_a_merge(history: History) -> None:
    history.commit("base", "ok")
    history.git("checkout", "--quiet", "-b", "side")
    (history.path / "side").write_text("1")
    history.git("add", "-A")
    history.git("commit", "--quiet", "-m", "Commit s1")
    history.git("checkout", "--quiet", "main")
    (history.path / "other").write_text("1")
    history.git("add", "-A")
    history.git("commit", "--quiet", "-m", "Commit m1")
    history.git("merge", "--quiet", "--no-commit", "side")
    history.commit("evil", "zero_grad")
    report = history.bisect("base", "evil")
    assert report.first_bad is not None
    assert report.first_bad.commit.subject == "Commit evil"
    assert "a merge of 2 commits" in render_end(report)


@pytest.mark.parametrize(
    ("good", "bad", "error", "message"),
    [
        ("c0", "c0", BisectError, "the same commit"),
        ("c2", "c0", BisectError, "Swap --good and --bad"),
        ("c0", "c1", BisectError, "breaks no rule of the golden of"),
        ("nowhere", "c1", SideError, "no git ref"),
        ("c0", "nowhere", SideError, "no git ref"),
        (".", "c1", SideError, "is a directory, and a bisect goes from commit to commit"),
        ("orphan", "c2", BisectError, "no common history"),
        ("fixed", "c2", BisectError, "it went away on the way to the good one"),
    ],
)
def test_ends_that_cannot_be_used(history: History, good: str, bad: str, error: type[Exception], message: str) -> None:
    history.line("ok", "ok", "zero_grad")
    history.git("checkout", "--quiet", "--orphan", "elsewhere")
    history.commit("orphan", "ok")
    history.git("checkout", "--quiet", "-b", "fix", "c2")
    history.commit("fixed", "ok")
    history.git("checkout", "--quiet", "-b", "later", "c2")
    history.commit("c3", "zero_grad")
    with pytest.raises(error, match=message):
        history.bisect(good, "c3" if good == "fixed" else bad)
    assert history.untouched()


def test_a_good_commit_that_is_bad_already(history: History) -> None:
    """Not the same twice: the golden is learned from runs that do what a run of the same commit then does not."""
    history.line("zero_grad", "zero_grad")
    with pytest.raises(BisectError, match="has incidents against its own golden, so it is bad already"):
        history.bisect("c0", "c1")
    assert history.untouched()


@pytest.mark.parametrize(("behaviours", "runs"), [(("ok", "crash"), 3), (("crash", "zero_grad"), 1)])
def test_an_end_that_does_not_run(history: History, behaviours: tuple[str, str], runs: int) -> None:
    from pytest_traincheck.workflow.runs import RunFailed

    history.line(*behaviours)
    with pytest.raises((EndFailed, RunFailed), match="exited with 1"):
        history.bisect("c0", "c1")
    assert len(history.trainer.ran) == runs
    assert history.untouched()


def test_the_users_own_tree_and_bisect_are_not_touched(history: History) -> None:
    history.line("ok", "ok", "zero_grad", "zero_grad")
    history.git("bisect", "start", "c3", "c0")
    (history.path / "behaviour").write_text("my own change, not committed")
    (history.path / "new").write_text("not tracked")
    before = (history.git("status", "--porcelain"), history.git("bisect", "log"), history.git("rev-parse", "HEAD"))
    report = history.bisect("c0", "c3")
    assert report.first_bad is not None
    assert report.first_bad.commit.subject == "Commit c2"
    assert before == (
        history.git("status", "--porcelain"), history.git("bisect", "log"), history.git("rev-parse", "HEAD")
    )  # fmt: skip
    assert len(history.git("worktree", "list").splitlines()) == 1


def test_an_interrupt_leaves_no_worktree(history: History) -> None:
    history.line("ok", "zero_grad")
    history.trainer.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        history.bisect("c0", "c1")
    assert history.untouched()


def test_commits_without_the_directory_of_the_configuration_are_skipped(history: History) -> None:
    history.line("ok")
    inner = history.path / "inner"
    inner.mkdir()
    (history.path / "traincheck.toml").rename(inner / "traincheck.toml")
    history.path = inner
    history.commit("c1", "ok")
    history.git("rm", "-r", "--quiet", "--cached", ".")
    history.git("commit", "--quiet", "-m", "Commit gone")
    history.commit("c2", "zero_grad")
    report = history.bisect("c1", "c2")
    assert ("gone", Mark.SKIP) in history.names(report)
