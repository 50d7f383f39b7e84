"""`traincheck selftest` as its options and exit statuses promise, with stand-ins for running and checking."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from junit_schema import assert_valid
from result_schema import assert_result

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.cli import main
from pytest_traincheck.config import load
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.jobs import Jobs
from pytest_traincheck.launch.progress import QuietProgress
from pytest_traincheck.launch.run import RunOutcome, RunRequest
from pytest_traincheck.mutants.catalogue import CENSUS, KINDS
from pytest_traincheck.report.selftest.terminal import render_selftest
from pytest_traincheck.workflow import selftest as workflow
from pytest_traincheck.workflow.engine import Engine

pytestmark = pytest.mark.usefixtures("project", "planted")

STEP = "torch.optim.SGD.step"
PLACES = {"loss-scaled": 8, "step-twice": 8, "dropout-off": 3, "scheduler-skipped": 2, "targets-shifted": 4}


@dataclass
class Planted:
    """A pipeline with places for five mistakes: found, fatal, overlooked, without effect and not reached."""

    fake: Any
    failing: Callable[[RunRequest], bool]
    breaks_its_golden: bool = False
    places: dict[str, int] = field(default_factory=lambda: dict(PLACES))
    found: tuple[str, ...] = ("loss-scaled",)
    overlooked: tuple[str, ...] = ("dropout-off",)
    unreached: tuple[str, ...] = ("targets-shifted",)

    def execute(self, request: RunRequest, progress: Callable[[float], None]) -> RunOutcome:
        self.fake.failing = self.failing
        outcome: RunOutcome = self.fake.execute(request, progress)
        made = self.places if request.mutant == CENSUS else {request.mutant: self.places.get(request.mutant, 0)}
        counts = {name: number for name, number in made.items() if name not in self.unreached or len(made) > 1}
        text = "".join(f"{number:>11} {name}\n" for name, number in counts.items() if number)
        (request.run_dir / "mutants-1-1.txt").write_text(text, encoding="utf-8")
        return outcome

    def load_run(self, run_dir: Path) -> Any:
        name = run_dir.name.removeprefix("mutant-")
        # Runs are alike when they have as many processes: these have none.
        processes = (SimpleNamespace(world_size=1),) if name in self.overlooked else ()
        return SimpleNamespace(name=name, processes=processes, left_out={})

    def check_run(self, golden: Golden, run: Any, *, same_spec: bool) -> CheckOutcome:
        self.fake.broken = (STEP,) if run.name in self.found or self.breaks_its_golden else ()
        outcome: CheckOutcome = self.fake.check_run(golden, run, same_spec=same_spec)
        return outcome

    @property
    def requests(self) -> list[RunRequest]:
        requests: list[RunRequest] = self.fake.requests
        return requests

    def engine(self, jobs: Jobs = 1) -> Engine:  # noqa: ARG002 - mutants have a pool of their own
        return Engine(self.execute, self.load_run, self.fake.learn, self.check_run)


@pytest.fixture
def planted(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Planted:
    planted = Planted(fake, lambda request: request.mutant == "step-twice")
    for room in ("cli", "workflow"):
        monkeypatch.setattr(sys.modules[f"pytest_traincheck.{room}.selftest"], "default_engine", planted.engine)
    return planted


def test_survivors_come_first_and_the_rate_counts_killed_and_survived(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selftest", "net", "--json", "result.json"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("net: passed - 2 of 3 mistakes killed (66 %), 1 of them by the run itself\n")
    order = ["dropout-off", "loss-scaled", "step-twice", "attention-mask-dropped", "scheduler-skipped"]
    places = [printed.index(name) for name in order]
    assert places == sorted(places)
    assert "Dropout drops nothing. The model overfits. Made in 3 places." in printed
    assert "torch.optim.SGD.step was never called" in printed
    result = json.loads((project / "result.json").read_text())
    assert_result(result, "selftest")
    assert result["kill_rate"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["survivors"] == ["dropout-off"]
    fates = {mutant["kind"]: mutant["fate"] for mutant in result["mutants"] if mutant["kind"] in PLACES}
    assert fates == {
        "loss-scaled": "killed",
        "step-twice": "did not finish",
        "dropout-off": "survived",
        "scheduler-skipped": "equivalent",
        "targets-shifted": "not applicable",
    }
    assert result["verdict"] == "pass"
    assert result["incidents"] == []
    killed = next(mutant for mutant in result["mutants"] if mutant["kind"] == "loss-scaled")
    assert killed["incident"]["subject"] == "torch.optim.SGD.step"
    assert len(result["mutants"]) == len(KINDS)


def test_only_mistakes_with_a_place_are_run(planted: Planted) -> None:
    main(["selftest", "net"])
    assert sorted(request.mutant for request in planted.requests) == sorted([CENSUS, *PLACES])
    assert {request.seed for request in planted.requests} == {0}


@pytest.mark.parametrize(
    ("floor", "status"), [("0.5", 0), ("0.66", 0), ("0.9", 1), ("90%", 1), ("90", 1), ("60%", 0), ("0", 0)]
)
def test_a_floor_decides_the_status(project: Path, floor: str, status: int) -> None:
    assert main(["selftest", "net", "--fail-under", floor, "--json", "result.json"]) == status
    assert json.loads((project / "result.json").read_text())["verdict"] == ("fail" if status else "pass")


@pytest.mark.parametrize("floor", ["-1", "101%", "most", "nan"])
def test_a_floor_that_is_no_share_is_wrong_use(floor: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["selftest", "net", f"--fail-under={floor}"])
    assert stopped.value.code == 2
    assert "is no share" in capsys.readouterr().err


def test_kinds_are_chosen_by_glob_and_by_group(planted: Planted) -> None:
    main(["selftest", "net", "--kinds", "loss-*", "--kinds", "schedules"])
    assert {request.mutant for request in planted.requests} == {CENSUS, "loss-scaled", "scheduler-skipped"}


def test_a_kind_that_does_not_exist_is_wrong_use(
    project: Path, planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["selftest", "net", "--kinds", "loss", "--json", "result.json"]) == 2
    assert "no kind of mistake fits 'loss'" in capsys.readouterr().err
    assert json.loads((project / "result.json").read_text())["verdict"] == "error"
    assert planted.requests == []


def test_a_pipeline_without_a_place_is_not_measured(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was tested, and that must not look like a gate that holds."""
    assert main(["selftest", "net", "--kinds", "ranks", "--json", "result.json"]) == 3
    assert "no mistake that was asked for has a place in it" in capsys.readouterr().out
    result = json.loads((project / "result.json").read_text())
    assert_result(result, "selftest")
    assert (result["verdict"], result["kill_rate"]) == ("error", 0)


