"""Precision: master weights in float32, autocast around the forward pass, numbers that are finite."""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import variable_context
from pytest_traincheck.relations.laws.holdings import held
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table
from pytest_traincheck.relations.laws.places import arguments, calls_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Place
from pytest_traincheck.relations.vocabulary import is_loss
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.gradients import Gradients
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

_AMP = "https://docs.pytorch.org/docs/stable/amp.html#torch.autocast"
_EXAMPLES = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html"
_HALF = ("bfloat16", "float16")
_LEAST = 3
_PRODUCTS = ("linear", "matmul", "bmm", "conv1d", "conv2d", "conv3d", "baddbmm", "addmm", "mm")


class WeightsInFull(Law):
    """An optimizer steps over weights in half precision."""

    name = "WeightsInFull"
    subject = "torch.nn.Module.to"
    says = "The parameters that an optimizer holds are in float32 or finer"
    expected = "master weights in float32"
    because = Reason(
        "weights-in-half-precision",
        "A bfloat16 number has three digits: an update below a three-hundredth of a weight is rounded away. Autocast "
        "computes in half precision and keeps the weights as they are.",
        _AMP,
        "Keep the model in float32 and put `torch.autocast` around the forward pass.",
        "Fine-tuning with an optimizer that keeps float32 copies or rounds at random.",
    )
    right = 'with torch.autocast("cuda", torch.bfloat16):\n    loss = criterion(model(x), y)'
    wrong = "model = model.to(torch.bfloat16)\noptimizer = AdamW(model.parameters())"
    place = Place.INITIAL

    def places(self, run: Run) -> Examples:
        return each_process(run, _held_types)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(
            f"{names} are trained in half precision: small updates are rounded away.", "weights in half precision"
        )


class ForwardUnderAutocast(Law):
    """Part of what autocast is for is computed in float32 in a compiled model."""

    name = "ForwardUnderAutocast"
    subject = "torch.autocast"
    says = "Below autocast all matrix products of one model are computed in one precision"
    expected = "products in half precision below autocast"
    because = Reason(
        "autocast-not-reached",
        "A function of its own that casts its inputs to float32, or that autocast does not know, is computed in full "
        "precision below autocast: it takes more time and memory than it was meant to.",
        "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions",
        "Use `custom_fwd(device_type=...)` without `cast_inputs` for functions that autocast shall reach.",
        "Parts that are kept in float32 on purpose.",
    )
    right = '@custom_fwd(device_type="cuda")\ndef forward(ctx, x, weight): ...'
    wrong = '@custom_fwd(device_type="cuda", cast_inputs=torch.float32)\ndef forward(ctx, x, weight): ...'
    place = Place.FORWARD
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _products)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"Matrix products of `{process.module_name(row)}` are computed in float32 below autocast.",
                    "float32 below autocast")  # fmt: skip


class BackwardOutsideAutocast(Law):
    """`backward` is called below autocast."""

    name = "BackwardOutsideAutocast"
    subject = "torch.autograd.backward"
    says = "`backward` is called outside of autocast"
    expected = "autocast around the forward pass alone"
    because = Reason(
        "backward-below-autocast",
        "The backward pass computes each gradient in the precision of its forward operation by itself. Below autocast "
        "functions of one's own are cast once more, and the documentation advises against it.",
        _EXAMPLES,
        "End the `with torch.autocast(...)` block before `backward`.",
    )
    right = "with torch.autocast(...):\n    loss = criterion(model(x), y)\nloss.backward()"
    wrong = "with torch.autocast(...):\n    loss = criterion(model(x), y)\n    loss.backward()"
    place = Place.BACKWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _backwards)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"`backward` is called below autocast, first {in_step(run, examples, broken)}.",
                    "backward below autocast")  # fmt: skip


