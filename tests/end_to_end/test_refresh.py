"""A change was intended: what a refresh accepts, and how small the git diff of the golden is that a reviewer reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GOLDEN = "golden_invariants/net.jsonl"

TRAIN = """
import argparse
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
torch.manual_seed(parser.parse_args().seed)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
inputs, labels = torch.randn(48, 8), torch.randint(3, (48,))
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs[8 * step : 8 * step + 8]), labels[8 * step : 8 * step + 8])
    loss.backward()
    optimizer.step()
    scheduler.step()
model.eval()
with torch.no_grad():
    model(inputs)
"""

CHANGES = {
    "learning rate": [("lr=0.1", "lr=0.05")],
    "learning rate and decay": [("lr=0.1", "lr=0.05"), ("gamma=0.5", "gamma=0.1")],
    "clipping": [
        ("    optimizer.step()", "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()"),
    ],
    "layer": [
        ("        self.second", "        self.middle = nn.Linear(16, 16)\n        self.second"),
        ("torch.relu(self.first(x))", "torch.relu(self.middle(torch.relu(self.first(x))))"),
    ],
    "optimizer": [("torch.optim.SGD(model.parameters(), lr=0.1)", "torch.optim.AdamW(model.parameters(), lr=0.1)")],
}


class Project:
    """A repository with one pipeline and its golden."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        (path / "train.py").write_text(TRAIN)
        (path / "traincheck.toml").write_text(
            '[pipelines.net]\nrun = "python train.py"\nseed_arg = "--seed {seed}"\nseeds = [0]\n'
        )
        (path / ".gitignore").write_text("__pycache__/\n.traincheck*\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("the pipeline")

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *names, *arguments], cwd=self.path, check=True, capture_output=True, text=True, env=_environment()
        )
        return done.stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_traincheck", *arguments],
            cwd=self.path,
            capture_output=True,
            text=True,
            env=_environment(),
            timeout=600,
            check=False,
        )

    def changed_on_branch(self, name: str) -> None:
        self.git("checkout", "--quiet", "--force", "-B", name.replace(" ", "-"), "main")
        text = TRAIN
        for old, new in CHANGES[name]:
            assert old in text
            text = text.replace(old, new)
        (self.path / "train.py").write_text(text)
        self.commit(name)

    def changed_lines(self) -> tuple[list[str], list[str]]:
        """The lines of the golden that are gone, and those that are new; the header is the first of each."""
        lines = self.git("diff", "--unified=0", "--", GOLDEN).splitlines()
        gone = [line[1:] for line in lines if line.startswith("-") and not line.startswith("---")]
        come = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
        return gone, come


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTEST_", "COV_"))}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, "COLUMNS": "80"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("refresh") / "project")
    learned = project.call("refresh")
    assert learned.returncode == 0, learned.stdout + learned.stderr
    project.commit("the golden")
    return project


