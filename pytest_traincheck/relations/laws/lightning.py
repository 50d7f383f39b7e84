"""Lightning's Trainer: it goes backward itself, and trains parts in the mode that it finds them in."""

from __future__ import annotations

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.laws.holdings import held, reached
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table
from pytest_traincheck.relations.laws.places import arguments, calls_of, within
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.relations.vocabulary import STOCHASTIC, F
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.variables import Variables

_OPTIMIZATION = "https://lightning.ai/docs/pytorch/latest/common/optimization.html"
_MODULE = "https://lightning.ai/docs/pytorch/stable/common/lightning_module.html"
_STRATEGY = tuple(f"{name}.strategies.strategy.Strategy" for name in ("lightning.pytorch", "pytorch_lightning"))
_TRAINING = frozenset(f"{name}.training_step" for name in _STRATEGY)
_BACKWARD = frozenset(f"{name}.backward" for name in _STRATEGY)
_BY_MODE = frozenset({*(name for name in STOCHASTIC if "dropout" in name), f"{F}batch_norm"})


class ManualBackward(Law):
    """Manual optimisation goes backward past the Trainer."""

    name = "ManualBackward"
    subject = "lightning.pytorch.LightningModule.manual_backward"
    says = "In manual optimisation losses go backward through `manual_backward`"
    expected = "`self.manual_backward(loss)`"
    because = Reason(
        "manual-backward-bypassed",
        "`manual_backward` scales the loss in mixed precision and goes backward as the strategy wants it. "
        "`loss.backward()` does neither.",
        _OPTIMIZATION,
        "Write `self.manual_backward(loss)` for `loss.backward()` in `training_step`.",
        "Training on one device in full precision.",
        "lightning",
    )
    right = "optimizer.zero_grad()\nself.manual_backward(loss)\noptimizer.step()"
    wrong = "optimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    place = Place.BACKWARD
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _backward_passes)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"`loss.backward()` is called in `training_step`, past the Trainer, first "
                    f"{in_step(run, examples, broken)}.", "`loss.backward()`")  # fmt: skip


class PartsInTrainMode(Law):
    """A part of a LightningModule that is trained is in eval mode."""

    name = "PartsInTrainMode"
    subject = "lightning.pytorch.Trainer.fit"
    says = "What is trained of a LightningModule is in train mode in `training_step`"
    expected = "all that is trained in train mode"
    because = Reason(
        "part-in-eval-mode",
        "The Trainer keeps the mode that each part has when `fit` begins. A part that comes out of `from_pretrained` "
        "is in eval mode, and is trained without dropout and with running statistics that never move.",
        _MODULE,
        "Call `self.train()` on it in `__init__` or in `on_train_start`. Freeze what is to stay in eval mode.",
        "Fine-tuning a part without dropout and with the statistics that it has.",
        "lightning",
        "2.2",
    )
    right = "self.encoder = AutoModel.from_pretrained(name).train()"
    wrong = "self.encoder = AutoModel.from_pretrained(name)"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _parts)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is in eval mode in `training_step`, though what it belongs to is "
                    f"trained, first {in_step(run, examples, broken)}.", "parts in eval mode")  # fmt: skip


def _backward_passes(process: Process, position: int) -> Examples:
    """One example for each outermost backward pass in `training_step`; automatic optimisation makes it afterwards."""
    rows = calls_of(process, frozenset({"torch.autograd.backward"}))
    rows = rows[~process.inside("autograd", "optimizer")[rows]]
    rows = rows[within(process, rows, _TRAINING)]
    return table(process, position, within(process, rows, _BACKWARD), rows) if len(rows) else EMPTY


def _parts(process: Process, position: int) -> Examples:
    """One example for each call of dropout or batch norm in `training_step` of a part that is trained."""
    rows = calls_of(process, _BY_MODE)
    rows = rows[(process.grad_mode[rows] == 1) & within(process, rows, _TRAINING)]
    rows = rows[[_is_trained(process, int(number)) for number in process.events["mod"][rows].tolist()]]
    if not len(rows):
        return EMPTY
    holds = [arguments(process, row).get("training") is not False for row in rows.tolist()]
    return table(process, position, holds, rows)


def _is_trained(process: Process, module: int) -> bool:
    """Whether anything is trained of a module, or, where it has no parameters, of the one that it lies in."""

    def compute() -> tuple[frozenset[tuple[int, str]], frozenset[tuple[int, str]]]:
        variables = Variables.of(process)
        ids = held(process)[0]
        ids = ids[reached(process, ids)]
        return _owners(variables, ids.tolist()), _owners(variables, variables.ids("parameter").tolist())

    trained, owning = process.memo("trained parts", compute)
    symbol = process.raw.symbols["mod"][module]
    place = (int(symbol.get("root", 0)), str(symbol.get("path", "")))
    if place not in owning:
        place = (place[0], place[1].rpartition(".")[0])
    return place in trained


def _owners(variables: Variables, ids: list[int]) -> frozenset[tuple[int, str]]:
    """All modules below which these variables lie: root and path."""
    found: set[tuple[int, str]] = set()
    for number in ids:
        symbol = variables.symbols[number]
        parts = str(symbol.get("name", "")).split(".")
        found.update((int(symbol.get("root", 0)), ".".join(parts[:size])) for size in range(len(parts)))
    return frozenset(found)
