"""Loading: what is loaded is all there, lies in memory of its own, and stays as it was loaded.

`strict=False` passes over every name that does not match, even if none does. A state that is kept without a copy
changes with the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, table
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.variables import Variables

_LOAD = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict"
_STATE = "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.state_dict"
_GIVEN = "load.given"
_MODULE = "torch.nn.Module.load_state_dict"


class LoadsSomething(Law):
    """Nothing of a state fits the model that it is loaded into."""

    name = "LoadsSomething"
    subject = _MODULE
    says = "`load_state_dict` finds something for the model in what it is given"
    expected = "parameters are loaded"
    because = Reason(
        "nothing-is-loaded",
        "With `strict=False` names that do not match are passed over. Where all have another prefix, as `module.` or "
        "`_orig_mod.`, nothing is loaded and the model stays as it was drawn.",
        _LOAD,
        "Leave `strict=True`, or look at what `load_state_dict` returns: missing and unexpected keys.",
    )
    right = "model.load_state_dict({k.removeprefix('module.'): v for k, v in state.items()})"
    wrong = "model.load_state_dict(state, strict=False)  # all keys begin with `module.`"
    place = Place.INITIAL
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _loads)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`load_state_dict` of `{process.module_name(row)}` loads nothing: no name fits.", "nothing is loaded"
        )


class LoadsTrained(Law):
    """A state that is loaded into a trained model leaves out part of what was trained."""

    name = "LoadsTrained"
    subject = _MODULE
    says = "A state that is loaded into a model that was trained holds all parameters that were trained"
    expected = "all that was trained is loaded"
    because = Reason(
        "trained-parameters-not-loaded",
        "Parameters that a saved state does not hold keep what they have from the last step, beside others from an "
        "earlier one: a model that never was.",
        _LOAD,
        "Save all that is trained: choose parameters by `requires_grad` and not by name.",
        "Parts that are exchanged on purpose.",
    )
    right = "best = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}"
    wrong = "best = {n: p.detach().clone() for n, p in model.named_parameters() if 'lora_A' in n}"
    place = Place.KEPT
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _of_trained)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(
            f"{names} were trained, and are not in the state that is loaded.", "part of what was trained is loaded"
        )


class LoadsBuffers(Law):
    """All parameters of a model are loaded, and its buffers are not."""

    name = "LoadsBuffers"
    subject = _MODULE
    says = "A state that holds all parameters of a model holds its buffers as well"
    expected = "buffers are saved and loaded"
    because = Reason(
        "buffers-not-loaded",
        "Running statistics of BatchNorm are buffers. A checkpoint of `parameters()` alone begins them again, and the "
        "model is another one in eval mode.",
        _STATE,
        "Save `model.state_dict()`.",
    )
    right = "torch.save(model.state_dict(), path)"
    wrong = "torch.save(dict(model.named_parameters()), path)"
    place = Place.KEPT
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _of_buffers)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"All parameters are loaded, and the buffers {names} are not.", "buffers are not loaded")


class StateCopied(Law):
    """What is loaded is the model's own memory."""

    name = "StateCopied"
    subject = "torch.nn.Module.state_dict"
    says = "What is loaded into a model lies in memory of its own"
    expected = "a copy is kept"
    because = Reason(
        "state-kept-by-reference",
        "`state_dict()` returns the tensors of the model themselves. Kept without a copy, the best weights so far are "
        "always the last ones.",
        _STATE,
        "Keep `copy.deepcopy(model.state_dict())`, or save it to a file.",
    )
    right = "best = copy.deepcopy(model.state_dict())"
    wrong = "best = model.state_dict()\n...\nmodel.load_state_dict(best)"
    place = Place.KEPT

    def places(self, run: Run) -> Examples:
        return each_process(run, _of_memory)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"The state that is loaded into {names} lies in memory that has changed since it was taken: it was "
                    "kept without a copy.", "a state without a copy")  # fmt: skip


class LoadedStays(Law):
    """What was loaded is overwritten before the first step."""

    name = "LoadedStays"
    subject = _MODULE
    says = "Parameters that were loaded have these values when the next step begins"
    expected = "loaded values are trained from"
    because = Reason(
        "loaded-values-overwritten",
        "An initialisation after loading throws away what was loaded.",
        remedy="Initialise first, and load last.",
        meant="Layers that are drawn again on purpose, as a head for other classes.",
    )
    right = "model.apply(init)\nmodel.load_state_dict(state)"
    wrong = "model.load_state_dict(state)\nmodel.apply(init)"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _overwritten)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"Weights of `{process.module_name(row)}` are initialised again after they were loaded.",
                    "loaded values are overwritten")  # fmt: skip


def _given(process: Process) -> dict[int, list[tuple[int, float]]]:
    """Each load of a state into a module, by its row: the variables below it and what the state has for each."""
    found: dict[int, list[tuple[int, float]]] = {}
    rows = process.measures(_GIVEN)
    columns = (process.parent_row[rows], process.events["args"][rows], process.events["value"][rows])
    for call, variable, value in zip(*(column.tolist() for column in columns), strict=True):
        if call >= 0:
            found.setdefault(call, []).append((variable, value))
    return found


