"""`--jobs`: the runs of every command beside each other, and the results of one after another."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.golden import store
from pytest_traincheck.launch.run import RunOutcome, RunRequest
from pytest_traincheck.relations.stored import read_golden

if TYPE_CHECKING:
    from fake_engine import FakeEngine

CONFIGURATION = """
[tool.traincheck.pipelines.net]
run = 'python train.py'
seed_arg = '--seed {seed}'

[tool.traincheck.pipelines.gan]
run = 'python gan.py'
seed_arg = '--seed {seed}'
"""


@dataclass
class Meeting:
    """In place of training: each run waits until so many are under way, or for a second."""

    fake: FakeEngine
    most: int = 0
    going: int = 0

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._execute = self.fake.execute
        self.fake.execute = self.execute  # type: ignore[method-assign]

    def execute(self, request: RunRequest, progress: object) -> RunOutcome:
        with self._changed:
            self.going += 1
            self.most = max(self.most, self.going)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most > 1, timeout=0.5)
        try:
            return self._execute(request, progress)  # type: ignore[arg-type]
        finally:
            with self._changed:
                self.going -= 1


@pytest.fixture
def meeting(fake: FakeEngine, project: Path) -> Meeting:
    (project / "pyproject.toml").write_text(CONFIGURATION)
    golden = read_golden(project / "golden_invariants" / "net.jsonl")
    from dataclasses import replace

    from pytest_traincheck.config import PipelineSpec

    spec = PipelineSpec("gan", "python gan.py", seed_arg="--seed {seed}").fingerprint()
    store.write(project / "golden_invariants" / "gan.jsonl", replace(golden, pipeline="gan", spec=spec))
    return Meeting(fake)


COMMANDS = {
    "check": "check --json result.json",
    "check of a directory": "check --golden golden --json result.json",
    "refresh": "refresh --reason why",
    "compare": "compare --golden golden --candidate candidate --run python --json result.json --artifacts kept",
}


def _told(capsys: pytest.CaptureFixture[str]) -> str:
    return re.sub(r"\d+\.\d+ s\b", "s", capsys.readouterr().out)


@pytest.mark.parametrize("command", COMMANDS)
def test_they_meet_and_say_the_same(
    meeting: Meeting, command: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train.py", "gan.py"):
        (project / name).touch()
    stored = {path: path.read_bytes() for path in (project / "golden_invariants").glob("*.jsonl")}
    found = []
    for jobs in ("1", "2"):
        for path, content in stored.items():
            path.write_bytes(content)
        words = [*COMMANDS[command].split(), "--jobs", jobs]
        status = main(words)
        document = (project / "result.json").read_text() if "--json" in words else "{}"
        said = re.sub(r'"timing": \{[^}]*\}', "", document)
        kept = sorted(str(path.relative_to(project)) for path in (project / "kept").rglob("*"))
        found.append((status, _told(capsys), said, kept, {path: path.read_bytes() for path in stored}))
        assert meeting.most == int(jobs)
        meeting.most = 0
    assert found[0] == found[1]


def test_a_failing_seed_leaves_what_one_job_leaves(
    meeting: Meeting, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the runs behind it, nor the candidate, nor a golden."""
    meeting.fake.failing = lambda request: request.seed == 1 and request.side == "golden"
    for jobs in ("1", "3"):
        words = "--golden golden --candidate candidate --run python --artifacts"
        assert main(["compare", *words.split(), f"kept{jobs}", "--jobs", jobs]) == 3
        told = _told(capsys).replace(f"kept{jobs}", "kept")
        assert "exited with 1" in told
        assert not (project / f"kept{jobs}" / "pipeline" / "golden.jsonl").exists()
    stored = (project / "golden_invariants" / "net.jsonl").read_bytes()
    assert main(["refresh", "net", "--jobs", "2"]) == 3
    assert (project / "golden_invariants" / "net.jsonl").read_bytes() == stored


@pytest.mark.parametrize(("where", "most"), [("jobs = 2", 2), ("jobs = 1", 1)])
def test_the_configuration_says_how_many(meeting: Meeting, project: Path, where: str, most: int) -> None:
    (project / "pyproject.toml").write_text(f"[tool.traincheck]\n{where}\n{CONFIGURATION}")
    assert main(["check"]) == 0
    assert meeting.most == most


def test_a_pipeline_that_is_alone_meets_nobody(meeting: Meeting, project: Path) -> None:
    (project / "pyproject.toml").write_text(f"{CONFIGURATION}alone = true\n")
    assert main(["check", "-j", "2"]) == 0
    assert meeting.most == 1


@pytest.mark.parametrize("value", ["0", "-1", "some", "1.5", ""])
def test_what_is_no_number_of_runs_is_refused(project: Path, value: str, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    with pytest.raises(SystemExit) as leaving:
        main(["check", f"--jobs={value}"])
    assert leaving.value.code == 2
    assert "write a whole number above 0, or auto" in capsys.readouterr().err
