"""Clipping and loss scaling: gradients are clipped when they are there, complete, and free of the loss scale.

Clipping before the last `backward` of a step or after the step does nothing to what the step uses. Gradients that still
carry the scale of a `GradScaler` are tens of thousands of times too large, so that a bound of 1 leaves next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.gradients import Gradients
from pytest_traincheck.trace.labels import Ints
from pytest_traincheck.trace.process import OptimizerStep
from pytest_traincheck.trace.variables import Variables

_CLIP = "https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html"
_AMP = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping"
_SCALER = "https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling"
_LEAST = 4
"""Steps that a gradient scaler has to be asked for before all of them may have been skipped by mistake."""
_ALL = 0.9
"""Share of the gradients to which another backward pass adds that counts as all of them."""


class ClipComplete(Law):
    """Gradients are clipped before the last backward pass has added to them, or when the step is over."""

    name = "ClipComplete"
    subject = "torch.nn.utils.clip_grad_norm_"
    says = "Gradients are clipped after the last backward pass of a step and before the step"
    expected = "clipping between the last `backward` and the step"
    because = Reason(
        "clip-out-of-place",
        "A step uses the gradients as they are when it begins. What is clipped before the last `backward` is added to, "
        "and what is clipped after the step was used already: neither bounds what the step does.",
        _CLIP,
        "Call the clipping function once, between the last `backward` and `optimizer.step()`.",
    )
    right = "loss.backward()\nclip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()"
    wrong = "clip_grad_norm_(model.parameters(), 1.0)\nloss.backward()\noptimizer.step()"
    place = Place.PREPARATION
    deviation = Deviation.MISPLACED

    def places(self, run: Run) -> Examples:
        return each_process(run, _in_place)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.api[row]}` is called {in_step(run, examples, broken)} where no backward pass lies between the "
            "step before and it, or where another one follows before the step: what the step uses is not clipped.",
            "clipping before the last `backward` or after the step",
        )


class ClipsNothing(Law):
    """Clipping finds no gradients at all in any step."""

    name = "ClipsNothing"
    subject = "torch.nn.utils.clip_grad_norm_"
    says = "The gradients that are clipped are there: their norm is not 0 in every step"
    expected = "clipping finds gradients"
    because = Reason(
        "clip-without-gradients",
        "A norm of exactly 0 in every step means that the clipping function was given nothing: an iterator that is "
        "used up, parameters of another model, or gradients that are not computed yet.",
        _CLIP,
        "Hand over `model.parameters()` in each step, or a list; a generator is empty after its first use.",
    )
    right = "clip_grad_norm_(model.parameters(), 1.0)"
    wrong = "parameters = model.parameters()\nfor batch in loader:\n    ...\n    clip_grad_norm_(parameters, 1.0)"
    place = Place.PREPARATION
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _clipped_norms)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` finds a norm of exactly 0 although gradients are there: it is given no "
                    "parameters that have any.", "clipping finds no gradients")  # fmt: skip


class ClipScaled(Law):
    """Gradients are clipped while they carry the loss scale."""

    name = "ClipScaled"
    subject = "torch.amp.GradScaler.unscale_"
    says = "Gradients of a scaled loss are unscaled before they are clipped"
    expected = "`scaler.unscale_(optimizer)` before clipping"
    because = Reason(
        "clip-before-unscale",
        "Gradients of a loss that a `GradScaler` has scaled are larger by its scale, 65536 at first. A bound for their "
        "norm that is meant for real gradients makes them next to nothing.",
        _AMP,
        "Call `scaler.unscale_(optimizer)` between `backward` and clipping.",
    )
    right = "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nclip_grad_norm_(p, 1.0)\nscaler.step(optimizer)"
    wrong = "scaler.scale(loss).backward()\nclip_grad_norm_(p, 1.0)\nscaler.step(optimizer)"
    place = Place.PREPARATION
    deviation = Deviation.MISPLACED

    def places(self, run: Run) -> Examples:
        return each_process(run, _unscaled)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` is called before the gradients of the scaled loss are unscaled, first "
                    f"{in_step(run, examples, broken)}.", "clipping of scaled gradients")  # fmt: skip


class StepsSkipped(Law):
    """A gradient scaler skips every step."""

    name = "StepsSkipped"
    subject = "torch.amp.GradScaler.step"
    says = "A gradient scaler that is asked for steps takes some of them"
    expected = "steps are taken once the loss scale has settled"
    because = Reason(
        "scaler-skips-every-step",
        "A `GradScaler` skips a step whose gradients are not finite and halves its scale. One that skips every step "
        "trains nothing: the scale begins far too high or the gradients are not finite at any scale.",
        _SCALER,
        "Begin with the default scale; look for the first non-finite number where the scale is small already.",
    )
    right = 'scaler = torch.amp.GradScaler("cuda")'
    wrong = 'scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)'
    place = Place.STEP
    deviation = Deviation.NEVER

    def places(self, run: Run) -> Examples:
        return each_process(run, _taken)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("`GradScaler.step` skips every step of the run: the gradients are not finite in any of them.",
                    "every step is skipped")  # fmt: skip


def clips(process: Process) -> Ints:
    """Outermost calls that clip gradients, in order; not those that only measure a norm."""
    rows = process.rows_of_type("clip")
    within = process.inside("clip", "optimizer", "autograd") | vocabulary.only_measures(process)
    kept = [row for row in rows[~within[rows]].tolist() if not process.api[row].endswith("get_total_norm")]
    return np.array(kept, dtype=np.int64)


def _in_place(process: Process, position: int) -> Examples:
    """One example for each clipping call that a step follows. It holds if there are gradients of an optimizer that no
    step has used yet, and to which no other backward pass adds before the next one does.
    """
    rows = clips(process)
    steps: dict[int, list[OptimizerStep]] = {}
    for step in process.steps:
        steps.setdefault(step.optimizer, []).append(step)
    found: dict[int, bool] = {}
    for row in rows.tolist():
        begin, end = int(process.events["seq"][row]), int(process.events["end"][row])
        verdicts = [
            verdict for mine in steps.values() if (verdict := _of_optimizer(process, mine, begin, end)) is not None
        ]
        if verdicts:
            found[row] = any(verdicts)
    return table(process, position, list(found.values()), list(found)) if found else EMPTY


def _of_optimizer(process: Process, steps: Sequence[OptimizerStep], begin: int, end: int) -> bool | None:
    """Whether clipping from `begin` to `end` bounds what the next step of an optimizer uses; None if there is none."""
    following = next((step for step in steps if step.begin > end), None)
    if following is None:
        return None
    variables, gradients = Variables.of(process), Gradients.of(process)
    held = variables.first_name[variables.membership(following.optimizer, following.begin).variables]
    gradient = variables.companion("gradient")[held]
    gradient = gradient[gradient > 0]
    at = np.full(len(gradient), begin)
    state = variables.state(gradient, at)
    gradient = gradient[(state == fmt.NONZERO) | (state == fmt.NONFINITE)]
    at = np.full(len(gradient), begin)
    arrived = gradients.additions(gradient, np.full(len(gradient), following.previous_end), at) > 0
    later = gradients.additions(gradient, np.full(len(gradient), end), np.full(len(gradient), following.begin)) > 0
    return bool(arrived.any() and later.mean() < _ALL)


def _clipped_norms(process: Process, position: int) -> Examples:
    """One example for each line that clips: whether any of its calls found a norm."""
    rows = clips(process)
    values = process.events["value"][rows]
    rows, values = rows[~np.isnan(values)], values[~np.isnan(values)]
    places = process.events["src"][rows]
    chosen = [np.flatnonzero(places == number) for number in np.unique(places)]
    chosen = [mine for mine in chosen if len(mine) > 1]
    if not chosen:
        return EMPTY
    return table(
        process, position, [bool((values[mine] != 0).any()) for mine in chosen], [rows[mine[0]] for mine in chosen]
    )


def _scaler_calls(process: Process, name: str) -> Ints:
    rows = process.rows_of_type("scaler")
    return np.array([row for row in rows.tolist() if process.api[row].endswith(f".{name}")], dtype=np.int64)


def _unscaled(process: Process, position: int) -> Examples:
    """One example for each clipping call of gradients whose loss was scaled."""
    rows, seq = clips(process), process.events["seq"]
    scaled, unscaled = (seq[_scaler_calls(process, name)].astype(np.int64) for name in ("scale", "unscale_"))
    measured, roots = process.measures("scaler.unscaled"), process.measures("backward.root")
    if not len(rows) or not len(scaled) or not _scales(process, measured, roots):
        return EMPTY
    last = np.searchsorted(scaled, seq[rows]) - 1
    rows, last = rows[last >= 0], last[last >= 0]
    between = np.searchsorted(unscaled, seq[rows]) - np.searchsorted(unscaled, scaled[last])
    return table(process, position, between > 0, rows)


def _scales(process: Process, measured: Ints, roots: Ints) -> bool:
    """Whether what backward passes start from is larger than the loss that was handed to the scaler: one that is
    switched off hands it back as it is.
    """
    values = process.events["value"]
    position = np.searchsorted(roots, measured)
    known = position < len(roots)
    before, after = values[measured[known]], values[roots[position[known]]]
    return bool((np.abs(after) > 1.5 * np.abs(before)).any())


def _taken(process: Process, position: int) -> Examples:
    rows = _scaler_calls(process, "step")
    if len(rows) < _LEAST:
        return EMPTY
    begins, ends = process.events["seq"][rows].astype(np.int64), process.events["end"][rows].astype(np.int64)
    steps = process.rows_of_type("optimizer")
    times = np.sort(process.events["seq"][steps].astype(np.int64))
    taken = np.searchsorted(times, ends) > np.searchsorted(times, begins)
    return table(process, position, [bool(taken.any())], rows[:1])