def refreshed(project: Project, *arguments: str) -> tuple[list[str], list[str]]:
    done = project.call("refresh", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    gone, come = project.changed_lines()
    assert gone[0].startswith('{"format"')
    assert come[0].startswith('{"format"')
    before = {json.loads(line)["id"] for line in gone[1:]}
    # A line is another only where its claim is.
    assert not before & {json.loads(line)["id"] for line in come[1:]}
    return gone[1:], come[1:]


@pytest.fixture(scope="module")
def rate(project: Project) -> str:
    """The id of the other learning rate, as a refresh says it that is refused."""
    project.changed_on_branch("learning rate")
    refused = project.call("refresh", "net", "--reason", "slower")
    assert refused.returncode == 1
    assert project.git("status", "--porcelain") == ""
    command = refused.stdout.split("intended: ")[1].splitlines()[0]
    assert command.startswith("traincheck refresh net --accept ")
    return command.split()[4]


def test_a_learning_rate_is_refused_until_it_is_accepted_and_changes_what_speaks_of_it(
    project: Project, rate: str
) -> None:
    project.changed_on_branch("learning rate")
    gone, come = refreshed(project, "net", "--accept", rate, "--reason", "slower")
    # The value; the schedule is told by it.
    assert [json.loads(line)["relation"] for line in gone] == ["Hyperparameter"]
    assert [json.loads(line)["relation"] for line in come] == ["Hyperparameter"]
    assert project.call("check").returncode == 0


def intended(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The ids that a refresh which was refused says how to accept."""
    assert done.returncode == 1, done.stdout + done.stderr
    return [line.split("--accept ")[1].split()[0] for line in done.stdout.splitlines() if "--accept " in line]


def test_a_rate_and_its_schedule_are_accepted_each_by_itself(project: Project, rate: str) -> None:
    project.changed_on_branch("learning rate and decay")
    both = intended(project.call("refresh", "net"))
    assert len(both) == 2
    assert rate in both
    (decay,) = set(both) - {rate}
    for accepted, other in ((rate, decay), (decay, rate)):
        refused = project.call("refresh", "net", "--accept", accepted)
        assert refused.returncode == 1
        assert f"--accept {accepted} --accept {other}" in refused.stdout
        assert project.git("status", "--porcelain") == ""
    gone, _ = refreshed(project, "net", "--accept", rate, "--accept", decay)
    assert [json.loads(line)["relation"] for line in gone] == ["Hyperparameter", "Schedule"]


@pytest.mark.sweep
def test_an_acceptance_is_for_the_rate_that_was_shown(project: Project, rate: str) -> None:
    """On file as well as in a refresh: what was said of 0.05 says nothing of 0.0001."""
    project.changed_on_branch("learning rate")
    assert project.call("check").returncode == 1
    terms = ("--owner", "vision", "--reason", "tuned", "--expires", "2099-01-31")
    assert project.call("accept", rate, *terms).returncode == 0
    assert 'value = "0.05"' in (project.path / "traincheck.toml").read_text()
    assert project.call("check").returncode == 0

    script = project.path / "train.py"
    script.write_text(script.read_text().replace("lr=0.05", "lr=0.0001"))
    other = project.call("check")
    assert other.returncode == 1
    text = " ".join(other.stdout.split())
    assert "`torch.optim.SGD(lr)` was 0.1 in the golden run and is 0.0001 in the candidate." in text
    assert "vision accepted 0.05 for" in text
    unknown = project.call("refresh", "net", "--accept", rate)
    assert unknown.returncode == 2
    assert "names no incident" in unknown.stdout + unknown.stderr


def test_clipping_adds_lines_about_clipping_and_touches_no_other(project: Project) -> None:
    project.changed_on_branch("clipping")
    gone, come = refreshed(project)  # nothing is broken by what is added, so nothing needs to be accepted
    assert gone == []
    assert come
    assert {json.loads(line)["subject"] for line in come} == {"torch.nn.utils.clip_grad_norm_"}


def test_a_layer_changes_the_header_and_what_counts_parameters(project: Project) -> None:
    project.changed_on_branch("layer")
    gone, come = refreshed(project, "--accept-all")
    # The number of parameters that a loss reaches, and the names of those that begin at random; and one rule more, as
    # the new layer is large enough to tell from which distribution it is drawn.
    assert len(gone) == 2
    assert len(come) == 3
    assert all("parameters" in line or "`middle." in line for line in come)


def test_another_optimizer_changes_what_names_it(project: Project) -> None:
    project.changed_on_branch("optimizer")
    former = (project.path / GOLDEN).read_text()
    gone, come = refreshed(project, "--accept-all")
    assert all("SGD" in line for line in gone)
    assert all("AdamW" in line for line in come)
    assert len(gone) == sum("SGD" in line for line in former.splitlines()[1:])
    text = project.call("diff", _former(project, former), GOLDEN).stdout
    assert "`AdamW[Net]` takes the place of `SGD[Net]`" in text
    assert max(map(len, text.splitlines())) <= 80


def test_other_libraries_and_the_same_behaviour_change_the_header_alone(project: Project) -> None:
    """The golden as an older torch would have left it."""
    project.git("checkout", "--quiet", "--force", "-B", "upgrade", "main")
    path = project.path / GOLDEN
    header, _, rules = path.read_text().partition("\n")
    content = json.loads(header)
    content["environment"]["torch"] = "2.5.0"
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n" + rules)
    project.commit("an older torch")
    assert refreshed(project) == ([], [])
    # The numbers too are the same to the last bit, since the same was run.
    assert project.git("status", "--porcelain").split() == ["M", GOLDEN]


def _former(project: Project, text: str) -> str:
    path = project.path.parent / "former.jsonl"
    path.write_text(text)
    return str(path)
