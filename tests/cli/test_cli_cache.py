"""`check --golden REF` learns a commit once, and again only when something that the golden depends on is another."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.config import load
from pytest_traincheck.golden import store
from pytest_traincheck.launch.cache import VARIABLE
from pytest_traincheck.launch.progress import quiet
from pytest_traincheck.launch.run import RunOutcome, RunRequest
from pytest_traincheck.workflow.check_against import check_live

STEP = "torch.optim.SGD.step"


def git(*arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *identity, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory outside of the repository."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(autouse=True)
def repository(project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project as a repository with one commit, on the branch `work`, and a cache of its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv(VARIABLE, str(outside / "cache"))
    git("init", "--quiet", "--initial-branch=main")
    (project / "train.py").write_text("golden")
    git("add", "--all")
    git("commit", "--quiet", "--message", "golden")
    git("checkout", "--quiet", "-b", "work")
    return project


def golden_runs(fake: Any) -> int:
    """How many golden runs there were since the last time this was asked."""
    count = sum(request.side == "golden" for request in fake.requests)
    fake.requests.clear()
    return count


def entries(outside: Path) -> list[Path]:
    return [path for path in (outside / "cache" / "goldens").iterdir() if path.is_dir()]


def test_the_second_check_of_a_commit_runs_the_candidate_alone(outside, fake, capsys):
    fake.broken = (STEP,)
    # Outside of the repository, where new files are part of the diff.
    cold_file, warm_file = outside / "cold.json", outside / "warm.json"
    assert main(["check", "--golden", "main", "--json", str(cold_file)]) == 1
    assert golden_runs(fake) == 3
    assert "came from the cache" not in capsys.readouterr().out
    assert main(["check", "--golden", "merge-base:main", "--json", str(warm_file)]) == 1
    assert golden_runs(fake) == 0
    printed = " ".join(capsys.readouterr().out.split())
    commit = git("rev-parse", "main")
    note = f"the golden of {commit[:12]} came from the cache, learned \\d+ seconds? ago; `--no-cache`"
    assert re.search(note, printed)
    cold, warm = (json.loads(file.read_text()) for file in (cold_file, warm_file))
    assert cold["golden"]["cached"] is None
    assert warm["golden"].pop("cached").endswith("+00:00")
    assert store.read(Path(warm["golden"]["path"])).commit == commit
    cold["golden"].pop("cached")
    for document in (cold, warm):
        document.pop("timing")
        document.pop("notes")
    assert cold == warm


def test_what_is_not_committed_never_reaches_the_golden(project, fake):
    seen: list[str] = []
    execute = fake.execute

    def look(request: RunRequest, progress: Any) -> RunOutcome:
        seen.append(f"{request.side}: {(request.cwd / 'train.py').read_text()}")
        return execute(request, progress)

    fake.execute = look
    (project / "train.py").write_text("edited")
    assert main(["check", "--golden", "HEAD"]) == 0
    assert seen == ["golden: golden"] * 3 + ["candidate: edited"]
    git("commit", "--quiet", "--all", "--message", "edited")
    (project / "train.py").write_text("edited again")
    seen.clear()
    assert main(["check", "--golden", "HEAD~1"]) == 0
    assert seen == ["candidate: edited again"]


@pytest.mark.parametrize(
    "change",
    [
        ("run = 'python train.py'", "run = 'python train.py --steps 9'"),
        ("seed_arg = '--seed {seed}'", "seed_arg = '--seed {seed}'\nseeds = [0, 1, 3]"),
        ("seed_arg = '--seed {seed}'", "seed_arg = '--seed {seed}'\nvary = ['--batch-size 16']"),
        ("seed_arg = '--seed {seed}'", "seed_arg = '--seed {seed}'\nenv = { WIDTH = '3' }"),
        ("seed_arg = '--seed {seed}'", "seed_arg = '-s {seed}'"),
        ("pipelines.net]", "pipelines.other]"),
    ],
)
def test_another_pipeline_is_learned_anew(project, fake, change):
    main(["check", "--golden", "main"])
    golden_runs(fake)
    config = project / "pyproject.toml"
    config.write_text(config.read_text().replace(*change))
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) >= 3


def test_a_timeout_or_an_exception_on_file_is_no_other_pipeline(project, fake):
    main(["check", "--golden", "main"])
    golden_runs(fake)
    with (project / "pyproject.toml").open("a") as config:
        config.write("timeout = 9\n[tool.traincheck.policy]\nSchedule = 'warn'\n")
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 0


def test_another_environment_is_learned_anew(fake, monkeypatch):
    main(["check", "--golden", "main"])
    golden_runs(fake)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 3


def test_another_commit_is_learned_anew_and_the_first_is_still_known(fake):
    main(["check", "--golden", "main"])
    git("commit", "--quiet", "--allow-empty", "--message", "next")
    golden_runs(fake)
    assert main(["check", "--golden", "HEAD"]) == 0
    assert golden_runs(fake) == 3
    assert main(["check", "--golden", "HEAD~1"]) == 0
    assert golden_runs(fake) == 0


def test_no_cache_learns_again_and_keeps_that(fake):
    main(["check", "--golden", "main"])
    golden_runs(fake)
    fake.rules = fake.rules[:2]
    assert main(["check", "--golden", "main", "--no-cache", "--json", "out.json"]) == 0
    assert golden_runs(fake) == 3
    assert main(["check", "--golden", "main", "--json", "out.json"]) == 0
    assert golden_runs(fake) == 0
    assert json.loads(Path("out.json").read_text())["invariants"]["golden"] == 2


@pytest.mark.parametrize("file", ["golden.jsonl", "entry.json"])
@pytest.mark.parametrize("damage", [b"", b"{}", b"[1", b"nonsense"])
def test_a_damaged_entry_is_learned_again_with_a_note(outside, fake, capsys, file, damage):
    main(["check", "--golden", "main"])
    golden_runs(fake)
    (entry,) = entries(outside)
    (entry / file).write_bytes(damage)
    capsys.readouterr()
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 3
    assert "the golden in the cache was damaged and was learned again" in " ".join(capsys.readouterr().out.split())
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 0


def test_a_rule_edited_in_the_cache_is_noticed(outside, fake):
    main(["check", "--golden", "main"])
    golden_runs(fake)
    (entry,) = entries(outside)
    text = (entry / "golden.jsonl").read_text()
    # A golden that can be read, and was not written like this.
    (entry / "golden.jsonl").write_text(text.replace("called once per step", "called twice per step"))
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 3


def test_a_cache_that_cannot_be_written_is_a_note(outside, fake, capsys, monkeypatch):
    (outside / "file").touch()
    monkeypatch.setenv(VARIABLE, str(outside / "file"))
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 3
    assert "the golden could not be kept for the next check" in " ".join(capsys.readouterr().out.split())


def test_a_golden_whose_run_failed_is_not_kept(outside, fake, capsys):
    fake.failing = lambda request: request.seed == 2
    assert main(["check", "--golden", "main"]) == 3
    assert "last line" in capsys.readouterr().out
    assert entries(outside) == []
    assert len(git("worktree", "list").splitlines()) == 1


def test_a_module_from_elsewhere_that_changed_is_noticed(outside, fake, capsys):
    """Another project, installed the editable way: its version stays while its code changes."""
    elsewhere = outside / "other" / "layers.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text("old")
    execute = fake.execute

    def importing(request: RunRequest, progress: Any) -> RunOutcome:
        outcome = execute(request, progress)
        (request.run_dir / "proc-1-1").mkdir(exist_ok=True)
        modules = {"modules": [str(elsewhere), str(request.cwd / "train.py")], "cwd": str(request.cwd)}
        (request.run_dir / "proc-1-1" / "meta.json").write_text(json.dumps(modules))
        return outcome

    fake.execute = importing
    main(["check", "--golden", "main"])
    main(["check", "--golden", "main"])
    assert golden_runs(fake) == 3
    elsewhere.write_text("new")
    capsys.readouterr()
    assert main(["check", "--golden", "main"]) == 0
    assert golden_runs(fake) == 3
    assert "layers.py has changed, which its runs import" in " ".join(capsys.readouterr().out.split())


def test_a_directory_is_never_kept(outside, fake):
    for _ in range(2):
        assert main(["check", "--golden", "golden"]) == 0
        assert golden_runs(fake) == 3
    assert not (outside / "cache" / "goldens").exists()


def test_two_checks_at_once_learn_a_golden_once(fake):
    """The second waits for the first, and then has the candidate's run alone to do."""
    execute, started = fake.execute, threading.Barrier(2)

    def slowly(request: RunRequest, progress: Any) -> RunOutcome:
        if request.side == "golden":
            time.sleep(0.1)
        return execute(request, progress)

    fake.execute = slowly

    def check() -> int:
        config = load(Path.cwd())
        started.wait(timeout=30)
        result = check_live(config, config.pipelines["net"], "main", quiet, engine=fake.engine())
        return len(result.incidents) + len(result.errors)

    with ThreadPoolExecutor(2) as pool:
        assert [future.result() for future in [pool.submit(check), pool.submit(check)]] == [0, 0]
    assert sum(request.side == "candidate" for request in fake.requests) == 2
    assert golden_runs(fake) == 3
