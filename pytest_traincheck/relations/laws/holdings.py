"""Optimizers and parameters: what is trained has to be held by an optimizer, and what is held has to be trained.

Parameters that are left out, layers in a plain list that `model.parameters()` does not see, parameters that were
replaced after the optimizer was made, a backbone in the place of the head: in each case the loss goes down less or not
at all, and nothing says why.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import requires_grad, variable_context
from pytest_traincheck.relations.covered import ONE_OPTIMIZER, Covered, HeldAs, construction_row, memberships
from pytest_traincheck.relations.laws.law import Law, Told, each_process, table, transferable
from pytest_traincheck.relations.laws.places import loaded
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.variables import Variables

_OPTIM = "https://docs.pytorch.org/docs/stable/optim.html#constructing-it"
_PARAMETER = "https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html"


def reached(process: Process, variable: Ints) -> Bools:
    """Which parameters any backward pass of the run gave a gradient to, under whichever of their names; one that is 0
    because all parts of it cancel has arrived as well.
    """

    def compute() -> Bools:
        events, variables = process.events, Variables.of(process)
        arrived = (events["kind"] == fmt.CHANGE) & (events["new"] != fmt.ABSENT)
        arrived &= process.inside("autograd") | (events["new"] != fmt.ZERO)
        mask = np.zeros(len(variables.symbols), dtype=bool)
        mask[np.unique(events["subject"][arrived])] = True
        return mask[variables.companion("gradient")] & (variables.companion("gradient") > 0)

    arrived = process.memo("reached by gradients", compute)
    return np.asarray(arrived[variable] | arrived[Variables.of(process).first_name[variable]])


def held(process: Process) -> tuple[Ints, Ints]:
    """Parameters that the optimizers that step hold when they do so for the last time, and these optimizers."""
    last = {step.optimizer: step for step in process.steps}
    members = [Variables.of(process).membership(number, step.begin).variables for number, step in last.items()]
    owners = [np.full(len(found), number) for number, found in zip(last, members, strict=True)]
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *members]), np.concatenate([nothing, *owners])


def _many(names: str, count: int, one: str, several: str) -> str:
    return f"{names} {one if count == 1 else several}"


class Unheld(Law):
    """A parameter that gets gradients is in no optimizer."""

    name = "Unheld"
    subject = "torch.optim.Optimizer.param_groups"
    says = "Every trainable parameter that gets gradients is held by an optimizer"
    expected = "every parameter that gets gradients is in an optimizer"
    because = Reason(
        "parameter-in-no-optimizer",
        "A parameter that no optimizer holds keeps the values it began with, however good its gradients are.",
        _OPTIM,
        "Hand all trainable parameters to an optimizer. Layers in a plain list or dictionary belong into "
        "`nn.ModuleList` or `nn.ModuleDict`: `parameters()` does not see them otherwise. Freeze what shall "
        "not be trained.",
    )
    right = "self.layers = nn.ModuleList(layers)\noptimizer = AdamW(model.parameters())"
    wrong = "self.layers = layers  # a plain list\noptimizer = AdamW(model.parameters())"
    place = Place.HELD
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return _of_trained(run, "none")

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        verb = _many(listed(names), len(names), "gets gradients and is", "get gradients and are")
        return Told(f"{verb} in no optimizer: no step ever changes {'it' if len(names) == 1 else 'them'}.",
                    f"{listed(names)} in no optimizer")  # fmt: skip


class HeldTwice(Law):
    """A parameter is in more than one group of the optimizers that step."""

    name = "HeldTwice"
    subject = "torch.optim.Optimizer.param_groups"
    says = "No parameter is held by more than one optimizer or group"
    expected = "every parameter in one optimizer group"
    because = Reason(
        "parameter-in-two-optimizers",
        "A parameter in two groups is moved twice in each step, with two rates and two states that do not know of each "
        "other.",
        remedy="Split the parameters by name into disjoint groups.",
    )
    right = "head = Adam(model.head.parameters())\nbody = Adam(model.body.parameters())"
    wrong = "head = Adam(model.head.parameters())\nbody = Adam(model.parameters())"
    place = Place.HELD

    def places(self, run: Run) -> Examples:
        return _of_trained(run, "several")

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        return Told(f"{_many(listed(names), len(names), 'is', 'are')} in more than one optimizer group.",
                    f"{listed(names)} in more than one optimizer group")  # fmt: skip


def _of_trained(run: Run, wrong: str) -> Examples:
    """One example for each trainable parameter that gets gradients."""
    examples = Covered().examples(HeldAs(ONE_OPTIMIZER), run)
    if not len(examples) or examples.observed is None:
        return EMPTY
    kept = np.zeros(len(examples), dtype=bool)
    for number, process in enumerate(run.processes):
        mine = examples.process == number
        kept[mine] = reached(process, examples.variable[mine])
    holds = ~examples.observed.isin([wrong])
    if wrong == "none":
        holds |= _held_elsewhere(run, examples) | _held_in_time(run, examples) | _only_passed(run, examples)
        holds |= _written(run, examples)
    else:
        holds |= ~_take_turns(run, examples)
    return transferable(
        Examples(
            holds[kept],
            examples.process[kept],
            examples.row[kept],
            examples.variable[kept],
            {name: column.take(kept) for name, column in examples.context.items()},
            examples.observed.take(kept),
        )
    )


def _held_elsewhere(run: Run, examples: Examples) -> Bools:
    """Which parameters an optimizer of another rank holds, as where each rank updates its share and sends it around."""
    names = {process.names.variables[int(number)] for process in run.processes for number in held(process)[0]}
    found = [
        run.processes[int(process)].names.variables[int(variable)] in names
        for process, variable in zip(examples.process, examples.variable, strict=True)
    ]
    return np.array(found, dtype=bool)


def _held_in_time(run: Run, examples: Examples) -> Bools:
    """Which parameters an optimizer holds in the step after their last gradient. Where layers are put before others
    these have other names from then on, and what had the old ones is in no optimizer, nor anywhere else.
    """
    found = np.zeros(len(examples), dtype=bool)
    for number, process in enumerate(run.processes):
        mine = np.flatnonzero(examples.process == number)
        if not len(mine) or not process.steps:
            continue
        variables, events = Variables.of(process), process.events
        gradient = variables.companion("gradient")[examples.variable[mine]]
        arrived = np.flatnonzero((events["kind"] == fmt.CHANGE) & (events["new"] == fmt.NONZERO))
        last = np.zeros(len(variables.symbols), dtype=np.int64)
        np.maximum.at(last, events["subject"][arrived], events["seq"][arrived].astype(np.int64))
        begins = np.array([step.begin for step in process.steps], dtype=np.int64)
        step = np.minimum(np.searchsorted(begins, last[gradient]), len(begins) - 1)
        for index in np.unique(step).tolist():
            held_then = memberships(process, int(begins[index]))[examples.variable[mine]] > 0
            found[mine] |= (step == index) & (gradient > 0) & held_then
    return found


def _only_passed(run: Run, examples: Examples) -> Bools:
    """Which parameters belong to a model that was loaded and of which no optimizer holds anything: gradients pass
    through it, as through one that a loss compares features of.
    """
    found = np.zeros(len(examples), dtype=bool)
    for number, process in enumerate(run.processes):
        mine, variables = examples.process == number, Variables.of(process)
        given, roots = loaded(process), variables.root[examples.variable[mine]]
        found[mine] = np.isin(roots, variables.root[given]) & ~np.isin(roots, variables.root[variables.held])
    return found


def _written(run: Run, examples: Examples) -> Bools:
    """Which parameters change in most steps though no optimizer holds them: one that averages, say, holds points of its
    own and writes what lies between these into the model.
    """
    found = np.zeros(len(examples), dtype=bool)
    for number, process in enumerate(run.processes):
        mine, ends = np.flatnonzero(examples.process == number), process.step_ends.astype(np.int64)
        if len(mine) and len(ends) > 1:
            variable = Variables.of(process).first_name[examples.variable[mine]]
            changed = Variables.of(process).changed(variable[:, None], ends[None, :-1], ends[None, 1:])
            found[mine] = changed.mean(1) >= 0.5
    return found


def _take_turns(run: Run, examples: Examples) -> Bools:
    """In which processes two optimizers that hold the same parameters step between each other's steps; where one goes
    on when the other has ended, it has taken its place.
    """
    found = np.zeros(len(run.processes), dtype=bool)
    for number, process in enumerate(run.processes):
        variables, owners = held(process)
        spans = {step.optimizer: [step.begin, step.end] for step in reversed(process.steps)}
        for step in process.steps:
            spans[step.optimizer][1] = step.end
        for one in spans:
            for other in spans:
                overlap = spans[one][0] < spans[other][0] < spans[one][1]
                shared = np.isin(variables[owners == one], variables[owners == other]).any()
                found[number] |= bool(one != other and overlap and shared)
    return found[examples.process]


class Unreached(Law):
    """A trainable parameter of an optimizer gets no gradient in any step."""

    name = "Unreached"
    subject = "torch.autograd.backward"
    says = "Every trainable parameter that an optimizer holds gets a gradient in some step"
    expected = "gradients reach every trainable parameter of the optimizer"
    because = Reason(
        "parameter-without-gradient",
        "A parameter that no backward pass reaches is not trained: it is not used in the forward pass, what it makes "
        "is detached, or the optimizer holds another tensor than the model uses.",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad",
        "Make the optimizer after the last change of the model's parameters, and look for `detach()`, `.data`, "
        "`no_grad()` and `.item()` between the parameter and the loss.",
        "Parts of a model that only some batches use, and heads that are kept for another task.",
    )
    right = "model.head = nn.Linear(64, 10)\noptimizer = AdamW(model.parameters())"
    wrong = "optimizer = AdamW(model.parameters())\nmodel.head = nn.Linear(64, 10)"
    place = Place.HELD
    depth = 2
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _reached_places)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        verb = _many(listed(names), len(names), "is", "are")
        return Told(
            f"{verb} held by an optimizer, and no backward pass of the run gives {'it' if len(names) == 1 else 'them'} "
            "a gradient: nothing trains there.",
            "no gradient in any step",
        )


def _reached_places(process: Process, position: int) -> Examples:
    """One example for each trainable parameter of an optimizer that makes two steps or more."""
    variables, owners = held(process)
    several = [number for number in np.unique(owners) if sum(step.optimizer == number for step in process.steps) > 1]
    kept = np.isin(owners, several) & requires_grad(process)[variables]
    variables, owners = variables[kept], owners[kept]
    if not len(variables):
        return EMPTY
    context = variable_context(process, variables)
    rows = [construction_row(process, number) for number in owners.tolist()]
    loose = Variables.of(process).root[variables] == 0
    return table(
        process,
        position,
        reached(process, variables),
        rows,
        variables,
        {"shape": context["shape"], "of_model": Labels.flags(~loose)},
    )


class Idle(Law):
    """An optimizer steps and none of its parameters ever has a gradient."""

    name = "Idle"
    subject = "torch.optim.Optimizer.step"
    says = "Some parameter of each optimizer that steps gets a gradient"
    expected = "an optimizer holds what the loss depends on"
    because = Reason(
        "optimizer-without-gradients",
        "An optimizer whose parameters get no gradients does nothing in its steps: it holds frozen parameters, those "
        "of another copy of the model, or such that were replaced after it was made.",
        _OPTIM,
        "Make the optimizer from the parameters of the model that is called in training, after the model is complete "
        "(loaded, converted, wrapped, frozen).",
    )
    right = "model = convert(model)\noptimizer = SGD(model.parameters(), lr=0.1)"
    wrong = "optimizer = SGD(model.parameters(), lr=0.1)\nmodel = convert(model)"
    place = Place.HELD
    depth = 2
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _idle_places)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = run.processes[int(examples.process[broken[0]])], int(examples.row[broken[0]])
        name = process.names.optimizers[int(process.events["opt"][row])]
        return Told(f"`{name}` steps, and none of the parameters that it holds ever gets a gradient.",
                    "steps over parameters without gradients")  # fmt: skip


def _idle_places(process: Process, position: int) -> Examples:
    variables, owners = held(process)
    if not len(variables):
        return EMPTY
    # A copy that requires no gradient may be given one right before the step, which shows in what the step does.
    useful, numbers = reached(process, variables) | _moved_by_steps(process, variables, owners), np.unique(owners)
    holds = [bool(useful[owners == number].any()) for number in numbers]
    first = {step.optimizer: step.row for step in reversed(process.steps)}
    return table(process, position, holds, [first[number] for number in numbers.tolist()])


def _moved_by_steps(process: Process, variables: Ints, owners: Ints) -> Bools:
    """Which parameters a step of the optimizer that holds them has changed."""
    changed, found = Variables.of(process).changed, np.zeros(len(variables), dtype=bool)
    for step in process.steps:
        mine = np.flatnonzero(owners == step.optimizer)
        found[mine] |= changed(variables[mine], np.full(len(mine), step.begin), np.full(len(mine), step.end))
    return found


class Unmoved(Law):
    """A parameter has gradients in the steps of its optimizer and never changes."""

    name = "Unmoved"
    subject = "torch.optim.Optimizer.step"
    says = "A parameter that has gradients when its optimizer steps is changed by some step"
    expected = "steps change the parameters that have gradients"
    because = Reason(
        "parameter-never-moves",
        "A step that leaves a parameter with a gradient as it was does not train it: the update is lost in a copy, is "
        "rounded away, or the parameter is written back each time.",
        remedy="Look for a learning rate of 0, parameters in half precision, and code that writes parameters after the "
        "step.",
    )
    right = "master = model.float()\noptimizer = AdamW(master.parameters(), lr=1e-4)"
    wrong = "model = model.bfloat16()\noptimizer = SGD(model.parameters(), lr=1e-6)"
    place = Place.UPDATE
    depth = 3
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _moved_places)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        verb = _many(listed(names), len(names), "has", "have")
        return Told(f"{verb} gradients when the optimizer steps, and no step of the run changes "
                    f"{'it' if len(names) == 1 else 'them'}.", "no step changes it")  # fmt: skip


def _moved_places(process: Process, position: int) -> Examples:
    """One example for each parameter with two dimensions or more that had a gradient at two steps or more with a
    learning rate other than 0. That of a bias may be rounding noise, where a norm follows.
    """
    lines, variables = Variables.of(process).step_table, Variables.of(process)
    if not len(lines.variable):
        return EMPTY
    first = variables.first_name[lines.variable]
    begin, end = lines.column("begin"), lines.column("end")
    gradient = variables.companion("gradient")[first]
    rated = rates(process) != 0
    pushed = rated & (gradient > 0) & (variables.state(gradient, begin) == fmt.NONZERO)
    pushed &= variables.last(first, end) >= 0
    moved = variables.changed(first, begin - 1, end)
    counts = np.bincount(first[pushed], minlength=len(variables.symbols))
    moves = np.bincount(first[pushed & moved], minlength=len(variables.symbols))
    chosen = np.flatnonzero(counts > 1)
    chosen = chosen[variable_context(process, chosen)["shape"].isin(["matrix"])]
    if not len(chosen):
        return EMPTY
    row_of = dict(zip(first.tolist(), lines.column("row").tolist(), strict=True))
    return table(process, position, moves[chosen] > 0, [row_of[number] for number in chosen.tolist()], chosen)


def rates(process: Process) -> np.ndarray:
    """The learning rate of every line of the step table; NaN where it is not known."""
    variables = Variables.of(process)
    lines = variables.step_table
    table = {(symbol.get("opt", 0), symbol.get("group", 0)): number
             for number, symbol in enumerate(variables.symbols) if symbol.get("kind") == "lr"}  # fmt: skip
    pairs = zip(lines.column("optimizer").tolist(), lines.group.tolist(), strict=True)
    numbers = np.array([table.get(pair, 0) for pair in pairs], dtype=np.int64)
    rows = variables.last(numbers, lines.column("begin"))
    values = process.events["value"]
    return np.where((numbers > 0) & (rows >= 0), values[np.maximum(rows, 0)], np.nan)
