"""Libraries that the user's own loop goes through: accelerate and Lightning Fabric.

They take a loop to several devices and to mixed precision if all of it goes through them: the model, its optimizer, its
data, `backward` and clipping. What goes past them works on one device in full precision, and is wrong elsewhere: ranks
that see the same data, losses that are not divided or not scaled, steps after each micro-batch.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.laws.clipping import clips
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table
from pytest_traincheck.relations.laws.places import arguments, calls_of, within
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints

_ACCUMULATION = "https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation"
_MIGRATION = "https://huggingface.co/docs/accelerate/basic_tutorials/migration"
_FABRIC = "https://lightning.ai/docs/fabric/stable/fundamentals/convert.html"
_ACCELERATOR = "accelerate.accelerator.Accelerator"
_ACCELERATED = frozenset({f"{_ACCELERATOR}.prepare_model"})
_BACKWARD = frozenset({f"{_ACCELERATOR}.backward"})
_SETTINGS = frozenset({"accelerate.utils.dataclasses.KwargsHandler.to_kwargs"})
_PREPARED = frozenset({"accelerate.optimizer.AcceleratedOptimizer"})
_STEP = frozenset({"accelerate.optimizer.AcceleratedOptimizer.step"})
_FABRICS = ("lightning.fabric", "lightning_fabric")
_SET_UP = frozenset(f"{name}.fabric.Fabric.{method}" for name in _FABRICS for method in ("setup", "setup_module"))
_FABRIC_BACKWARD = frozenset(f"{name}.fabric.Fabric.backward" for name in _FABRICS)
_FABRIC_STEP = frozenset(f"{name}.wrappers._FabricOptimizer.step" for name in _FABRICS)
_FABRIC_LOADERS = frozenset(f"{name}.fabric.Fabric.setup_dataloaders" for name in _FABRICS)


class BackwardThroughAccelerator(Law):
    """A loss goes backward past the accelerator that accumulates or scales."""

    name = "BackwardThroughAccelerator"
    subject = f"{_ACCELERATOR}.backward"
    says = "Where an accelerator accumulates or scales, losses go backward through `accelerator.backward`"
    expected = "`accelerator.backward(loss)`"
    because = Reason(
        "accelerate-backward-bypassed",
        "`accelerator.backward` divides the loss by the number of accumulation steps and scales it in float16. "
        "`loss.backward()` does neither: gradients are that many times too large, or vanish.",
        _ACCUMULATION,
        "Write `accelerator.backward(loss)` for `loss.backward()`.",
        "Losses that are divided by the number of accumulation steps by hand, in full precision.",
        "accelerate",
    )
    right = "with accelerator.accumulate(model):\n    accelerator.backward(loss)"
    wrong = "with accelerator.accumulate(model):\n    loss.backward()"
    place = Place.BACKWARD
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _backward_passes)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"A loss goes backward past the accelerator that accumulates or scales, first "
                    f"{in_step(run, examples, broken)}.", "`loss.backward()`")  # fmt: skip


class StepThroughAccelerator(Law):
    """The optimizer of a prepared model was not prepared."""

    name = "StepThroughAccelerator"
    subject = f"{_ACCELERATOR}.prepare"
    says = "An optimizer whose gradients come from `accelerator.backward` is prepared by the accelerator"
    expected = "a prepared optimizer"
    because = Reason(
        "accelerate-optimizer-not-prepared",
        "A prepared optimizer waits until all micro-batches are accumulated, and unscales gradients in float16. One "
        "that is not steps after each micro-batch, and with scaled gradients.",
        _MIGRATION,
        "Use what `accelerator.prepare(model, optimizer)` returns.",
        library="accelerate",
    )
    right = "model, optimizer = accelerator.prepare(model, optimizer)"
    wrong = "model = accelerator.prepare(model)"
    place = Place.STEP
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _steps(process, position, _BACKWARD, _STEP))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return _unprepared(run, examples, broken, "was not given to `accelerator.prepare`")


class LoaderPrepared(Law):
    """The data of a prepared model come from loaders of which none was prepared."""

    name = "LoaderPrepared"
    subject = f"{_ACCELERATOR}.prepare_data_loader"
    says = "Where an accelerator prepares a model that a DataLoader feeds, it prepares a DataLoader as well"
    expected = "prepared loaders"
    because = Reason(
        "accelerate-loader-not-prepared",
        "A prepared loader gives each rank its share of the data and tells the accelerator where an epoch ends. "
        "Without, all ranks train on the same batches, and the last micro-batches of an epoch wait for the next one.",
        _MIGRATION,
        "Use what `accelerator.prepare(loader)` returns.",
        "Loaders that share out the data among ranks themselves.",
        "accelerate",
    )
    right = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)"
    wrong = "model, optimizer = accelerator.prepare(model, optimizer)"
    place = Place.DATA
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        loaders = frozenset({f"{_ACCELERATOR}.prepare_data_loader"})
        return each_process(run, lambda process, position: _loaders(process, position, _ACCELERATED, loaders))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("The model is prepared by the accelerator, and none of the loaders is: with several ranks all see "
                    "the same data.", "loaders that are not prepared")  # fmt: skip


class AccumulatesWhatItDivides(Law):
    """Losses are divided by a number of accumulation steps, and each is stepped with by itself."""

    name = "AccumulatesWhatItDivides"
    subject = f"{_ACCELERATOR}.accumulate"
    says = "An accelerator that divides losses by a number of accumulation steps accumulates gradients"
    expected = "`with accelerator.accumulate(model):` around each micro-batch"
    because = Reason(
        "accelerate-divides-without-accumulating",
        "With `gradient_accumulation_steps` the accelerator divides each loss by that number. It holds steps back "
        "within `accumulate` alone: without, each step is taken with a fraction of its gradient.",
        _ACCUMULATION,
        "Put `with accelerator.accumulate(model):` around the forward pass, `backward` and the step.",
        library="accelerate",
    )
    right = "accelerator = Accelerator(gradient_accumulation_steps=4)\nwith accelerator.accumulate(model): ..."
    wrong = "accelerator = Accelerator(gradient_accumulation_steps=4)\nfor batch in loader: ..."
    place = Place.ACCUMULATION
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _divided)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, _ = first_of(run, examples, broken)
        return Told(f"The accelerator divides losses by {_accumulated(process)}, and each step is taken after a single "
                    "one.", "no gradients are accumulated")  # fmt: skip


class ClipThroughAccelerator(Law):
    """Gradients of an accelerator are clipped past it."""

    name = "ClipThroughAccelerator"
    subject = f"{_ACCELERATOR}.clip_grad_norm_"
    says = "Gradients that come from `accelerator.backward` are clipped by the accelerator"
    expected = "`accelerator.clip_grad_norm_`"
    because = Reason(
        "accelerate-clip-bypassed",
        "The accelerator unscales gradients before it clips them, and knows of those that lie on other ranks. torch's "
        "own function clips scaled gradients in float16, and the norm of one shard in sharded training.",
        _MIGRATION,
        "Write `accelerator.clip_grad_norm_(model.parameters(), 1.0)`.",
        "Training in full precision whose parameters are not sharded.",
        "accelerate",
    )
    right = "accelerator.backward(loss)\naccelerator.clip_grad_norm_(model.parameters(), 1.0)"
    wrong = "accelerator.backward(loss)\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    place = Place.PREPARATION
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _clipped)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("Gradients that come from `accelerator.backward` are clipped past the accelerator, first "
                    f"{in_step(run, examples, broken)}.", "torch's own clipping")  # fmt: skip


class StepThroughFabric(Law):
    """The optimizer of a model that Fabric has set up was not set up."""

    name = "StepThroughFabric"
    subject = "lightning.fabric.Fabric.setup_optimizers"
    says = "An optimizer whose gradients come from `fabric.backward` is set up by Fabric"
    expected = "an optimizer that was set up"
    because = Reason(
        "fabric-optimizer-not-set-up",
        "The step of an optimizer that Fabric has set up unscales gradients in mixed precision and is that of the "
        "strategy. One that was not set up steps with what happens to be there.",
        _FABRIC,
        "Use what `fabric.setup(model, optimizer)` returns.",
        library="lightning",
    )
    right = "model, optimizer = fabric.setup(model, optimizer)"
    wrong = "model = fabric.setup(model)"
    place = Place.STEP
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _steps(process, position, _FABRIC_BACKWARD, _FABRIC_STEP))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return _unprepared(run, examples, broken, "was not given to `fabric.setup`")


class LoaderSetUp(Law):
    """The data of a model that Fabric has set up come from loaders of which none was set up."""

    name = "LoaderSetUp"
    subject = "lightning.fabric.Fabric.setup_dataloaders"
    says = "Where Fabric sets up a model that a DataLoader feeds, it sets up a DataLoader as well"
    expected = "loaders that were set up"
    because = Reason(
        "fabric-loader-not-set-up",
        "Fabric gives each rank its share of the data, and moves batches to the device, by the loaders that it has set "
        "up. Without, all ranks train on the same batches.",
        _FABRIC,
        "Use what `fabric.setup_dataloaders(loader)` returns.",
        "Loaders that share out the data among ranks themselves.",
        "lightning",
    )
    right = "loader = fabric.setup_dataloaders(loader)"
    wrong = "loader = DataLoader(data)"
    place = Place.DATA
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, lambda process, position: _loaders(process, position, _SET_UP, _FABRIC_LOADERS))

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("The model is set up by Fabric, and none of the loaders is: with several ranks all see the same "
                    "data.", "loaders that are not set up")  # fmt: skip


def _unprepared(run: Run, examples: Examples, broken: list[int], lacks: str) -> Told:
    process, row = first_of(run, examples, broken)
    name = process.names.optimizers[int(process.events["opt"][row])]
    return Told(f"`{name}` steps with gradients of a prepared model and {lacks}, first "
                f"{in_step(run, examples, broken)}.", "an optimizer past the library")  # fmt: skip


def _outermost_backwards(process: Process) -> Ints:
    rows = calls_of(process, frozenset({"torch.autograd.backward"}))
    return rows[~process.inside("autograd", "optimizer")[rows]]


def _accumulated(process: Process) -> int:
    """The largest number of accumulation steps that an accelerator was made with, as its settings tell."""
    numbers = [1]
    for row in calls_of(process, _SETTINGS).tolist():
        told = process.raw.symbols["ret"][int(process.events["ret"][row])].get("value")
        settings = told.get("dict") if isinstance(told, dict) else None
        number = settings.get("num_steps") if isinstance(settings, dict) else None
        numbers += [number] if isinstance(number, int) else []
    return max(numbers)


def _scaled(process: Process) -> bool:
    """Whether an optimizer was prepared with a gradient scaler."""
    return any(arguments(process, row).get("scaler") is not None for row in calls_of(process, _PREPARED).tolist())


def _since(process: Process, rows: Ints, begins: Ints, calls: Collection[str]) -> Bools:
    """Which rows have one of these calls between a time and their own beginning."""
    seq = process.events["seq"]
    times = seq[calls_of(process, frozenset(calls))].astype(np.int64)
    return np.asarray(np.searchsorted(times, seq[rows]) > np.searchsorted(times, begins))


def _backward_passes(process: Process, position: int) -> Examples:
    """One example for each outermost backward pass after a model was prepared, where something is divided or scaled."""
    prepared = calls_of(process, _ACCELERATED)
    if not len(prepared) or not (_accumulated(process) > 1 or _scaled(process)):
        return EMPTY
    rows = _outermost_backwards(process)
    rows = rows[rows > prepared[0]]
    return table(process, position, within(process, rows, _BACKWARD), rows) if len(rows) else EMPTY


def _steps(process: Process, position: int, backward: Collection[str], prepared: Collection[str]) -> Examples:
    """One example for each step whose gradients come from the library."""
    steps = process.steps
    rows = np.array([step.row for step in steps], dtype=np.int64)
    if not len(rows):
        return EMPTY
    begins = np.array([step.previous_end for step in steps], dtype=np.int64)
    rows = rows[_since(process, rows, begins, backward)]
    return table(process, position, within(process, rows, prepared), rows) if len(rows) else EMPTY


def _loaders(process: Process, position: int, models: Collection[str], loaders: Collection[str]) -> Examples:
    """One example for a process that trains a prepared model with batches of a DataLoader."""
    prepared, batches = calls_of(process, frozenset(models)), process.rows_of_type("data")
    if not len(prepared) or not len(process.steps):
        return EMPTY
    batches = batches[(batches > prepared[0]) & (process.events["seq"][batches] < process.steps[-1].begin)]
    if not len(batches):
        return EMPTY
    return table(process, position, [bool(len(calls_of(process, frozenset(loaders))))], batches[:1])


def _divided(process: Process, position: int) -> Examples:
    """One example for a process that makes two steps or more with losses that are divided."""
    passes = calls_of(process, _BACKWARD)
    rows = [step.row for step in process.steps]
    if _accumulated(process) < 2 or len(rows) < 2 or not len(passes):
        return EMPTY
    accumulates = bool(len(calls_of(process, frozenset({f"{_ACCELERATOR}.accumulate"}))))
    return table(process, position, [accumulates or len(passes) > len(rows)], rows[:1])


def _clipped(process: Process, position: int) -> Examples:
    """One example for each call that clips gradients which the accelerator has made since the step before."""
    rows = clips(process)
    if not len(rows) or not len(process.steps):
        return EMPTY
    ends = np.array([step.end for step in process.steps], dtype=np.int64)
    last = np.searchsorted(np.sort(ends), process.events["seq"][rows])
    begins = np.concatenate([[0], np.sort(ends)])[last]
    rows = rows[_since(process, rows, begins, _BACKWARD)]
    through = {f"{_ACCELERATOR}.clip_grad_norm_", f"{_ACCELERATOR}.clip_grad_value_"}
    return table(process, position, within(process, rows, through), rows) if len(rows) else EMPTY
