"""`traincheck init` in real repositories: from a script that nobody prepared to a golden."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.config import load

PLAIN = """\
import torch

rows = [line.split() for line in open("corpus/rows.txt")]
inputs = torch.tensor([[float(cell) for cell in row[:-1]] for row in rows])
wanted = torch.tensor([int(row[-1]) for row in rows])
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
while True:
    chosen = torch.randperm(len(rows))[:8]
    sgd.zero_grad()
    torch.nn.functional.cross_entropy(net(inputs[chosen]), wanted[chosen]).backward()
    sgd.step()
"""

OPTIONS = """\
import argparse
import random

import torch

cli = argparse.ArgumentParser()
cli.add_argument("--epochs", type=int, default=40)
cli.add_argument("--batch-size", type=int, default=64)
cli.add_argument("--seed", type=int, default=0)
cli.add_argument("--weights", default="weights.pt")
given = cli.parse_args()
if given.seed:
    torch.manual_seed(given.seed)
net = torch.nn.Linear(4, 1)
adam = torch.optim.Adam(net.parameters())
for epoch in range(given.epochs):
    for batch in torch.randn(24, 4).split(given.batch_size):
        adam.zero_grad()
        net(batch).pow(2).mean().backward()
        adam.step()
torch.save(net.state_dict(), given.weights)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("TRAINCHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return root


def commit(root: Path, *, leave: str = "") -> None:
    (root / ".gitignore").write_text(leave)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)


def status(root: Path) -> list[str]:
    words = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]


def worktrees(root: Path) -> int:
    words = ["git", "-C", str(root), "worktree", "list"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.count("\n")


def document(root: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((root.parent / "init.json").read_text())
    return found


@pytest.mark.sweep
@pytest.mark.slow
def test_a_script_with_options(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "train.py").write_text(OPTIONS)
    (repository / "pyproject.toml").write_text("[project]\nname = 'demo'  # ours\n")
    commit(repository)
    # Weeks of training, which no check may write over.
    (repository / "weights.pt").write_bytes(b"precious")
    assert main(["init", "--json", str(repository.parent / "init.json")]) == 0
    said = capsys.readouterr().out
    assert (repository / "weights.pt").read_bytes() == b"precious"
    assert sorted(line[3:] for line in status(repository) if "weights" not in line) == [
        "golden_invariants/train.jsonl",
        "golden_invariants/train.linux-x86_64-cpu.npz",
        "pyproject.toml",
    ]
    assert worktrees(repository) == 1
    config = load(repository)
    spec = config.pipelines["train"]
    assert spec.run == "python train.py --epochs 2 --batch-size 8 --weights {tmp}/weights.pt"
    assert (spec.seed_arg, spec.seeds, spec.steps) == ("--seed {seed}", (1, 2, 3), None)
    assert (repository / "pyproject.toml").read_text().startswith("[project]\nname = 'demo'  # ours\n")
    assert "at the second try" in said
    assert "differ" not in said, "the seed was taken for none"
    assert "caught" in said
    assert "git add pyproject.toml golden_invariants" in said
    found = document(repository)
    assert found["verdict"] == "pass"
    assert found["trial"]["steps"] == 6  # type: ignore[index]
    assert found["mistake"] == {"kind": "zero-grad-skipped", "fate": "killed"}
    assert main(["check"]) == 0
    # What there is is not written over.
    capsys.readouterr()
    before = (repository / "pyproject.toml").read_bytes()
    assert main(["init"]) == 2
    assert main(["init", "train.py"]) == 2
    assert "the pipeline `train` runs train.py already" in capsys.readouterr().err
    assert (repository / "pyproject.toml").read_bytes() == before


@pytest.mark.slow
def test_a_script_without_any(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "study").mkdir()
    (repository / "study" / "main.py").write_text(PLAIN)
    commit(repository, leave="corpus/\n")
    (repository / "corpus").mkdir()
    rows = "".join(f"{n % 3} {n % 5} {n % 7} {n % 2}\n" for n in range(40))
    (repository / "corpus" / "rows.txt").write_text(rows)
    assert main(["init", "--no-golden", "--json", str(repository.parent / "init.json")]) == 0
    said = capsys.readouterr().out
    spec = load(repository).pipelines["study"]
    assert (spec.run, spec.steps, spec.seed_by, spec.link) == ("python study/main.py", 8, "probe", ("corpus",))
    for subject in ("no seed", "no step limit", "data"):
        assert f"note   {subject}" in said
    assert "traincheck refresh study" in said
    assert not (repository / "golden_invariants").exists()
    assert document(repository)["rules"] is None


@pytest.mark.slow
def test_a_script_that_fails(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "train.py").write_text(OPTIONS.replace("adam = ", "print('almost'); missing.optimizer\nadam = "))
    commit(repository)
    assert main(["init"]) == 3
    said = capsys.readouterr().out
    assert "NameError: name 'missing' is not defined" in said
    assert "traincheck init train.py -- ..." in said
    assert status(repository) == []
    assert worktrees(repository) == 1


@pytest.mark.slow
def test_files_that_it_would_write_over(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not committed, so that it would be learned in place, and no option says where it writes."""
    (repository / "train.py").write_text(OPTIONS.replace("given.weights)", "'last.pt')"))
    (repository / "last.pt").write_bytes(b"precious")
    assert main(["init"]) == 3
    assert "runs would write over `last.pt`" in capsys.readouterr().out
    assert (repository / "last.pt").read_bytes() == b"precious"
    assert sorted(path.name for path in repository.iterdir()) == ["last.pt", "train.py"]


@pytest.mark.slow
def test_a_command_without_a_training(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "train.py").write_text(OPTIONS)
    assert main(["init", "--", "python", "-c", "import torch; print(torch.ones(1))"]) == 3
    assert "nothing was trained" in capsys.readouterr().out
    assert [path.name for path in repository.iterdir()] == ["train.py"]


def test_a_dry_run_says_what_would_be_done(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "train.py").write_text(OPTIONS)
    assert main(["init", "--dry-run", "--name", "small"]) == 0
    said = capsys.readouterr().out
    assert "[pipelines.small]" in said
    assert 'run = "python train.py --epochs 2 --batch-size 8"' in said
    assert [path.name for path in repository.iterdir()] == ["train.py"]


def test_nothing_to_find(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "hello.py").write_text("print('hello')\n")
    assert main(["init"]) == 2
    assert "no program that trains was found" in capsys.readouterr().err
    assert main(["init", "hello.py"]) == 2
    assert "hello.py: no training was found in it" in capsys.readouterr().err
    assert main(["init", "nowhere.py"]) == 2
    assert "is no file below" in capsys.readouterr().err


def test_what_only_the_user_knows(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "train.py").write_text(
        OPTIONS.replace('"--weights", default="weights.pt"', '"--corpus", required=True')
    )
    assert main(["init"]) == 2
    said = capsys.readouterr().err
    assert "does not start without `--corpus`" in said
    assert "traincheck init train.py -- --corpus ..." in said
    assert main(["init", "train.py", "--dry-run", "--", "--corpus", "my rows", "--epochs=3"]) == 0
    assert "run = \"python train.py --batch-size 8 --corpus 'my rows' --epochs=3\"" in capsys.readouterr().out


def test_a_name_that_is_taken(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "train.py").write_text(OPTIONS)
    (repository / "traincheck.toml").write_text("[pipelines.other]\nrun = 'sh other.sh'\n")
    assert main(["init", "--name", "other"]) == 2
    assert "there is a pipeline or a golden called `other`" in capsys.readouterr().err
