"""Loops that go through accelerate or Fabric, and what goes past them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from law_verdict import Verdict, verdict
from training_story import Recorder, Training

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """accelerate keeps its settings for the whole process."""
    # Here, since the imports take seconds, which whoever collects this file would have to wait.
    pytest.importorskip("accelerate")
    pytest.importorskip("lightning")
    from accelerate.state import AcceleratorState, GradientState

    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@dataclass(frozen=True)
class Accelerated:
    """A loop of accelerate. Each field is one of its habits; `parts` are micro-batches."""

    parts: int = 1
    accumulates: bool = True
    by_hand: int = 1
    model: bool = True
    optimizer: bool = True
    loader: bool = True
    loss_backward: bool = False
    clips: str = ""
    closure: bool = False

    def __call__(self) -> None:
        from accelerate import Accelerator

        torch.manual_seed(0)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=self.parts)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader: Any = torch.utils.data.DataLoader(torch.randn(32, 3), batch_size=4)
        model = accelerator.prepare(model) if self.model else model
        optimizer = accelerator.prepare(optimizer) if self.optimizer else optimizer
        loader = accelerator.prepare(loader) if self.loader else loader

        def backward(batch: Any) -> Any:
            loss = model(batch).pow(2).mean()
            loss.backward() if self.loss_backward else accelerator.backward(loss)
            return loss

        for number, batch in enumerate(loader, start=1):
            if self.parts > 1 and self.accumulates:
                with accelerator.accumulate(model):
                    backward(batch)
                    optimizer.step()
                    optimizer.zero_grad()
                continue
            if self.closure:
                optimizer.zero_grad()
                optimizer.step(lambda batch=batch: backward(batch))
                continue
            backward(batch)
            if number % self.by_hand == 0:
                if self.clips:
                    (accelerator if self.clips == "accelerator" else torch.nn.utils).clip_grad_norm_(
                        model.parameters(), 1.0
                    )
                optimizer.step()
                optimizer.zero_grad()


@dataclass(frozen=True)
class Fabricated:
    """A loop of Fabric."""

    optimizer: bool = True
    loader: bool = True

    def __call__(self) -> None:
        from lightning.fabric import Fabric

        torch.manual_seed(0)
        fabric = Fabric(accelerator="cpu", devices=1)
        model: Any = torch.nn.Linear(3, 1)
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = fabric.setup(model, optimizer) if self.optimizer else (fabric.setup(model), optimizer)
        loader: Any = torch.utils.data.DataLoader(torch.randn(16, 3), batch_size=4)
        for batch in fabric.setup_dataloaders(loader) if self.loader else loader:
            fabric.backward(model(batch).pow(2).mean())
            optimizer.step()
            optimizer.zero_grad()


TRAININGS = [
    ("BackwardThroughAccelerator", Accelerated(), "silent"),
    ("BackwardThroughAccelerator", Accelerated(loss_backward=True), "silent"),
    ("BackwardThroughAccelerator", Accelerated(parts=2), "holds"),
    ("BackwardThroughAccelerator", Accelerated(parts=2, loss_backward=True), "broken"),
    ("StepThroughAccelerator", Accelerated(), "holds"),
    ("StepThroughAccelerator", Accelerated(closure=True), "silent"),
    ("StepThroughAccelerator", Accelerated(optimizer=False), "broken"),
    ("StepThroughAccelerator", Accelerated(parts=2, optimizer=False), "broken"),
    ("StepThroughAccelerator", Accelerated(optimizer=False, loss_backward=True), "silent"),
    ("LoaderPrepared", Accelerated(), "holds"),
    ("LoaderPrepared", Accelerated(loader=False), "broken"),
    ("LoaderPrepared", Accelerated(model=False, loader=False), "silent"),
    ("AccumulatesWhatItDivides", Accelerated(), "silent"),
    ("AccumulatesWhatItDivides", Accelerated(parts=2), "holds"),
    ("AccumulatesWhatItDivides", Accelerated(parts=2, accumulates=False, by_hand=2), "holds"),
    ("AccumulatesWhatItDivides", Accelerated(parts=2, accumulates=False), "broken"),
    ("ClipThroughAccelerator", Accelerated(), "silent"),
    ("ClipThroughAccelerator", Accelerated(clips="accelerator"), "holds"),
    ("ClipThroughAccelerator", Accelerated(clips="torch"), "broken"),
    ("ClipThroughAccelerator", Accelerated(clips="torch", loss_backward=True), "silent"),
    ("StepThroughFabric", Fabricated(), "holds"),
    ("StepThroughFabric", Fabricated(optimizer=False), "broken"),
    ("StepThroughFabric", Accelerated(), "silent"),
    ("LoaderSetUp", Fabricated(), "holds"),
    ("LoaderSetUp", Fabricated(loader=False), "broken"),
]


@pytest.mark.parametrize(("name", "training", "said"), TRAININGS)
def test_of_loops(name: str, training: Callable[[], None], said: Verdict, tmp_path: Path) -> None:
    assert verdict(name, recorded(training, tmp_path)) == said


@pytest.mark.parametrize(("scaler", "said"), [(None, "silent"), ({"type": "torch.amp.GradScaler"}, "broken")])
def test_scaled_losses_count_as_accumulated_ones(scaler: object, said: Verdict, recorder: Recorder) -> None:
    def story(t: Training) -> None:
        with t.call("accelerate.accelerator.Accelerator.prepare_model", type="observed", args={}):
            pass
        with t.call("accelerate.optimizer.AcceleratedOptimizer", type="observed", args={"scaler": scaler}):
            pass
        model = t.model()
        t.forward(model)
        t.backward(model)

    assert verdict("BackwardThroughAccelerator", recorder.tell(story)) == said
