"""Collectives of `torch.distributed`, with the ranks that take part."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ..context import Call, ThreadState
from ..summary import key_of
from .base import Named, Parameters, call_key, dressed, observed

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_NAMES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "barrier",
)

_SHARED = frozenset({"all_reduce", "all_gather", "all_gather_into_tensor", "broadcast"})
"""Collectives after which the first argument is the same on all ranks of the group."""


class Collective(Named):
    """A collective writes into tensors without moving their version, so gradients are looked at again after it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.distributed.{name}", "collective")
        self._shared = name in _SHARED

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return (call_key(args, kwargs), _ranks(args, kwargs))

    def after(
        self,
        recorder: Recorder,
        state: ThreadState,
        call: Call,
        args: tuple[Any, ...],
        result: Any,
    ) -> None:
        recorder.variables.gradients_dirty = True
        # A result that is a handle is not there yet.
        if recorder.measures.wanted and result is None and self._shared and args:
            recorder.measures.content_of(state, "collective.result", call, args[0])


class CollectiveParameters(Parameters):
    """Shows `group` as the list of its ranks."""

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**super().bind(args, kwargs), "group": key_of(_ranks(args, kwargs))}


def _ranks(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    group = kwargs.get("group")
    if group is None:
        group = next((value for value in args if isinstance(value, dist.ProcessGroup)), None)
    if not dist.is_initialized():
        return None
    return tuple(dist.get_process_group_ranks(group))  # none given: all ranks


def install(probe: Probe) -> None:
    """Wrap the functions where they are defined and where torch exports them."""
    if not dist.is_available():
        return
    owners = (sys.modules["torch.distributed.distributed_c10d"], dist)
    for name in _NAMES:
        family = Collective(name)
        for owner in owners:
            probe.patches.replace(
                owner,
                name,
                _recording(probe, family),
            )
    meshes = [module for module in (sys.modules.get("torch.distributed.device_mesh"), dist) if module is not None]
    for module in meshes:
        probe.patches.replace(module, "init_device_mesh", lambda original: _mesh_making(probe, original))
    for owner in owners:
        probe.patches.replace(owner, "init_process_group", lambda original: _initialization(probe, original))


def _mesh_making(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    """Notes where this rank stands in every named dimension of a device mesh."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        mesh = original(*args, **kwargs)
        try:
            coordinate = mesh.get_coordinate() or ()
            names = mesh.mesh_dim_names or [f"dim{number}" for number in range(len(coordinate))]
            places = zip(names, coordinate, mesh.mesh.shape, strict=False)
            probe.mesh.update({str(name): [int(place), int(size)] for name, place, size in places})
            probe.write_meta()
        except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
            if probe.recorder is not None:
                probe.recorder.failed("noting a device mesh", error)
        return mesh

    return dressed(wrapper, original)


def _recording(probe: Probe, family: Collective) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda original: observed(probe, original, family, CollectiveParameters(original))


def _initialization(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        probe.write_meta()
        return result

    return dressed(wrapper, original)