class LossFinite(Law):
    """A loss is not finite."""

    name = "LossFinite"
    subject = "torch.nn.functional"
    says = "Losses of training are finite"
    expected = "finite losses"
    because = Reason(
        "loss-not-finite",
        "A loss of NaN or infinity makes all gradients NaN, and every parameter with the next step.",
        remedy="Look for logarithms and roots of 0, divisions by a count of 0, and learning rates that are too high.",
    )
    right = "loss = F.cross_entropy(logits, y)"
    wrong = "loss = -(y * logits.softmax(-1).log()).sum()"
    place = Place.DIVERGED
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _finite)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.api[row]}` is not finite {in_step(run, examples, broken)}.", "a loss that is not finite"
        )


class GradientsFinite(Law):
    """An optimizer steps with gradients that are not finite."""

    name = "GradientsFinite"
    subject = "torch.optim.Optimizer.step"
    says = "Gradients are finite when an optimizer steps"
    expected = "finite gradients"
    because = Reason(
        "gradients-not-finite",
        "A step with a gradient of NaN makes NaN of the parameter for good.",
        "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling",
        "Look for the first non-finite number with `torch.autograd.set_detect_anomaly(True)`.",
    )
    right = "norm = clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)"
    wrong = "clip_grad_norm_(parameters, 1.0)  # NaN stays NaN"
    place = Place.DIVERGED
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _finite_gradients)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"Gradients of {names} are not finite when the optimizer steps {in_step(run, examples, broken)}.",
                    "gradients that are not finite")  # fmt: skip


class GradientsNotZero(Law):
    """The gradient of a weight is exactly 0 in every step."""

    name = "GradientsNotZero"
    subject = "torch.autograd.backward"
    says = "The gradient of a weight is not exactly 0 in all steps"
    expected = "gradients other than 0"
    because = Reason(
        "gradient-always-zero",
        "A weight whose gradient is exactly 0 whenever it steps learns nothing: what it makes is multiplied by 0, "
        "masked, clamped, or cut off by a unit that never fires.",
        remedy="Look at what follows the weight: `clamp`, `relu`, masks, rates and scales of 0.",
        meant="Parts that few examples use, and second factors that begin at 0.",
    )
    right = "gate = nn.Parameter(torch.full((n,), 1e-4))"
    wrong = "out = 0 * self.branch(x) + x"
    place = Place.ARRIVAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _zero_gradients)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = variable_names(run, examples, np.array(broken))
        return Told(f"The gradient of {listed(names)} is exactly 0 in every step.", "a gradient of exactly 0")


class KeepsNoGraph(Law):
    """The graph is kept after each backward pass."""

    name = "KeepsNoGraph"
    subject = "torch.autograd.backward"
    says = "The graph of a step is not kept after its last backward pass"
    expected = "`backward()` without `retain_graph`"
    because = Reason(
        "graph-is-kept",
        "`retain_graph=True` in each step hides that part of the graph belongs to an earlier one: a hidden state or a "
        "loss that is carried on is differentiated again and again, and memory grows.",
        "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html",
        "Detach what is carried from step to step.",
        "Two backward passes through one graph.",
    )
    right = "hidden = hidden.detach()\nloss.backward()"
    wrong = "loss.backward(retain_graph=True)"
    place = Place.BACKWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _kept_graphs)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("The last `backward` of each step keeps its graph: `retain_graph=True`.", "`retain_graph=True`")


def _held_types(process: Process, position: int) -> Examples:
    variables, owners = held(process)
    if not len(variables):
        return EMPTY
    symbols = Variables.of(process).symbols
    holds = [str(symbols[number].get("dtype", "")) not in _HALF for number in variables.tolist()]
    first = {step.optimizer: step.row for step in reversed(process.steps)}
    return table(process, position, holds, [first[number] for number in owners.tolist()], variables)


def _products(process: Process, position: int) -> Examples:
    """One example for each matrix product of a compiled graph that computes some in half precision."""
    rows, half = [], []
    for symbol in process.raw.symbols["measure"][1:]:
        api, _, dtype = str(symbol.get("name", "")).removeprefix("compiled:").partition("=")
        if str(symbol.get("name", "")).startswith("compiled:") and api.rpartition(".")[2] in _PRODUCTS:
            found = process.measures(str(symbol["name"])).tolist()
            rows += found
            half += [dtype in _HALF] * len(found)
    if not any(half):
        return EMPTY
    return table(process, position, half, rows)


def _outermost_backwards(process: Process) -> np.ndarray:
    rows = process.rows_of_type("autograd")
    rows = rows[~process.inside("autograd", "optimizer")[rows]]
    return rows[process.api.take(rows).isin(["torch.autograd.backward"])]


def _backwards(process: Process, position: int) -> Examples:
    rows = _outermost_backwards(process)
    if process.autocast.take(rows).isin(["off"]).all() and process.autocast.isin(["off"]).all():
        return EMPTY
    return table(process, position, process.autocast.take(rows).isin(["off"]), rows) if len(rows) else EMPTY


def _finite(process: Process, position: int) -> Examples:
    losses = {name for name in process.api.values if is_loss(name)}
    rows = calls_of(process, losses)
    rows = rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)]
    infinite = (process.events["flags"][rows] & fmt.NONFINITE_RESULT) != 0
    known = ~infinite | ~_may_be_skipped(process, rows)
    return table(process, position, ~infinite[known], rows[known]) if known.any() else EMPTY


def _may_be_skipped(process: Process, rows: Ints) -> Bools:
    """Which losses lie in a step that a gradient scaler skips where gradients are not finite: before the next step that
    it is asked for.
    """
    scaler = process.rows_of_type("scaler")
    asked = scaler[[process.api[row].endswith("GradScaler.step") for row in scaler.tolist()]]
    return process.window[rows] <= (process.window[asked].max() if len(asked) else -1)


def _finite_gradients(process: Process, position: int) -> Examples:
    """One example for each optimizer's parameter at each step: those that fail, and one of each step."""
    variables = Variables.of(process)
    lines = variables.step_table
    if not len(lines.variable):
        return EMPTY
    gradient = variables.companion("gradient")[variables.first_name[lines.variable]]
    state = variables.state(gradient, lines.column("begin"))
    rows = lines.column("row")
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[np.unique(rows, return_index=True)[1]] = True
    chosen |= state == fmt.NONFINITE
    return table(process, position, state[chosen] != fmt.NONFINITE, rows[chosen], lines.variable[chosen])


def _zero_gradients(process: Process, position: int) -> Examples:
    """One example for each weight that has a gradient at three steps or more."""
    variables = Variables.of(process)
    lines = variables.step_table
    if not len(lines.variable):
        return EMPTY
    first = variables.first_name[lines.variable]
    gradient = variables.companion("gradient")[first]
    state = variables.state(gradient, lines.column("begin"))
    there = (gradient > 0) & (state != fmt.ABSENT)
    total = np.bincount(first[there], minlength=len(variables.symbols))
    zero = np.bincount(first[there & (state == fmt.ZERO)], minlength=len(variables.symbols))
    arrived = _arrivals(process)
    chosen = np.flatnonzero((total >= _LEAST) & arrived)
    chosen = chosen[variable_context(process, chosen)["shape"].isin(["matrix"])] if len(chosen) else chosen
    if not len(chosen):
        return EMPTY
    row_of = dict(zip(first.tolist(), lines.column("row").tolist(), strict=True))
    return table(
        process, position, zero[chosen] < total[chosen], [row_of[number] for number in chosen.tolist()], chosen
    )


def _arrivals(process: Process) -> np.ndarray:
    """Which parameters a backward pass reached: a gradient that only `zero_grad` has made 0 is none."""
    variables = Variables.of(process)
    mask = np.zeros(len(variables.symbols), dtype=bool)
    mask[process.events["subject"][Gradients.of(process).rows_of_additions]] = True
    gradient = variables.companion("gradient")
    return mask[gradient] & (gradient > 0)


def _kept_graphs(process: Process, position: int) -> Examples:
    """One example for each step: whether the last backward pass before it keeps its graph."""
    backward = _outermost_backwards(process)
    seq = process.events["seq"]
    rows = []
    for step in process.steps:
        last = int(np.searchsorted(seq[backward], step.begin)) - 1
        if last >= 0 and seq[backward[last]] > step.previous_end:
            rows.append(int(backward[last]))
    rows = list(dict.fromkeys(rows))
    if not rows:
        return EMPTY
    args = [arguments(process, row) for row in rows]
    holds = [not (values.get("retain_graph") is True and not values.get("create_graph")) for values in args]
    created = [bool(values.get("create_graph")) for values in args]
    return table(process, position, holds, rows, None, {"create_graph": Labels.flags(np.array(created))})
