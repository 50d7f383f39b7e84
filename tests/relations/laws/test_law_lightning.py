"""LightningModules by the Trainer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from law_verdict import Verdict, verdict

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402


def encoder() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))


def module(by_hand: str, encoder: Any) -> Any:
    """An encoder and a head; `by_hand` is how it goes backward itself."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = not by_hand
            self.encoder, self.head = encoder, torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _: int) -> Any:
            loss = self.head(self.encoder(batch)).pow(2).mean()
            if by_hand:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss) if by_hand == "manual_backward" else loss.backward()
                optimizer.step()
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.1)

    return Module()


@dataclass(frozen=True)
class Fit:
    """A training by the Trainer."""

    by_hand: str = ""
    mode: str = "train"
    frozen: bool = False

    def __call__(self) -> None:
        import lightning

        torch.manual_seed(0)
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        part = encoder().requires_grad_(not self.frozen).train(self.mode == "train")
        if self.mode == "norm in eval":
            part.train()[1].eval()
        loader = torch.utils.data.DataLoader(torch.randn(16, 3), batch_size=4)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet)
        trainer.fit(module(self.by_hand, part), loader)


TRAININGS = [
    ("ManualBackward", Fit(), "silent"),
    ("ManualBackward", Fit("manual_backward"), "holds"),
    ("ManualBackward", Fit("backward"), "broken"),
    ("PartsInTrainMode", Fit(), "holds"),
    ("PartsInTrainMode", Fit(mode="eval"), "broken"),
    ("PartsInTrainMode", Fit(mode="norm in eval"), "broken"),
    ("PartsInTrainMode", Fit(mode="eval", frozen=True), "silent"),
    ("PartsInTrainMode", Fit(frozen=True), "silent"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "training", "said"), TRAININGS)
def test_of_fits(name: str, training: Fit, said: Verdict, tmp_path: Path) -> None:
    # Here, since the import takes seconds, which whoever collects this file would have to wait.
    pytest.importorskip("lightning")
    assert verdict(name, recorded(training, tmp_path)) == said
