"""What a loss function is given and how much it gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...looks import LOSSES
from ..context import Call, ThreadState, quiet, unobservable
from ..digest import local
from .base import LOSS
from .torch_function import TorchFunction

if TYPE_CHECKING:
    from ..recorder import Recorder

# Nodes of the autograd graph that only look at the same numbers in another way.
_SAME_NUMBERS = ("View", "Reshape", "Transpose", "Permute", "Squeeze", "Unsqueeze", "Slice", "Select",
                 "Copy", "Clone", "Alias", "TBackward", "Index", "Expand", "Contiguous", "DDPSink", "Unbind", "Split",
                 "Narrow", "Cat")  # fmt: skip
_SHAPING = {
    "LogSoftmax": "log_softmax",
    "Softmax": "softmax",
    "LogSigmoid": "logsigmoid",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
}
_DEPTH = 12
_SHIFTS = (1, 2, 0, 3, -1)
_FITTING, _MARGIN = 0.75, 0.15
"""A sequence that ends is followed by a mark that the targets have and the input has not."""
_IGNORED = -100


class Loss(TorchFunction):
    """A loss function: its sum, how many targets it has and how many of them count, and what made its input."""

    plain = False
    part = LOSS

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        measures, argument = recorder.measures, self.parameters.argument
        target = argument(args, call.kwargs, "target")
        if isinstance(target, torch.Tensor) and measures.given.wants(call):
            measures.given.tensors(measures, state, call, [("target", target)])
        if not measures.wanted or LOSSES in measures.not_needed or unobservable():
            return
        given = argument(args, call.kwargs, "input")
        if not isinstance(given, torch.Tensor) or not given.requires_grad or not isinstance(target, torch.Tensor):
            return
        take = recorder.measures.take
        take(state, f"loss.input={shaped_by(given)}", call)
        if target.is_floating_point() or local(target) is None:
            return
        ignored = argument(args, call.kwargs, "ignore_index", _IGNORED)
        with quiet(state):
            target = target.cpu()
            kept = int((target != ignored).sum())
            shift = _shift(target, ignored, recorder.measures.tokens)
        take(state, "loss.targets", call, float(target.numel()))
        take(state, "loss.kept", call, float(kept))
        if shift is not None:
            take(state, "loss.shift", call, float(shift))

    def finish(self, recorder: Recorder, state: ThreadState, call: Call, result: Any) -> None:
        if (
            recorder.measures.wanted
            and LOSSES not in recorder.measures.not_needed
            and isinstance(result, torch.Tensor)
            and result.numel() > 1
            and result.requires_grad
            and local(result) is not None
            and not unobservable()
        ):
            with quiet(state):
                total = float(result.sum())
            recorder.measures.take(state, "loss.sum", call, total)
        recorder.end(state, call, result)


def shaped_by(tensor: torch.Tensor) -> str:
    """The bounded function that a tensor came out of, `other` for anything else, by its autograd graph."""
    node = tensor.grad_fn
    for _ in range(_DEPTH):
        if node is None:
            return "other"
        name = type(node).__name__
        for prefix, spoken in _SHAPING.items():
            if name.startswith(prefix):
                return spoken
        if not any(part in name for part in _SAME_NUMBERS):
            return "other"
        following = node.next_functions
        node = following[0][0] if following else None
    return "other"


def _shift(target: torch.Tensor, ignored: int, tokens: tuple[Any, ...]) -> int | None:
    """How far ahead the targets run of a sequence that went into the model; `None` if they are not that sequence."""
    for ref in tokens:
        sequence = ref()
        if sequence is None:
            continue
        sequence = sequence.cpu()
        batch, length = sequence.shape
        if not batch or target.numel() % batch or length < 4:
            continue
        rows = target.reshape(batch, -1)
        shares = sorted(((_share(rows, ignored, sequence, shift), shift) for shift in _SHIFTS), reverse=True)
        # A sequence that repeats itself fits in more than one place and says nothing.
        if shares[0][0] >= _FITTING and shares[1][0] < _FITTING - _MARGIN:
            return shares[0][1]
    return None


def _share(rows: torch.Tensor, ignored: int, sequence: torch.Tensor, shift: int) -> float:
    """The share of the targets that count which equal the sequence `shift` tokens further on."""
    begin = max(shift, 0)
    skipped = max(-shift, 0)
    width = min(rows.shape[1] - skipped, sequence.shape[1] - begin)
    if width < 2:
        return 0.0
    ours, theirs = rows[:, skipped : skipped + width], sequence[:, begin : begin + width]
    counted = ours != ignored
    total = int(counted.sum())
    return int(((ours == theirs) & counted).sum()) / total if total > 1 else 0.0