_FILLED_IN = "num_batches_tracked"
"""What a batch norm puts itself into a state without it, which it takes for one of an old version."""


def _kind(process: Process, variable: int) -> str:
    return str(Variables.of(process).symbols[variable].get("kind", ""))


def _name(process: Process, variable: int) -> str:
    return str(Variables.of(process).symbols[variable].get("name", ""))


def _loads(process: Process, position: int) -> Examples:
    found = {
        call: [value for variable, value in items if not _name(process, variable).endswith(_FILLED_IN)]
        for call, items in _given(process).items()
    }
    found = {call: values for call, values in found.items() if values}
    holds = [any(value > 0 for value in values) for values in found.values()]
    return table(process, position, holds, list(found)) if found else EMPTY


def _of_trained(process: Process, position: int) -> Examples:
    """One example for each parameter that steps have changed and that a model of which others are loaded holds."""
    variables = Variables.of(process)
    if not process.steps:
        return EMPTY
    start = process.steps[0].begin
    rows, holds, which = [], [], []
    for call, items in _given(process).items():
        ids = np.array([variable for variable, _ in items if _kind(process, variable) == "parameter"], dtype=np.int64)
        values = dict(items)
        begin = int(process.events["seq"][call])
        if not len(ids) or begin <= start:
            continue
        first = variables.first_name[ids]
        last = next(step for step in reversed(process.steps) if step.begin < begin)
        members = variables.first_name[variables.membership(last.optimizer, last.begin).variables]
        trained = np.isin(first, members) & variables.changed(first, np.full(len(ids), start), np.full(len(ids), begin))
        given = np.array([values[number] > 0 for number in ids.tolist()], dtype=bool)
        if given[trained].any():
            rows += [call] * int(trained.sum())
            holds += given[trained].tolist()
            which += ids[trained].tolist()
    return table(process, position, holds, rows, which) if rows else EMPTY


def _of_buffers(process: Process, position: int) -> Examples:
    rows, holds, which = [], [], []
    for call, items in _given(process).items():
        parameters = [value for variable, value in items if _kind(process, variable) == "parameter"]
        buffers = [(variable, value) for variable, value in items if _kind(process, variable) == "buffer"]
        if buffers and parameters and min(parameters) > 0:
            rows += [call] * len(buffers)
            holds += [value > 0 for _, value in buffers]
            which += [variable for variable, _ in buffers]
    return table(process, position, holds, rows, which) if rows else EMPTY


def _of_memory(process: Process, position: int) -> Examples:
    rows, holds, which = [], [], []
    for call, items in _given(process).items():
        mine = [(variable, value) for variable, value in items if value > 0]
        rows += [call] * len(mine)
        holds += [value == 1 for _, value in mine]
        which += [variable for variable, _ in mine]
    return table(process, position, holds, rows, which) if rows else EMPTY


def _overwritten(process: Process, position: int) -> Examples:
    """One example for each load that gives weights: whether no more weights of a shape are initialised between it and
    the next step than the state has left out. Not where another model is made in between, whose layers begin with that.
    """
    variables, seq = Variables.of(process), process.events["seq"]
    symbols = variables.symbols
    ids = variables.ids("parameter")
    born, root = variables.first_seen(ids), variables.root[ids]
    drawn = process.rows_of_type("init")
    begins = [step.begin for step in process.steps]
    rows, holds = [], []
    for call, items in _given(process).items():
        end = int(process.events["end"][call])
        following = next((begin for begin in begins if begin > end), 0)
        weights = [(tuple(symbols[number].get("shape") or ()), value, symbols[number].get("root", 0))
                   for number, value in items if _kind(process, number) == "parameter"]  # fmt: skip
        if not following or not any(value > 0 and len(shape) > 1 for shape, value, _ in weights):
            continue
        others = ~np.isin(root, [owner for _, _, owner in weights])
        if (others & (born > end) & (born < following)).any():
            continue
        missing = Counter(shape for shape, value, _ in weights if value <= 0)
        given = {shape for shape, value, _ in weights if value > 0 and len(shape) > 1}
        made = Counter(_shape(process, row) for row in drawn[(seq[drawn] > end) & (seq[drawn] < following)].tolist())
        rows.append(call)
        holds.append(all(made[shape] <= missing[shape] for shape in given))
    return table(process, position, holds, rows) if rows else EMPTY


def _shape(process: Process, row: int) -> tuple[int, ...]:
    """The shape of the tensor that is initialised."""
    values = process.raw.symbols["args"][int(process.events["args"][row])].get("values") or {}
    tensor = values.get("tensor")
    found = tensor.get("tensor") if isinstance(tensor, Mapping) else None
    return tuple(found.get("shape") or ()) if isinstance(found, Mapping) else ()
