"""Numbers and sizes that a program chooses as training goes on, where golden's runs never came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import tensor
from training_story import Recorder, Training

torch = pytest.importorskip("torch")
from real_training import recorded  # noqa: E402

from pytest_traincheck.infer import learn  # noqa: E402


@dataclass(frozen=True)
class Choices:
    """A loop with a bound for its gradients, and an evaluation that looks for what is nearest."""

    steps: int = GOLDEN_STEPS
    since: int = -1
    """The step from which it goes by what follows."""
    bound: float = 1.0
    gallery: int = 64
    best: int = 10
    """Numbers of which the best is looked for in training."""
    late: bool = False
    """Whether nothing is looked for before."""

    def __call__(self, t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        t.mode(model, True)
        for step in range(self.steps):
            now = self if step >= self.since else Choices()
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model)
            if not self.late or step >= self.since:
                with t.call("torch.topk", type="choice", args={"input": tensor(8, now.best), "dim": 1}):
                    pass
            t.loss()
            t.backward(model)
            t.clip(optimizer, now.bound)
            t.step(optimizer)
            if step % 3 == 2 and (not self.late or step >= self.since):
                t.mode(model, False)
                with t.no_grad():
                    t.forward(model, line="evaluate")
                    with t.call("torch.argmax", type="choice", args={"input": tensor(8, now.gallery), "dim": 1}):
                        pass
                t.mode(model, True)


@pytest.mark.parametrize("choice", [{"bound": 0.5}, {"gallery": 128}, {"best": 20}], ids=["bound", "gallery", "best"])
@pytest.mark.parametrize("since", [0, 30])
def test_what_is_chosen_later_is_up_to_the_program(recorder: Recorder, choice: dict[str, Any], since: int) -> None:
    golden = recorder.learn(Choices())
    assert any("max_norm" in text for text in sentences(golden, "APIArg"))
    assert any("argmax" in text for text in sentences(golden, "DataFlow"))
    path = recorder.path()
    t = Training(path, seed=5)
    Choices(90, since, late="bound" not in choice, **choice)(t)
    t.write()
    titles = [incident.cause.title for incident in follow(path, golden)[1].incidents]
    assert len(titles) == (since < GOLDEN_STEPS), titles


class Warm(torch.nn.Module):
    """Its noise goes down from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)
        self.noise, self.width = 1.0, 0.5

    def forward(self, x: Any) -> Any:
        return self.linear(x * self.width + self.noise)


def train(steps: int, *, evaluates: int, seed: int, width: float = 0.5) -> None:
    torch.manual_seed(seed)
    model = Warm()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        model.noise = 1.0 - step / 128
        optimizer.zero_grad()
        model(torch.randn(8, 6)).square().mean().backward()
        optimizer.step()
        if step % evaluates == evaluates - 1:
            if step > 12:
                model.width = width
            with torch.no_grad():
                model.eval()(torch.randn(8, 6))
            model.train()
            model.width = 0.5


@pytest.mark.parametrize("width", [0.5, 1.0])
def test_an_attribute_is_compared_with_what_is_known_of_training(tmp_path: Path, width: float) -> None:
    """One that changes is not known in a step that nobody looked at; one that stays is."""
    runs = [
        recorded(lambda seed=seed: train(12, evaluates=4, seed=seed), tmp_path / f"golden{seed}") for seed in (0, 1)
    ]
    golden = learn(runs, pipeline="story")
    assert any("`noise`, `width`" in text for text in sentences(golden, "Attributes"))
    recorded(lambda: train(85, evaluates=85, seed=5, width=width), tmp_path / "long")
    told = [incident.cause.title for incident in follow(tmp_path / "long", golden)[1].incidents]
    assert [("`width`" in title, "`noise`" in title) for title in told] == ([(True, False)] if width != 0.5 else [])
