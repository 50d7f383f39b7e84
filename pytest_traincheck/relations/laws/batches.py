"""Batches: a row for each example, new content in each step, and data sets that stay as they are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.batches import ROWS, batches, is_loss
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, seen, table
from pytest_traincheck.relations.laws.places import arguments, labels_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.stages import TRAIN

_BROADCAST = "https://docs.pytorch.org/docs/stable/notes/broadcasting.html"
_MEANS = "loss.means="
_STORED = "stored."
_KEPT, _STAYED = "kept.", "stayed."
_LEAST, _MOSTLY, _MANY = 3, 0.5, 4
_OF_STATE = 3
"""Dimensions of the state of a recurrent network: layers, batch, features."""


class ViewsDiffer(Law):
    """A batch holds a tensor twice."""

    name = "ViewsDiffer"
    subject = "torch.utils.data.DataLoader"
    says = "No two tensors of a batch have the same content"
    expected = "the tensors of a batch differ"
    because = Reason(
        "tensor-twice-in-batch",
        "Two views of an example that are the same tensor, or an input that is its own target by mistake, teach "
        "nothing: the answer is in the question.",
        remedy="Augment once for each view: `transform(x), transform(x)`.",
        meant="Autoencoders, and labels that a model shifts itself.",
    )
    right = "return transform(x), transform(x)"
    wrong = "view = transform(x)\nreturn view, view"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _repeated)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"Two tensors of a batch have the same content, first {in_step(run, examples, broken)}.",
                    "the same tensor twice in a batch")  # fmt: skip


class DataUntouched(Law):
    """The data set is written to."""

    name = "DataUntouched"
    subject = "torch.utils.data.Dataset"
    says = "What a data set holds is not written to while it is read"
    expected = "examples are computed from copies"
    because = Reason(
        "data-set-written-to",
        "A transform that works in place changes the stored examples: they are normalised or augmented again with each "
        "epoch, and drift away.",
        remedy="Write `x = x * scale` and not `x *= scale`, or copy first.",
        meant="Caches that fill on the way.",
    )
    right = "x = self.images[i] / 255"
    wrong = "x = self.images[i]\nx /= 255  # in the data set itself"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return Examples.concatenate([
            each_process(run, _stored),
            Examples.concatenate([_of_workers(run, worker) for worker in run.workers]),
        ])  # fmt: skip

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"{seen(examples, broken[0])} of the data set is written to while batches are made.",
                    "the data set changes")  # fmt: skip


class RowsAgree(Law):
    """An input of a model has one row for all examples."""

    name = "RowsAgree"
    subject = "torch.nn.Module.forward"
    says = "No input that a model is given as data has a single row where the others have many"
    expected = "a row for each example in every input"
    because = Reason(
        "rows-disagree",
        "An input with one row beside others with many is broadcast: all examples are compared with the same one.",
        _BROADCAST,
        "Look at the shapes of what the collate function or the processor returns.",
        "Inputs that all examples share.",
    )
    right = "model(images=images, texts=texts)  # (n, ...) and (n, ...)"
    wrong = "model(images=images.mean(0, keepdim=True), texts=texts)"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _rows)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is given {seen(examples, broken[0])}.", "one row for all examples")


class NoSquareMeans(Law):
    """A loss is a mean over all pairs of examples."""

    name = "NoSquareMeans"
    subject = "torch.mean"
    says = "A mean in the loss goes over examples, and not over all pairs of them"
    expected = "a mean over the batch"
    because = Reason(
        "mean-over-pairs",
        "Predictions of shape (n, 1) minus targets of shape (n,) are a matrix of n times n differences. Its mean is "
        "least where all predictions are the mean of the targets.",
        _BROADCAST,
        "Bring both to one shape, as with `output.squeeze(-1)`.",
        "Losses of pairs, as in contrastive and ranking models.",
    )
    right = "loss = (model(x).squeeze(-1) - y).pow(2).mean()"
    wrong = "loss = (model(x) - y).pow(2).mean()  # (n, 1) and (n,)"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, _means)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"The loss is a mean over {seen(examples, broken[0])}: predictions and targets were broadcast.",
                    "a mean over all pairs")  # fmt: skip


class InputsChange(Law):
    """Part of what a model is given is nearly the same in all steps."""

    name = "InputsChange"
    subject = "torch.Generator"
    says = "Where most inputs of a model are new in each step, none of them stays nearly the same"
    expected = "new data in each input"
    because = Reason(
        "input-hardly-changes",
        "An input that is nearly the same in each step while the others change was drawn from a generator that begins "
        "again each time, or is not filled at all.",
        remedy="Make the generator once, outside of the loop.",
        meant="Positions, masks and other inputs that are fixed or mostly alike.",
    )
    right = "g = torch.Generator().manual_seed(0)\nfor batch in loader:\n    noise = torch.randn(8, generator=g)"
    wrong = "for batch in loader:\n    g = torch.Generator().manual_seed(0)\n    noise = torch.randn(8, generator=g)"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _kept)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"The input `{seen(examples, broken[0])}` of `{process.module_name(row)}` is nearly the same in "
                    "each step, while others change.", "an input that hardly changes")  # fmt: skip


def _repeated(process: Process, position: int) -> Examples:
    rows = process.measures("batch.repeated")
    return table(process, position, process.events["value"][rows] == 0, rows) if len(rows) else EMPTY


def _stored(process: Process, position: int) -> Examples:
    rows, holds, names = [], [], []
    for symbol in process.raw.symbols["measure"][1:]:
        name = str(symbol.get("name", ""))
        if name.startswith(_STORED):
            found = process.measures(name)
            rows += found.tolist()
            holds += (process.events["value"][found] == 0).tolist()
            names += [f"`{name.removeprefix(_STORED)}`"] * len(found)
    return table(process, position, holds, rows, None, None, labels_of(names)) if rows else EMPTY


def _of_workers(run: Run, worker: Process) -> Examples:
    """What a worker has seen of its data set; the row is that of the training process's first batch."""
    parents = {int(process.raw.meta.get("pid", 0)): number for number, process in enumerate(run.processes)}
    position = parents.get(int(worker.raw.meta.get("ppid", 0)))
    found = _stored(worker, 0)
    if position is None or not len(found):
        return EMPTY
    loads = run.processes[position].rows_of_type("data")
    rows = np.full(len(found), int(loads[0]) if len(loads) else 0)
    return table(run.processes[position], position, found.holds, rows, None, None, found.observed)


