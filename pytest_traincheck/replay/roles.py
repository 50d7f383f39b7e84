"""What the parts of a batch are for: the inputs of a model, or the targets of a loss, where the run shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_traincheck.golden.recording import ENTRY
from pytest_traincheck.replay.computed import Call, Computed, Tensor, apart

INPUTS, TARGETS = "inputs", "targets"
_TARGET = "in.target"
"""What the loss functions of torch call the argument that holds the right answers."""


def roles_of_batch(side: Computed, batch: Call) -> Mapping[str, str]:
    """What parts of a batch are for, by their paths.

    A part is known by where it goes in the same step, as it is. One that is changed on the way, or that goes both ways
    as the input of an autoencoder does, has no role.
    """
    parts = {slot.removeprefix("out."): part for slot, part in side.results.get(batch.index, {}).items()}
    found = {role: [path for path, part in parts.items() if _is_among(part, given)]
             for role, given in _given(side, batch).items()}  # fmt: skip
    both = {path for path in found[INPUTS] if path in found[TARGETS]}
    return {path: role for role, paths in found.items() for path in paths if path not in both}


def _given(side: Computed, batch: Call) -> Mapping[str, list[Tensor]]:
    later = [call for call in side.calls.values() if call.window == batch.window and call.begin > batch.end]
    return {
        INPUTS: [tensor for call in later if call.flags & ENTRY for tensor in _other_than_targets(side, call)],
        TARGETS: [side.inputs[call.index][_TARGET] for call in later if _TARGET in side.inputs.get(call.index, {})],
    }


def _other_than_targets(side: Computed, call: Call) -> Iterator[Tensor]:
    return (tensor for slot, tensor in side.inputs.get(call.index, {}).items() if slot != _TARGET)


def _is_among(part: Tensor, given: list[Tensor]) -> bool:
    return any(part.shape == tensor.shape and apart(part, tensor) == 0 for tensor in given)
