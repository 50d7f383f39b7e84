"""A model that is called once before its optimizer is made, to show shapes or a first loss: real training, observed in
this process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import load_run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


def classify(seed: int, show: Callable[[], AbstractContextManager[Any]] | None = None) -> None:
    """Trains under autocast and evaluates in eval mode; `show` is the context in which the model is called before."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    if show is not None:
        with show():
            net(torch.randn(2, 6))
        torch.manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    data = torch.Generator().manual_seed(seed)
    for _ in range(4):
        inputs, labels = torch.randn(8, 6, generator=data), torch.randint(3, (8,), generator=data)
        net.train()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(inputs), labels)
        loss.backward()
        optimizer.step()
        net.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            net(inputs)


@pytest.mark.parametrize("show", [nullcontext, torch.no_grad], ids=["with gradients", "without"])
def test_how_it_is_called_then_breaks_no_rule(tmp_path: Path, show: Any) -> None:
    def run(name: str, **changes: Any) -> Any:
        with observe(tmp_path / name):
            classify(**changes)
        return load_run(tmp_path / name)

    golden = learn([run("golden0", seed=0), run("golden1", seed=1)], pipeline="classify", seeds=(0, 1))

    outcome = check_run(golden, run("candidate", seed=0, show=show), same_spec=True)

    assert not outcome.incidents


def test_what_golden_did_then_is_a_rule_about_set_up(tmp_path: Path) -> None:
    def half() -> AbstractContextManager[Any]:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    def run(name: str, show: Callable[[], AbstractContextManager[Any]], seed: int = 0) -> Any:
        with observe(tmp_path / name):
            classify(seed, show)
        return load_run(tmp_path / name)

    golden = learn([run("golden0", half), run("golden1", half, seed=1)], pipeline="classify", seeds=(0, 1))

    outcome = check_run(golden, run("candidate", nullcontext), same_spec=True)

    (incident,) = outcome.incidents
    assert incident.cause.title.startswith("In set-up, the golden run called `Sequential` under autocast(bfloat16)")