def test_a_pipeline_that_breaks_its_golden_is_not_tested(planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    """With an incident of its own, every mutant would count as killed."""
    planted.breaks_its_golden = True
    assert main(["selftest", "net"]) == 1
    printed = " ".join(capsys.readouterr().out.split())  # however wide the terminal
    assert "without any mistake it has 1 incident already, so nothing was planted" in printed
    assert "traincheck check net" in printed
    assert [request.mutant for request in planted.requests] == [CENSUS]


def test_a_pipeline_that_does_not_run_is_an_error(planted: Planted) -> None:
    planted.failing = lambda request: request.mutant == CENSUS
    assert main(["selftest", "net"]) == 3


def test_without_a_golden_one_is_learned(project: Path, planted: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "golden_invariants" / "net.jsonl").unlink()
    assert main(["selftest", "net", "--kinds", "loss-scaled"]) == 0
    assert [request.mutant for request in planted.requests] == ["", "", "", CENSUS, "loss-scaled"]
    assert "was learned now" in " ".join(capsys.readouterr().out.split())


def test_all_kinds_are_listed_without_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["selftest", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "zero-grad-skipped\n      `zero_grad` is never called." in printed
    assert printed.count("\n  ") >= len(KINDS)


def test_reports_are_written(project: Path) -> None:
    arguments = ["selftest", "net", "--junit", "result.xml", "--html", "result.html", "--fail-under", "0.9"]
    assert main(arguments) == 1
    junit = (project / "result.xml").read_text()
    assert_valid(junit)
    # Every kind, and the pipeline without a mistake.
    assert f'tests="{len(KINDS) + 1}" failures="1"' in junit
    assert 'message="survived: Dropout drops nothing."' in junit
    page = (project / "result.html").read_text()
    assert page.index("Dropout drops nothing.") < page.index("loss-scaled")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_too_wide(project: Path, width: int) -> None:
    config = load(project)
    result = workflow.selftest(config, config.pipelines["net"], workflow.SelftestRequest(floor=0.9), QuietProgress())
    lines = render_selftest(result, width).plain.split("\n")
    assert max(map(len, lines)) <= width
    assert "90 % were asked for" in " ".join(" ".join(lines[:3]).split())


def test_giving_up_ends_the_runs_that_are_going(
    project: Path, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives in the main thread while runs are going in others; none of them may go on."""
    going = threading.Event()
    ended: list[str] = []

    class Interrupted(QuietProgress):
        def update(self, _seconds: float) -> None:
            if going.is_set():
                raise KeyboardInterrupt

    def endless(request: RunRequest, progress: Callable[[float], None]) -> RunOutcome:
        if request.mutant in ("", CENSUS):
            return Planted.execute(planted, request, progress)
        going.set()
        try:
            while True:
                time.sleep(0.01)
                progress(0.0)
        finally:
            ended.append(request.mutant)

    monkeypatch.setattr(planted, "execute", endless)
    config = load(project)
    with pytest.raises(KeyboardInterrupt):
        workflow.selftest(config, config.pipelines["net"], workflow.SelftestRequest(jobs=2), Interrupted())
    assert 1 <= len(ended) <= 2
    assert not any(thread.name.startswith("traincheck-mutant") for thread in threading.enumerate())
