"""What a compiled region is made of: the functions in the graphs that dynamo hands to its backend, the dtypes of their
results and the constants that they are given.

The graphs are read, once each, and left as they are.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Any

import torch.fx
import torch.nn.functional as F

from ..imports import after_import, forget
from ..summary import dtype_name, from_key
from .base import unseen_by, watch
from .functions import FUNCTIONAL, PRODUCTS, parameters_of

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder

_OUTPUT_GRAPH = "torch._dynamo.output_graph"
PREFIX = "compiled:"
CONSTANT = "constant:"
_BY_SHAPE = ("linear", "bilinear", "conv", "interpolate", "softmax", "log_softmax")
"""How functions begin whose constants only say how their operands lie."""


def install(probe: Probe) -> None:
    """Look at graphs from the time that dynamo is imported."""
    prepare = functools.partial(_prepare, probe)
    after_import(_OUTPUT_GRAPH, prepare)
    probe.on_removal(functools.partial(forget, prepare))


def _prepare(probe: Probe) -> None:
    def entered(_: Any, gm: torch.fx.GraphModule, *__: Any, **___: Any) -> None:
        if probe.recorder is not None:
            _read(probe.recorder, gm)

    with unseen_by(probe, "preparing to read compiled graphs"):
        owner = sys.modules[_OUTPUT_GRAPH].OutputGraph
        watch(probe, owner.call_user_compiler, entered, always=True, compiling=True)


def _read(recorder: Recorder, gm: torch.fx.GraphModule) -> None:
    state = recorder.threads
    region = state.stack[-1] if state.stack else None
    for name, node in _functions(gm):
        api = f"torch.nn.functional.{name}" if name in FUNCTIONAL else f"torch.{name}"
        dtype = getattr(node.meta.get("example_value"), "dtype", None)
        if isinstance(dtype, torch.dtype):
            recorder.measures.take(state, f"{PREFIX}{api}={dtype_name(dtype)}", region)
        for argument, value in _constants(name, node).items():
            recorder.measures.take(state, f"{CONSTANT}{api}({argument})={dumps(value)}", region)


def _functions(gm: torch.fx.GraphModule) -> Iterator[tuple[str, torch.fx.Node]]:
    """Every call of a known function with its name, bodies of custom functions included."""
    graphs = [module for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    for graph in graphs:
        for node in graph.graph.nodes:
            if node.op not in ("call_function", "call_method"):
                continue
            name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
            if name in FUNCTIONAL or name in PRODUCTS:
                yield name, node


def _constants(name: str, node: torch.fx.Node) -> dict[str, Any]:
    """The plain constants that a function is given or takes by default; none where no gradient goes through it.

    What the graph computes (tensors, and numbers that dynamo has taken for variable) is none. Of other functions of the
    same name the parameters are not known.
    """
    function: Any = getattr(F, name, None)
    if name.startswith(_BY_SHAPE) or node.target not in (function, *_INLINED.get(name, ())) or not _trains(node):
        return {}
    bound = parameters_of(name, function).bind(node.args, node.kwargs)
    found = {argument: from_key(key) for argument, key in bound.items()}
    constants = {key: value for key, value in found.items() if value is None or isinstance(value, (int, float, str))}
    if name == "scaled_dot_product_attention" and _is_default_scale(constants.get("scale"), node):
        constants["scale"] = None
    return constants


_INLINED = {"rms_norm": [getattr(torch, "rms_norm", None)]}
"""Functions of `torch.nn.functional` that dynamo looks into, with those of the same parameters that it finds there."""


def _trains(node: torch.fx.Node) -> bool:
    """Whether a gradient goes through what a call returns."""
    value = node.meta.get("example_value")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(item, torch.Tensor) and item.requires_grad for item in values)


def _is_default_scale(scale: Any, node: torch.fx.Node) -> bool:
    """Whether attention is given in numbers what it does without a `scale`."""
    query = node.args[0] if node.args else node.kwargs.get("query")
    value = query.meta.get("example_value") if isinstance(query, torch.fx.Node) else None
    size = value.shape[-1] if isinstance(value, torch.Tensor) and value.dim() else None
    return (
        isinstance(scale, float)
        and type(size) is int
        and size > 0
        and math.isclose(scale, 1 / math.sqrt(size), rel_tol=1e-6)
    )