def _rows(process: Process, position: int) -> Examples:
    """One example for each call of a model in training that is given two inputs or more."""
    counts: dict[int, dict[str, float]] = {}
    for symbol in process.raw.symbols["measure"][1:]:
        name = str(symbol.get("name", ""))
        if name.startswith(ROWS):
            for row in process.measures(name).tolist():
                call = int(process.parent_row[row])
                if call >= 0 and not is_loss(process.api[call]) and process.stage[row] == TRAIN:
                    if _is_state(process, call, name.removeprefix(ROWS)):
                        continue
                    counts.setdefault(call, {})[name.removeprefix(ROWS)] = float(process.events["value"][row])
    several = {call: found for call, found in counts.items() if len(found) > 1 and max(found.values()) >= _MANY}
    if not several:
        return EMPTY
    holds = [min(found.values()) != 1 for found in several.values()]
    texts = [_sizes(found) for found in several.values()]
    return table(process, position, holds, list(several), None, None, labels_of(texts))


def _is_state(process: Process, call: int, path: str) -> bool:
    """Whether an input is the state of a recurrent network, whose rows are its layers: one of several tensors with
    three dimensions that are given together.
    """
    value: object = arguments(process, call)
    for part in path.split("."):
        inside = value
        if isinstance(value, Mapping) and part not in value:
            inside = next((value[kind] for kind in ("dict", "list", "tuple") if kind in value), None)
        if isinstance(inside, Mapping):
            value = inside.get(part)
        elif isinstance(inside, (list, tuple)) and part.isdigit() and int(part) < len(inside):
            value = inside[int(part)]
        else:
            return False
    tensor = value.get("tensor") if isinstance(value, Mapping) else None
    shape = tensor.get("shape") if isinstance(tensor, Mapping) else None
    return bool(shape) and len(shape or ()) == _OF_STATE and "." in path


def _sizes(found: dict[str, float]) -> str:
    """The inputs with the fewest and the most rows."""
    least, most = min(found, key=lambda name: found[name]), max(found, key=lambda name: found[name])
    return f"`{least}` with {int(found[least])} rows beside `{most}` with {int(found[most])}"


def _means(process: Process, position: int) -> Examples:
    """One example for each mean of the loss, where the model is given as many rows in all training calls."""
    sizes = {int(size) for (owner, _, stage), mine in batches(process).items() if stage == TRAIN and not is_loss(owner)
             for size in mine.sizes.tolist()}  # fmt: skip
    rows, holds, texts = [], [], []
    for symbol in process.raw.symbols["measure"][1:]:
        name = str(symbol.get("name", ""))
        if not name.startswith(_MEANS):
            continue
        found = [int(size) for size in name.removeprefix(_MEANS).split(",") if size.strip().isdigit()]
        square = next((size for size in found if any(size == rows_of * rows_of > 1 for rows_of in sizes)), 0)
        for row in process.measures(name).tolist():
            rows.append(int(process.parent_row[row]))
            holds.append(not square)
            texts.append(f"{square} numbers of a batch of {round(square**0.5)}")
    return table(process, position, holds, rows, None, None, labels_of(texts)) if rows and sizes else EMPTY


def _kept(process: Process, position: int) -> Examples:
    """One example for each input that is looked at in three steps or more, where another one of its model changes."""
    shares: dict[tuple[int, str], list[float]] = {}
    first: dict[tuple[int, str], int] = {}
    for symbol in process.raw.symbols["measure"][1:]:
        name = str(symbol.get("name", ""))
        if name.startswith(_KEPT):
            for row in process.measures(name).tolist():
                key = (int(process.events["mod"][row]), name.removeprefix(_KEPT))
                shares.setdefault(key, []).append(float(process.events["value"][row]))
                first.setdefault(key, row)
    known = {key: values for key, values in shares.items() if len(values) >= _LEAST}
    changing = {module for (module, _), values in known.items() if max(values) < _MOSTLY}
    kept = [key for key in known if key[0] in changing]
    if not kept:
        return EMPTY
    holds = [min(known[key]) < _MOSTLY for key in kept]
    return table(
        process, position, holds, [first[key] for key in kept], None, None, labels_of([name for _, name in kept])
    )
