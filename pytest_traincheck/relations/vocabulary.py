"""Which APIs rules may be about, by what they mean for training. What is in no set is recorded but never the
subject of a failing rule:
activations, shapes, metrics and helpers are what refactors change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pytest_traincheck import observing
from pytest_traincheck.trace import Process
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import EVAL, TRAINING_TYPES, pieces

FLOW_TYPES = ("autograd", "clip", "scaler", "scheduler", "update", "collective")
"""API types whose calls move gradients, parameters, schedules or data between ranks."""

ESTIMATES = "statistics"
"""API type of calls that run a model without gradients in train mode, to estimate its running statistics again."""

F = "torch.nn.functional."

STOCHASTIC = frozenset(
    F + name
    for name in (
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_alpha_dropout",
        "gumbel_softmax",
    )
)
NORMALISATION = frozenset(
    F + name
    for name in (
        "batch_norm",
        "layer_norm",
        "group_norm",
        "instance_norm",
        "rms_norm",
        "local_response_norm",
        "normalize",
    )
)
ATTENTION = frozenset(F + name for name in ("scaled_dot_product_attention", "multi_head_attention_forward"))
EMBEDDING = frozenset(F + name for name in ("embedding", "embedding_bag"))
LINEAR_ALGEBRA = frozenset(
    [
        F + name
        for name in (
            "linear",
            "bilinear",
            "conv1d",
            "conv2d",
            "conv3d",
            "conv_transpose1d",
            "conv_transpose2d",
            "conv_transpose3d",
        )
    ]
    + ["torch." + name for name in ("matmul", "bmm", "mm", "einsum", "addmm", "baddbmm")]
)
LAYER_FUNCTIONS = STOCHASTIC | NORMALISATION | ATTENTION
"""Functions whose disappearance from a model changes what it computes, however the code is arranged."""

MASKING = "a masking function"
"""However it is spelled: `masked_fill`, or attention that is given a mask or told to be causal."""

WAITING = frozenset({"torch.distributed.barrier"})
"""Collectives in which ranks only wait for each other. They move no data: how often and where they are called changes
nothing, as long as all ranks do.
"""

SENSITIVE = ("Dropout", "BatchNorm", "InstanceNorm", "RNN", "LSTM", "GRU", "MultiheadAttention", "Transformer", "RReLU")
"""What the names of those modules of torch hold that do something else in train mode than in eval mode. A module of
anybody else may.
"""


def trains_ranks(api: str) -> bool:
    """Whether an API is one of the wrappers that make ranks train together, such as `DistributedDataParallel`."""
    return api.startswith(observing.parallel())


def is_loss(name: str) -> bool:
    """Loss functions of `torch.nn.functional`, called directly or by their modules."""
    return name.startswith(F) and (name.endswith("_loss") or "cross_entropy" in name or name == F + "kl_div")


def without_metrics(process: Process, rows: Ints) -> Ints:
    """Without the loss functions that only measure: a loss is what a backward pass can start from."""

    def compute() -> tuple[Bools, Bools]:
        losses = np.array([is_loss(name) for name in process.api_names], dtype=bool)
        differentiable = [_requires_grad(symbol.get("value")) for symbol in process.raw.symbols["ret"]]
        return losses, np.array(differentiable, dtype=bool)

    losses, differentiable = process.memo("losses", compute)
    events = process.events
    kept: Ints = rows[~losses[events["subject"][rows]] | differentiable[events["ret"][rows]]]
    return kept


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value.get("tensor", {}).get("requires_grad"))


def only_measures(process: Process) -> Bools:
    """Clipping with an infinite bound, which is the customary way to get the norm and clips nothing."""

    def compute() -> Bools:
        unbounded = np.array(
            [(symbol.get("values") or {}).get("max_norm") == "inf" for symbol in process.raw.symbols["args"]],
            dtype=bool,
        )
        mask: Bools = (
            process.type_codes.isin(["clip"]) & unbounded[np.where(process.is_call, process.events["args"], 0)]
        )
        return mask

    return process.memo("clips nothing", compute)


def follows_evaluation(process: Process) -> Bools:
    """Which events come after a forward pass in evaluation and before training goes on, whether or not gradients are
    recorded there: a metric may be gathered below `no_grad` or outside of it, and so may gradients.
    """

    def compute() -> Bools:
        size, entries = len(process.events), process.entry_rows
        training = process.rows_of_type(*TRAINING_TYPES)
        # Events before any forward pass are looked up at the end of the tables, where there is none.
        last, before = pieces(entries, size) - 1, pieces(training, size) - 1
        evaluates = np.append(process.stage[entries] == EVAL, False)
        return np.asarray(evaluates[last] & (np.append(training, -1)[before] < np.append(entries, -1)[last]))

    return process.memo("follows evaluation", compute)


def masking_calls(process: Process) -> Ints:
    """Outermost calls that leave something out of a computation: fills by mask, masked or causal attention."""

    def compute() -> Ints:
        masked = np.array(
            [_is_masked(symbol.get("values") or {}) for symbol in process.raw.symbols["args"]], dtype=bool
        )
        attention = calls_of(process, ATTENTION) & masked[np.where(process.is_call, process.events["args"], 0)]
        fills = calls_of(process, {"torch.Tensor.masked_fill"})
        return np.flatnonzero((attention | fills) & process.is_call & ~process.inside("optimizer", "clip", "scaler"))

    return process.memo("masking", compute)


def _is_masked(values: Mapping[str, Any]) -> bool:
    given = (values.get("attn_mask"), values.get("key_padding_mask"))
    return values.get("is_causal") is True or any(isinstance(value, Mapping) for value in given)


def wrapper_calls(process: Process) -> Ints:
    """Calls of the wrappers that make ranks train together."""
    names = observing.parallel()
    mask = np.array([name.startswith(names) for name in process.api.values], dtype=bool)
    if not len(mask):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(mask[process.api.codes] & process.type_codes.isin(["module"]))


def acting_by_mode(process: Process) -> frozenset[str]:
    """Names of the models that hold, or are, a module that may do something else in eval mode than in train mode: one
    of torch's that does, one of the user's that is called like one, any other of a library.
    """

    def compute() -> frozenset[str]:
        libraries = {symbol["name"]: symbol.get("library") for symbol in process.raw.symbols["api"][1:]}
        found: set[str] = set()
        for symbol in process.raw.symbols["mod"][1:]:
            name = str(symbol.get("class", ""))
            alike = libraries.get(name) in ("torch", "user") and not any(part in name for part in SENSITIVE)
            if not alike:
                found.add(process.names.roots[symbol.get("root", 0)])
        return frozenset(found)

    return process.memo("models that act by mode", compute)


def is_compiled(process: Process) -> bool:
    """Whether some of the work ran in compiled regions: each is one call, and what it contains is not observable."""
    return bool(len(process.rows_of_type("compile")))


def calls_of(process: Process, names: frozenset[str] | set[str]) -> Bools:
    """Mask of the calls of any of these APIs."""
    return process.api.isin(names)


def outermost(process: Process, rows: Ints, *types: str) -> Ints:
    """Those rows that are not inside a call of these types."""
    return rows[~process.inside(*types)[rows]]
