"""`traincheck audit` on real scripts, which have no golden and mostly no configuration."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from audited_script import audited, laws
from small_training import TRAIN

from pytest_traincheck.cli import main

pytestmark = pytest.mark.slow

LEFT_OVER = "gradients-left-over"
ENDLESS = TRAIN.replace("range(args.steps)", "range(10**9)")
WRONG = ENDLESS.replace("    optimizer.zero_grad()\n", "")
ALLOW = f"[[audit.allow]]\nlaw = '{LEFT_OVER}'\nreason = 'a sum over all batches is wanted'\nowner = 'team'\n"


TIED_LATE = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Embedding(12, 8), nn.GELU(), nn.Linear(8, 12, bias=False))
net.load_state_dict({name: value.clone() for name, value in net.state_dict().items()})
net[2].weight = net[0].weight
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    tokens = torch.randint(12, (5, 6))
    loss = nn.functional.cross_entropy(net(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


SEARCHES_A_RATE = """\
import copy
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)


def step():
    given = torch.randn(8, 6)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(given), given[:, :3].argmax(1))
    loss.backward()
    optimizer.step()
    return loss.item()


before = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict())
found = []
for exponent in range(4):
    optimizer.param_groups[0]["lr"] = 10.0 ** (exponent - 4)
    found.append((step(), 10.0 ** (exponent - 4)))
net.load_state_dict(before[0])
optimizer.load_state_dict(before[1])
optimizer.param_groups[0]["lr"] = min(found)[1]
for _ in range(6):
    step()
"""

REPLACES_THE_HEAD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.head = nn.Linear(8, 10)

    def forward(self, given):
        return self.head(self.body(given).mean(1))


torch.manual_seed(0)
pretrained = Net()
net = Net()
net.load_state_dict(pretrained.state_dict())
net.head = nn.Linear(8, 4)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(torch.randn(5, 3, 8)), torch.randint(4, (5,))).backward()
    optimizer.step()
"""

GROWS = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(8):
    if step in (2, 4):
        layer = nn.Linear(6, 6)
        nn.init.eye_(layer.weight)
        nn.init.zeros_(layer.bias)
        net.insert(0, layer)
        optimizer.add_param_group({"params": layer.parameters()})
    given = torch.randn(8, 6)
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(given), (given[:, 0] > 0).long()).backward()
    optimizer.step()
"""


STEPS_IN_BACKWARD = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}


def move(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(move)
for _ in range(6):
    given = torch.randn(8, 6)
    nn.functional.cross_entropy(net(given), given[:, :3].argmax(1)).backward()
"""


def audit(directory: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "train.py").write_text(script)
    words = [sys.executable, "-m", "pytest_traincheck", "audit", "--json", "found.json", *arguments]
    return subprocess.run([*words, "--", "python", "train.py"], cwd=directory, capture_output=True, text=True)


