"""A golden commit runs its own code though the working tree is installed the editable way in the same interpreter.

One repository holds packages in four layouts: flat, below `src/`, a namespace, and a project of its own further down
that setuptools installs by an import hook. Each gets a mistake in the working tree, and each must be found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
# Older ones need a second package for an editable install.
pytest.importorskip("setuptools", minversion="70.1")
pytest.importorskip("hatchling")

ROOT = Path(__file__).parents[2]

FILES = {
    "train.py": """\
import argparse
import torch
import flatnet, srcnet, acme.vision, hooked

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
torch.manual_seed(parser.parse_args().seed)
model = acme.vision.model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    flatnet.clear(optimizer)
    loss = hooked.loss(model(torch.randn(16, 6)), torch.randint(3, (16,)))
    loss.backward()
    srcnet.update(optimizer, step)
""",
    "flatnet/__init__.py": "def clear(optimizer):\n    optimizer.zero_grad()\n",
    "src/srcnet/__init__.py": "def update(optimizer, step):\n    optimizer.step()\n",
    "src/acme/vision/__init__.py": """\
import torch


def model():
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    return net
""",
    "libs/hooked/hooked/__init__.py": """\
from torch.nn.functional import cross_entropy


def loss(output, target):
    return cross_entropy(output, target)
""",
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "several-nets"
version = "1"

[tool.hatch.build]
dev-mode-dirs = ["src", "."]

[tool.hatch.build.targets.wheel]
packages = ["flatnet", "src/srcnet", "src/acme"]
""",
    "libs/hooked/pyproject.toml": """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "hooked"
version = "1"

[tool.setuptools]
packages = ["hooked"]
""",
}

# Where each mistake is: what is replaced by what, and a word of the incident that it must bring.
MISTAKES = {
    "flatnet/__init__.py": ("optimizer.zero_grad()", "pass", "zero_grad"),
    "src/srcnet/__init__.py": ("optimizer.step()", "None if step == 1 else optimizer.step()", "step"),
    "src/acme/vision/__init__.py": ("return net", "net[0].weight.requires_grad_(False)\n    return net", "0.weight"),
    "libs/hooked/hooked/__init__.py": ("(output, target)\n", "(output, target, reduction='sum')\n", "sum"),
}  # fmt: skip


@dataclass(frozen=True)
class Project:
    """The repository, and an interpreter in which its working tree is installed."""

    path: Path

    def git(self, *arguments: str) -> None:
        names = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *names, *arguments], cwd=self.path, check=True, capture_output=True, env=environment())

    def spoil(self, name: str) -> None:
        old, new, _ = MISTAKES[name]
        text = (self.path / name).read_text()
        assert text.count(old) >= 1
        head, _, tail = text.rpartition(old)
        (self.path / name).write_text(head + new + tail)

    def restore(self) -> None:
        self.git("checkout", "--quiet", "--", ".")

    def check(self, report: Path, golden: str = "merge-base:main") -> subprocess.CompletedProcess[str]:
        arguments = ["-m", "pytest_traincheck", "check", "--golden", golden, "--json", str(report)]
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            env=environment(),
            timeout=300,
            check=False,
        )


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_", "COV_"))}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "COLUMNS": "100"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    top = tmp_path_factory.mktemp("own-code")
    interpreter = top / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(top / "venv")], check=True)
    # torch and the build backends are those of this interpreter.
    site = next((top / "venv" / "lib").glob("python*/site-packages"))
    (site / "shared.pth").write_text("".join(f"{entry}\n" for entry in sys.path if "site-packages" in entry))
    path = top / "project"
    for name, text in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    with (path / "pyproject.toml").open("a") as config:
        config.write(
            f"\n[tool.traincheck]\npython = {json.dumps(str(interpreter))}\n"
            "[tool.traincheck.pipelines.net]\nrun = 'python train.py'\nseed_arg = '--seed {seed}'\nseeds = [0]\n"
        )
    (path / ".gitignore").write_text("__pycache__/\n*.egg-info/\nbuild/\n")
    project = Project(path)
    project.git("init", "--quiet", "--initial-branch=main")
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "right")
    project.git("checkout", "--quiet", "-b", "work")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(interpreter), "install"]
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, *options, "-e", str(path), "-e", str(path / "libs/hooked")], check=True, env=environment())
    assert list(site.glob("__editable___hooked_*_finder.py")), "setuptools chose another way than an import hook"
    return project


@pytest.fixture(autouse=True)
def _clean(project: Project) -> Iterator[None]:
    yield
    project.restore()


def test_every_layout(project: Project, tmp_path: Path) -> None:
    for name in MISTAKES:
        project.spoil(name)
    # The golden is learned while the working tree, which is what is installed, has all of them.
    found = project.check(tmp_path / "found.json")
    assert found.returncode == 1, found.stdout + found.stderr
    incidents = json.loads((tmp_path / "found.json").read_text())["incidents"]
    for name, (_, _, word) in MISTAKES.items():
        said = [f"{item['title']} {item['candidate']} {item['variables']}" for item in incidents]
        assert any(word in text for text in said), f"{name}: {said}"


def test_a_file_that_only_the_working_tree_has_is_an_error(project: Project, tmp_path: Path) -> None:
    """The golden commit finds it where its script looks; compared would be the candidate with itself."""
    script = project.path / "train.py"
    project.git("checkout", "--quiet", "-b", "leak")
    script.write_text(f"import sys; sys.path.append({str(project.path)!r}); import late\n{script.read_text()}")
    project.git("commit", "--quiet", "--all", "--message", "import what is not committed")
    (project.path / "late.py").write_text("")
    try:
        refused = project.check(tmp_path / "refused.json", golden="HEAD")
    finally:
        (project.path / "late.py").unlink()
        project.git("checkout", "--quiet", "work")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    (error,) = json.loads((tmp_path / "refused.json").read_text())["errors"]
    assert error["side"] == "golden"
    assert f"imported {project.path / 'late.py'} from {project.path}, the other side's tree" in error["message"]
