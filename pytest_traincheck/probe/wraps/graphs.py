"""What a compiled region is made of: the functions in the graphs that dynamo hands to its backend, and their dtypes.

The graphs are read, once each, and left as they are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch.fx

from ..imports import after_import, forget
from ..summary import dtype_name
from .base import dressed
from .functions import FUNCTIONAL, PRODUCTS

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_OUTPUT_GRAPH = "torch._dynamo.output_graph"
PREFIX = "compiled:"


def install(probe: Probe) -> None:
    """Look at graphs from the time that dynamo is imported."""
    prepare = functools.partial(_prepare, probe)
    after_import(_OUTPUT_GRAPH, prepare)
    probe.on_removal(functools.partial(forget, prepare))


def _prepare(probe: Probe) -> None:
    try:
        owner = sys.modules[_OUTPUT_GRAPH].OutputGraph
        probe.patches.replace(
            owner, "call_user_compiler", lambda original: _reading(probe, original), alias=False, keep=True
        )
    except Exception as error:  # noqa: BLE001 - a failure of the probe must never reach the user's code
        if probe.recorder is not None:
            probe.recorder.failed("preparing to read compiled graphs", error)


def _reading(probe: Probe, original: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(self: Any, gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        recorder = probe.recorder
        if recorder is not None:
            try:
                _read(recorder, gm)
            except Exception as error:  # noqa: BLE001 - see `_prepare`
                recorder.failed("reading a compiled graph", error)
        return original(self, gm, *args, **kwargs)

    return dressed(wrapper, original)


def _read(recorder: Recorder, gm: torch.fx.GraphModule) -> None:
    state = recorder.threads
    region = state.stack[-1] if state.stack else None
    for api, dtype in _functions(gm):
        recorder.measures.take(state, f"{PREFIX}{api}={dtype}", region)


def _functions(gm: torch.fx.GraphModule) -> Iterator[tuple[str, str]]:
    """Canonical API and dtype of the result for every call of a known function, bodies of custom functions included."""
    graphs = [module for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    for graph in graphs:
        for node in graph.graph.nodes:
            if node.op not in ("call_function", "call_method"):
                continue
            name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            dtype = getattr(node.meta.get("example_value"), "dtype", None)
            if isinstance(dtype, torch.dtype) and name in FUNCTIONAL:
                yield f"torch.nn.functional.{name}", dtype_name(dtype)
            elif isinstance(dtype, torch.dtype) and name in PRODUCTS:
                yield f"torch.{name}", dtype_name(dtype)