def document(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((directory / "found.json").read_text())
    return content


def test_right_code_passes_after_eight_steps_of_many(tmp_path: Path) -> None:
    done = audit(tmp_path, ENDLESS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = document(tmp_path)
    assert (found["verdict"], found["steps"], found["incidents"]) == ("pass", 8, [])
    assert found["laws"]["held"] > 10
    assert found["laws"]["broken"] == 0
    assert "8 training steps, torch" in done.stdout


@pytest.mark.parametrize(
    "script",
    [SEARCHES_A_RATE, REPLACES_THE_HEAD, GROWS],
    ids=["a search for a learning rate", "a head for other classes", "layers that are added"],
)
def test_right_code_that_begins_again_replaces_or_adds_is_silent(tmp_path: Path, script: str) -> None:
    assert laws(audited(tmp_path, script)) == []


def test_parameters_that_were_made_after_the_optimizer_are_in_none(tmp_path: Path) -> None:
    begin, end = GROWS.split("for step in")[0], GROWS.split("    given = ")[1]
    made_later = f"{begin}net[2] = nn.Linear(6, 2)\nfor step in range(8):\n    given = {end}"
    found = audited(tmp_path, made_later)
    assert found.errors[0].rule.id == "parameter-in-no-optimizer"


def test_weights_that_are_tied_after_the_model_was_loaded_are_right(tmp_path: Path) -> None:
    assert laws(audited(tmp_path, TIED_LATE)) == []
    cut_loose = "net[2].weight = nn.Parameter(net[0].weight.detach().clone())"
    done = audit(tmp_path, TIED_LATE.replace("net[2].weight = net[0].weight", cut_loose), "--strict")
    assert done.returncode == 1, done.stdout + done.stderr
    assert [item["law"] for item in document(tmp_path)["incidents"]] == ["weights-begin-alike"]


@pytest.mark.parametrize("clearing", [".zero_grad()", ".zero_grad(set_to_none=False)"])
def test_optimizers_that_step_and_clear_within_the_backward_pass_are_right(tmp_path: Path, clearing: str) -> None:
    assert laws(audited(tmp_path, STEPS_IN_BACKWARD.replace(".zero_grad()", clearing))) == []


def test_gradients_that_are_left_over_within_the_backward_pass_are_found(tmp_path: Path) -> None:
    found = audited(tmp_path, STEPS_IN_BACKWARD.replace("    optimizers[parameter].zero_grad()\n", ""))
    assert found.errors[0].rule.id == LEFT_OVER


def test_a_mistake_is_told_in_every_format(tmp_path: Path) -> None:
    done = audit(tmp_path, WRONG, "--junit", "j.xml", "--html", "h.html", "--github", "on", "--steps", "3")
    assert done.returncode == 1, done.stdout + done.stderr
    incident = document(tmp_path)["incidents"][0]
    assert (incident["level"], incident["law"], incident["step"]) == ("error", LEFT_OVER, 1)
    assert incident["source"] == "train.py:15"
    assert incident["why"]
    assert incident["link"].startswith("https://docs.pytorch.org/")
    assert f"1. error {LEFT_OVER}: " in done.stdout
    said = " ".join(done.stdout.split())
    assert f'[[tool.traincheck.audit.allow]] law = "{LEFT_OVER}" reason = "..."' in said
    assert f"::error title=traincheck audit%3A {LEFT_OVER}::" in done.stdout
    cases = ElementTree.parse(tmp_path / "j.xml").iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == [LEFT_OVER]
    assert LEFT_OVER in (tmp_path / "h.html").read_text()
    assert document(tmp_path)["steps"] == 3


def test_what_is_allowed_passes_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "traincheck.toml").write_text(f"[audit]\nsteps = 3\n{ALLOW}")
    done = audit(tmp_path, WRONG)
    assert done.returncode == 0, done.stdout + done.stderr
    found = document(tmp_path)
    assert found["steps"] == 3
    assert found["silenced"][0]["law"] == LEFT_OVER
    assert "a sum over all batches is wanted (team)" in " ".join(done.stdout.split())


def test_a_script_that_trains_nothing_is_an_error(tmp_path: Path) -> None:
    done = audit(tmp_path, "import torch\nx = torch.ones(2, requires_grad=True)\nx.sum().backward()\n")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no optimizer stepped" in document(tmp_path)["errors"][0]["message"]
    done = audit(tmp_path, "raise SystemExit('no data')\n")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no data" in done.stdout
    # The directory of the run is gone.
    assert "`--keep-trace DIR` keeps the whole output." in " ".join(done.stdout.split())


@pytest.mark.sweep
def test_a_company_makes_its_own_pack_and_pins_it(tmp_path: Path) -> None:
    runs = []
    for name, rate in (("a", 0.1), ("b", 0.2), ("c", 0.3)):
        (tmp_path / f"{name}.py").write_text(TRAIN.replace("lr=0.1", f"lr={rate}"))
        runs.append(tmp_path / "runs" / name)
        words = ["collect", "--run", f"python {name}.py", "--output", str(runs[-1]), "--cwd", str(tmp_path)]
        assert main(words) == 0
    own = tmp_path / "own.jsonl"
    assert main(["infer", "--transferable", *map(str, runs), "--output", str(own), "--laws-only"]) == 0
    mistaken = ["infer", "--transferable", *map(str, runs), "--output", str(own), "--laws-only", "--min-programs", "2"]
    assert main([*mistaken, "--mistake", "a=gradients-left-over"]) == 0
    header, *rules = map(json.loads, own.read_text().splitlines())
    assert header["mistakes"] == {"a": [LEFT_OVER]}
    assert next(each for each in rules if each["id"] == LEFT_OVER)["evidence"]["shows"] == ["b", "c"]
    (tmp_path / "traincheck.toml").write_text("[audit]\npacks = ['own.jsonl']\n")
    assert audit(tmp_path, WRONG, "--pack", "own.jsonl").returncode == 1
    assert [pack["name"] for pack in document(tmp_path)["packs"]] == ["own"]
    assert audit(tmp_path, ENDLESS).returncode == 0
    assert "own" in [pack["name"] for pack in document(tmp_path)["packs"]]


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit"]) == 2
    assert "there is no command to audit" in capsys.readouterr().err
    assert main(["audit", "--pack", "unknown", "--", "python", "train.py"]) == 2
    assert "There is no pack 'unknown'" in capsys.readouterr().err
    (tmp_path / "broken.jsonl").write_text("{}\n")
    assert main(["audit", "--pack", "broken.jsonl", "--", "python", "train.py"]) == 2
    assert "not the header of a pack" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["infer", "--transferable", str(tmp_path), "--output", "p.jsonl", "--mistake", "a"])
    assert "'a' is no PROGRAM=RULE" in capsys.readouterr().err
    assert main(["infer", "--transferable", str(tmp_path), "--output", "p.jsonl"]) == 2
    assert "holds no trace" in capsys.readouterr().err
