"""What each optimizer step of one training process was given and what it left, as hashes and a few numbers.

It reaches further than what calls computed, which is recorded of the first steps only, and says less: whether two runs
are the same to the last bit, and which losses they had.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint16]

MOST = 1 << 15
"""Hashes in a table: of a model with many parameters fewer steps are kept."""
LEAST = 24
"""Steps that are kept of any model, as far as they were made."""


@dataclass(frozen=True)
class Step:
    """One optimizer step, with what came since the step before."""

    optimizer: str
    window: int = 0
    """Number of the training step that it belongs to."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Hashes of what models were given in training forward passes, sorted, each with the name of its model."""
    batches: tuple[str, ...] = ()
    """Hashes of the batches that loaders returned while gradients were recorded, sorted."""
    random: Mapping[str, str] = field(default_factory=dict)
    """Hash of the state before the step of each global generator that training draws from."""
    losses: tuple[float, ...] = ()
    """The numbers that backward passes started from."""
    computed: tuple[tuple[str, float], ...] = ()
    """Functions that returned one number while gradients were recorded, and the number."""
    norm: float = 0.0
    """L2 norm of all gradients of the optimizer together: those that the step uses."""
    rates: tuple[float, ...] = ()
    """The learning rate of each group."""
    weights: tuple[float, ...] = ()
    """What each term of the losses is multiplied by; empty where that is 1 for all of them, or not known."""


@dataclass(frozen=True, eq=False)
class StepLog:
    """The steps of all optimizers of a process in order, n of them at most."""

    steps: tuple[Step, ...]
    trained: tuple[str, ...]
    """Names of the parameters that some optimizer holds."""
    others: tuple[str, ...]
    """Names of the other parameters, and of buffers."""
    values: Hashes
    """A hash of each of `trained` and `others`, in this order, before each step and after the last: shape
    (n + 1, variables); 0 where it was not seen yet.
    """
    gradients: Hashes
    """A hash of the gradient of each of `trained` that a step uses, shape (n, trained); 0 where it is zero or none."""
    waited: tuple[int, ...] = ()
    """After how many training steps the process waited for other ranks, which had more data or less."""

    def __post_init__(self) -> None:
        count, names = len(self.steps), len(self.trained) + len(self.others)
        if self.values.shape != (count + 1, names) or self.gradients.shape != (count, len(self.trained)):
            raise ValueError("the tables of a log have other shapes than its steps and names")

    def first(self, count: int) -> StepLog:
        """The first steps alone."""
        return replace(
            self, steps=self.steps[:count], values=self.values[: count + 1], gradients=self.gradients[:count]
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": [_step_to_json(step) for step in self.steps],
            "trained": list(self.trained),
            "others": list(self.others),
            "values": _packed(self.values),
            "gradients": _packed(self.gradients),
            **({"waited": list(self.waited)} if self.waited else {}),
        }

    @staticmethod
    def from_json(content: Any) -> StepLog:
        """What `to_json` gave. Raises `ValueError` for anything else."""
        always = {"steps", "trained", "others", "values", "gradients"}
        if not isinstance(content, dict) or content.keys() - {"waited"} != always:
            raise ValueError("a log of steps has other keys than this format")
        if not isinstance(content["steps"], list):
            raise ValueError("the steps of a log are not a list")
        steps = tuple(map(_step_from_json, content["steps"]))
        trained, others = _texts(content["trained"]), _texts(content["others"])
        return StepLog(
            steps,
            trained,
            others,
            _unpacked(content["values"], len(steps) + 1, len(trained) + len(others)),
            _unpacked(content["gradients"], len(steps), len(trained)),
            _counts(content.get("waited", [])),
        )


def _step_to_json(step: Step) -> list[Any]:
    return [
        step.optimizer,
        step.window,
        [list(pair) for pair in step.inputs],
        list(step.batches),
        dict(step.random),
        list(map(repr, step.losses)),
        [[name, repr(value)] for name, value in step.computed],
        repr(step.norm),
        list(map(repr, step.rates)),
        *([list(map(repr, step.weights))] if step.weights else []),
    ]


def _step_from_json(content: Any) -> Step:
    if not isinstance(content, list) or len(content) not in (9, 10) or not isinstance(content[4], dict):
        raise ValueError("a step of a log has other fields than this format")
    optimizer, window, inputs, batches, random, losses, computed, norm, rates = content[:9]
    if type(window) is not int or window < 0:
        raise ValueError("the number of a training step is none")
    return Step(
        _text(optimizer),
        window,
        _pairs(inputs),
        _texts(batches),
        {_text(name): _text(state) for name, state in random.items()},
        _numbers(losses),
        tuple((name, _number(value)) for name, value in _pairs(computed)),
        _number(norm),
        _numbers(rates),
        _numbers(content[9]) if len(content) == 10 else (),
    )


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError("a log of steps holds something else where a text is due")
    return content


def _counts(content: Any) -> tuple[int, ...]:
    if not isinstance(content, list) or not all(type(count) is int and count >= 0 for count in content):
        raise ValueError("what is no number of steps stands for one in a log")
    return tuple(content)


def _texts(content: Any) -> tuple[str, ...]:
    if not isinstance(content, list):
        raise ValueError("a log of steps holds something else where a list is due")
    return tuple(map(_text, content))


def _pairs(content: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(content, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
        raise ValueError("a log of steps holds something else where a list of pairs is due")
    return tuple((_text(name), _text(value)) for name, value in content)


def _number(content: Any) -> float:
    return float(_text(content))  # as text, since JSON has no infinity


def _numbers(content: Any) -> tuple[float, ...]:
    if not isinstance(content, list):
        raise ValueError("a log of steps holds something else where a list is due")
    return tuple(map(_number, content))


def _packed(table: Hashes) -> str:
    return base64.b64encode(table.astype("<u2").tobytes()).decode("ascii")


def _unpacked(content: Any, rows: int, columns: int) -> Hashes:
    try:
        data = base64.b64decode(_text(content), validate=True)
    except binascii.Error as error:
        raise ValueError(f"a table of a log of steps cannot be read: {error}") from error
    if len(data) != 2 * rows * columns:
        raise ValueError("a table of a log of steps has another size than its steps and names")
    return np.frombuffer(data, dtype="<u2").reshape(rows, columns)


def kept(steps: int, variables: int) -> int:
    """How many steps of a process are kept that trains so many tensors."""
    return min(steps, max(LEAST, MOST // max(variables, 1)))


def agreeing(log: StepLog, other: StepLog) -> int:
    """How many steps from the first on two runs have in common to the last bit."""
    count = min(len(log.steps), len(other.steps))
    if (log.trained, log.others) != (other.trained, other.others):
        return 0
    for number in range(count):
        mine, theirs = log.steps[number], other.steps[number]
        same = (mine.inputs, mine.losses, mine.rates) == (theirs.inputs, theirs.losses, theirs.rates)
        same = same and bool((log.values[number + 1] == other.values[number + 1]).all())
        if not same or bool((log.gradients[number] != other.gradients[number]).any()):
            return number
    return count


def shared(logs: Sequence[StepLog], others: Sequence[StepLog]) -> tuple[StepLog, ...]:
    """The logs of all processes of a run, as far as another run has them too."""
    if len(logs) != len(others):
        return ()
    return tuple(log.first(agreeing(log, other)) for log, other in zip(logs, others, strict=True))
