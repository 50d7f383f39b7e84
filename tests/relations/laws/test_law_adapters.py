"""Models with adapters of peft."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from law_verdict import Verdict, verdict

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from real_training import recorded  # noqa: E402


def net() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))


@dataclass(frozen=True)
class Tuning:
    """LoRA on the first two layers. Each field is one thing that a program may do."""

    thaws: str = ""
    """What is made trainable after adapters were put in: nothing, `all`, or `head`."""
    saves_head: bool = False
    saved: str = ""
    """What is saved in the end: nothing, `adapters`, or also `head` in a file of its own."""
    initialises: str = ""
    """Which layers are initialised again by hand: none, those of the `head`, or `all`."""
    begins: Any = True
    merged: str = ""
    """Whether adapters are merged in the middle, and taken out again: no, `and taken out`, `for good`."""
    loads: str = ""
    """Whether adapters come from a file: no, `trainable`, or `frozen`."""

    def __call__(self) -> None:
        from peft import LoraConfig, PeftModel, get_peft_model

        config = LoraConfig(r=2, target_modules=["0", "2"], init_lora_weights=self.begins,
                            modules_to_save=["3"] if self.saves_head else None)  # fmt: skip
        model: Any = get_peft_model(net(), config)
        with tempfile.TemporaryDirectory() as folder:
            if self.loads:
                model.save_pretrained(folder)
                model = PeftModel.from_pretrained(net(), folder, is_trainable=self.loads == "trainable")
            for name, parameter in model.named_parameters():
                if self.thaws == "all" or (self.thaws == "head" and ".3." in name):
                    parameter.requires_grad_(True)
                if parameter.dim() > 1 and (self.initialises == "all" or (self.initialises and ".3." in name)):
                    torch.nn.init.xavier_uniform_(parameter)
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
            for number in range(4):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).pow(2).mean().backward()
                optimizer.step()
                if number == 1 and self.merged:
                    model.merge_adapter()
                    with torch.no_grad():
                        model(torch.randn(8, 4))
                    if self.merged == "and taken out":
                        model.unmerge_adapter()
            if self.saved:
                model.save_pretrained(folder)
            if self.saved == "head":
                torch.save(model.base_model.model[3].state_dict(), Path(folder) / "head.pt")


def without_adapters() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()


TRAININGS = [
    ("AdaptedStaysFrozen", Tuning(), "holds"),
    ("AdaptedStaysFrozen", Tuning(thaws="head"), "holds"),
    ("AdaptedStaysFrozen", Tuning(thaws="all"), "broken"),
    ("AdaptedStaysFrozen", without_adapters, "silent"),
    ("AdapterBeginsNeutral", Tuning(), "holds"),
    ("AdapterBeginsNeutral", Tuning(begins="gaussian"), "holds"),
    ("AdapterBeginsNeutral", Tuning(initialises="head"), "holds"),
    ("AdapterBeginsNeutral", Tuning(initialises="all"), "broken"),
    ("AdapterBeginsNeutral", Tuning(begins=False), "silent"),
    ("AdapterBeginsNeutral", Tuning(begins="pissa"), "silent"),
    ("AdapterBeginsNeutral", without_adapters, "silent"),
    ("UnmergedInTraining", Tuning(), "holds"),
    ("UnmergedInTraining", Tuning(thaws="head", merged="and taken out"), "holds"),
    ("UnmergedInTraining", Tuning(thaws="head", merged="for good"), "broken"),
    ("UnmergedInTraining", without_adapters, "silent"),
    ("AdaptersTrained", Tuning(), "holds"),
    ("AdaptersTrained", Tuning(loads="trainable"), "holds"),
    ("AdaptersTrained", Tuning(loads="frozen", thaws="head"), "broken"),
    ("AdaptersTrained", without_adapters, "silent"),
    ("TrainedIsSaved", Tuning(), "silent"),
    ("TrainedIsSaved", Tuning(saved="adapters"), "holds"),
    ("TrainedIsSaved", Tuning(saved="adapters", saves_head=True), "holds"),
    ("TrainedIsSaved", Tuning(saved="head", thaws="head"), "holds"),
    ("TrainedIsSaved", Tuning(saved="adapters", thaws="head"), "broken"),
    ("TrainedIsSaved", without_adapters, "silent"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "training", "said"), TRAININGS)
def test_of_tunings(name: str, training: Callable[[], None], said: Verdict, tmp_path: Path) -> None:
    assert verdict(name, recorded(training, tmp_path)) == said
