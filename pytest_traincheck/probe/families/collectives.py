"""Collectives of `torch.distributed`, with the ranks that take part."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ..context import Call, ThreadState
from ..summary import key_of
from .base import Named, Parameters, call_key, observe, watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder
    from ..symbols import Api

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

_CALLED_NOW = {"all_gather_into_tensor": "all_gather_single", "reduce_scatter_tensor": "reduce_scatter_single"}
"""What torch calls two of them since 2.13, where the old ones call the new. They keep the name that all versions know,
so that a golden of one version speaks of the calls of another.
"""
_SHARED = frozenset({"all_reduce", "all_gather", "all_gather_into_tensor", "broadcast"})
"""Collectives after which the first argument is the same on all ranks of the group."""


class Collective(Named):
    """A collective writes into tensors without moving their version, so gradients are looked at again after it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.distributed.{name}", "collective")
        self._shared = name in _SHARED

    def api(self, recorder: Recorder, args: tuple[Any, ...]) -> Api | None:
        """None for those with which a checkpoint is written or read: they are that function's own."""
        return None if any(call.api.type == "io" for call in recorder.threads.stack) else super().api(recorder, args)

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return (call_key(args, kwargs), _ranks(args, kwargs))

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        recorder.variables.gradients_dirty = True
        # A result that is a handle is not there yet.
        if result is None and self._shared and args:
            if recorder.measures.wanted:
                recorder.measures.content_of(state, "collective.result", call, args[0])
            if recorder.sketches.wanted:
                recorder.sketches.left(state, call, args[0])


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
    """Observe the functions; those that make process groups and device meshes tell who this rank is."""
    if not dist.is_available():
        return
    for name in _NAMES:
        function = getattr(dist, _CALLED_NOW.get(name, name), None) or getattr(dist, name, None)
        observe(probe, function, Collective(name), CollectiveParameters(function))
    watch(probe, dist.init_process_group, _always, lambda _, __: probe.write_meta())
    mesh = sys.modules.get("torch.distributed.device_mesh")
    watch(probe, getattr(mesh, "init_device_mesh", None), _always, lambda _, mesh: _note_mesh(probe, mesh))


def _always(*_: Any, **__: Any) -> str:
    return "call"


def _note_mesh(probe: Probe, mesh: Any) -> None:
    """Note where this rank stands in every named dimension of a device mesh."""
    coordinate = mesh.get_coordinate() or ()
    names = mesh.mesh_dim_names or [f"dim{number}" for number in range(len(coordinate))]
    places = zip(names, coordinate, mesh.mesh.shape, strict=False)
    probe.mesh.update({str(name): [int(place), int(size)] for name, place, size in places})
    probe.write_meta()
