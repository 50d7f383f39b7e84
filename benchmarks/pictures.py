"""Make the screenshots of docs/guides/report.md: real commands on the fixtures, opened in a headless Chromium.

python benchmarks/pictures.py                 all of them, eight minutes
python benchmarks/pictures.py refresh trace   some

`--keep DIR` leaves the pages and what they were made from there, and makes again only what is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chromium import browser
from small_png import smaller

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
LIMIT = 120_000
"""Bytes of a picture."""

MNIST = """\
[pipelines.mnist_cnn]
run = "python pipeline.py --steps 8"
seed_arg = "--seed {seed}"
"""
MAE = MNIST.replace("mnist_cnn", "mae").replace("pipeline.py", "mae.py")
TRAINER = """\
[pipelines.trainer]
run = "python trainer.py --documents 44"
seed_arg = "--seed {seed}"
"""

Make = Callable[[Path, Path], None]
"""Write a page to a file; the directory before it is empty."""


@dataclass(frozen=True)
class Shot:
    """How a page is looked at: from where on, how far, how wide, and in which scheme."""

    make: Make
    clip: str = ""
    most: int = 1500
    width: int = 1000
    dark: bool = False


def traincheck(directory: Path, *words: str) -> None:
    """Run a command; incidents are what most pictures show."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINCHECK_CACHE_DIR": str(directory.parent / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", *words], cwd=directory, env=environment, capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise SystemExit(f"traincheck {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def git(directory: Path, *words: str) -> None:
    identity = ["-c", "user.name=maintainers", "-c", "user.email=maintainers@localhost"]
    subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True)


def apply(name: str, directory: Path) -> Path:
    """A pipeline of the fixtures, with a bug where `name` is that of one."""
    subprocess.run([sys.executable, str(ROOT / "fixtures" / "apply.py"), name, str(directory)], check=True)
    return directory


def edit(file: Path, *changes: tuple[str, str]) -> None:
    """Replace texts that are there."""
    text = file.read_text(encoding="utf-8")
    for old, new in changes:
        if old not in text:
            raise SystemExit(f"{file} does not hold {old!r}")
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


def commit(project: Path, message: str) -> None:
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", message)


def repository(directory: Path, name: str, configuration: str, *, learn: bool = True) -> Path:
    """A repository with one pipeline and, where it is to `learn`, its golden."""
    project = apply(name, directory / name)
    (project / "traincheck.toml").write_text(configuration, encoding="utf-8")
    (project / ".gitignore").write_text("__pycache__\n", encoding="utf-8")
    git(project, "init", "--quiet", "--initial-branch", "main", ".")
    commit(project, "Train")
    if learn:
        traincheck(project, "refresh")
        commit(project, "Learn the golden")
    return project


def green(directory: Path, page: Path) -> None:
    traincheck(repository(directory, "mnist_cnn", MNIST), "check", "--html", str(page))


def one_incident(directory: Path, page: Path) -> None:
    project = repository(directory, "mnist_cnn", MNIST)
    shutil.copy(apply("01-missing-zero-grad", directory / "bug") / "pipeline.py", project)
    traincheck(project, "check", "--html", str(page))


def several_incidents(directory: Path, page: Path) -> None:
    project = repository(directory, "mnist_cnn", MNIST)
    edit(
        project / "pipeline.py",
        ("        optimizer.zero_grad()\n", ""),
        ("gamma=args.gamma", "gamma=0.95"),
        ("shuffle=True", "shuffle=False"),
    )
    traincheck(project, "check", "--html", str(page))


def compare(directory: Path, page: Path) -> None:
    golden, candidate = apply("seq2seq", directory / "golden"), apply("20-causal-mask-lost", directory / "candidate")
    traincheck(
        directory, "compare", "--golden", str(golden), "--candidate", str(candidate), "--name", "seq2seq",
        "--run", "python train.py --steps 8", "--seed-arg", "--seed {seed}", "--html", str(page),
    )  # fmt: skip


def selftest(directory: Path, page: Path) -> None:
    project = repository(directory, "mae", MAE)
    kinds = [word for kind in ("models", "gradients", "optimizers", "modes", "data") for word in ("--kinds", kind)]
    traincheck(project, "selftest", *kinds, "--html", str(page))


def upgrade(directory: Path, page: Path) -> None:
    project = directory / "trainer"
    project.mkdir()
    shutil.copy(ROOT / "fixtures" / "upgrades" / "trainer.py", project)
    (project / "traincheck.toml").write_text(TRAINER, encoding="utf-8")
    git(project, "init", "--quiet", "--initial-branch", "main", ".")
    commit(project, "Train on documents")
    traincheck(project, "upgrade", "--with", "transformers==4.45.2", "--html", str(page))


def bisect(directory: Path, page: Path) -> None:
    project = repository(directory, "mnist_cnn", MNIST, learn=False)
    script, notes = project / "pipeline.py", project / "NOTES.md"
    notes.write_text("Digits\n", encoding="utf-8")
    commit(project, "Take notes")
    edit(script, ("random seed (default: 0)", "seed of every generator (default: 0)"))
    commit(project, "Say what the seed is for")
    shutil.copy(apply("01-missing-zero-grad", directory / "bug") / "pipeline.py", script)
    commit(project, "Put the step into a function, and count images")
    for line in ("Try more epochs", "Try fewer"):
        notes.write_text(f"{line}\n", encoding="utf-8")
        commit(project, line)
    traincheck(project, "bisect", "mnist_cnn", "--good", "main~5", "--bad", "main", "--html", str(page))


def refresh(directory: Path, page: Path) -> None:
    project = repository(directory, "mnist_cnn", MNIST)
    backward = "        loss.backward()\n"
    edit(
        project / "pipeline.py",
        ('default=1.0, help="learning rate', 'default=0.5, help="learning rate'),
        (backward, f"{backward}        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"),
        ("self.dropout1 = nn.Dropout(0.25)", "self.dropout1 = nn.Dropout(0.1)"),
    )
    reason = "Half the rate, clipped gradients, less dropout"
    traincheck(project, "refresh", "--all", "--reason", reason, "--html", str(page))


def trace(directory: Path, page: Path) -> None:
    project = apply("ddp", directory / "ddp")
    command = ("--run", "torchrun --nproc-per-node 2 train.py --steps 8", "--output", str(directory / "run"))
    traincheck(project, "collect", *command)
    traincheck(project, "trace", str(directory / "run"), "--html", str(page))


def under_a_floor(directory: Path, page: Path) -> None:
    project = repository(directory, "mnist_cnn", MNIST)
    edit(project / "pipeline.py", ("    model = Net()", "    torch.rand(1)\n    model = Net()"))
    traincheck(project, "check", "--strict", "--html", str(page))


SHOTS = {
    "green-check": Shot(green, most=1420),
    "one-incident": Shot(one_incident, most=2610, dark=True),
    "several-incidents": Shot(several_incidents, ".section[id^=pictures]", most=1500),
    "compare": Shot(compare, ".section[id^=pictures]", most=1280),
    "selftest": Shot(selftest, most=1000),
    "upgrade": Shot(upgrade, most=1500),
    "bisect": Shot(bisect, most=1400),
    "refresh": Shot(refresh, most=1500),
    "trace": Shot(trace, most=1740, dark=True),
    "under-a-floor": Shot(under_a_floor, most=1900, width=390),
}
"""By the name of the picture."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SHOTS))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave pages there, and make what is missing")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in SHOTS]:
        parser.error(f"no picture is named {', '.join(unknown)}; there are {', '.join(SHOTS)}")
    with tempfile.TemporaryDirectory(prefix="traincheck-pictures-") as scratch, browser() as chromium:
        for name in arguments.names or SHOTS:
            shot = SHOTS[name]
            work = (arguments.keep or Path(scratch)).resolve() / name
            page = work / f"{name}.html"
            if not page.exists():
                shutil.rmtree(work, ignore_errors=True)
                (work / "files").mkdir(parents=True)
                shot.make(work / "files", page)
            visit = chromium.visit(page, width=shot.width, dark=shot.dark, clip=shot.clip, most=shot.most, top=20)
            data = smaller(visit.picture)
            (PICTURES / f"{name}.png").write_bytes(data)
            print(f"{name}: {len(data)} bytes" + (f", more than {LIMIT}" if len(data) > LIMIT else ""), flush=True)


if __name__ == "__main__":
    main()
