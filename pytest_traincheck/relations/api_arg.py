"""APIArg: an argument, or a mode in which an API is called, has one value wherever a context holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.compiled import constants, graph_examples
from pytest_traincheck.relations.context import call_context, module_roots
from pytest_traincheck.relations.defaults import without_defaults
from pytest_traincheck.relations.meaning import Change, Evidence, Excuse, Meaning, Place, Words, place_of_call
from pytest_traincheck.relations.mode_calls import never_set_to_eval, set_at
from pytest_traincheck.relations.settings import Setting, Sort, argument_text
from pytest_traincheck.relations.thawed import trainable_at
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints, Labels, pairs_of
from pytest_traincheck.trace.stages import STAGES, Stage
from pytest_traincheck.trace.variables import Variables

FORWARD: Final = "torch.nn.Module.forward"
GRAD: Final = "torch.autograd.grad"

Mode = Literal["training", "grad_mode", "autocast"]
MODES: Mapping[Mode, str] = {
    "training": "torch.nn.Module.train",
    "grad_mode": "torch.no_grad",
    "autocast": "torch.autocast",
}
"""Context of the forward pass that an API of its own sets."""

MODE_NAMES: Mapping[Mode, tuple[str, ...]] = {
    "training": ("train", "eval"),
    "grad_mode": ("no_grad", "inference_mode", "set_grad_enabled", "enable_grad", "is_grad_enabled"),
    "autocast": ("autocast",),
}
"""What sets a mode in code."""

DOING: Mapping[Stage, str] = {"train": "training", "eval": "evaluation", "init": "set-up"}

ARGUMENT_TYPES = ("clip", "scaler", "autograd", "checkpoint")

MEANINGFUL = frozenset(
    [
        "training",
        "p",
        "dropout_p",
        "reduction",
        "ignore_index",
        "label_smoothing",
        "pos_weight",
        "beta",
        "delta",
        "margin",
        "swap",
        "full",
        "log_input",
        "log_target",
        "blank",
        "zero_infinity",
        "eps",
        "momentum",
        "use_input_stats",
        "num_groups",
        "is_causal",
        "attn_mask",
        "key_padding_mask",
        "scale",
        "hard",
        "tau",
        "padding_idx",
        "max_norm",
        "norm_type",
        "clip_value",
        "create_graph",
        "preserve_rng_state",
    ]
)
"""Arguments that say what is computed. Shapes, output buffers, kernel choices and private arguments do not, and
refactors change them.
"""

SET_BY_MODE = ("training", "use_input_stats", "dropout_p")
"""Arguments that layers pass on from the training flag of their module. In a compiled region that flag says it."""

LEFT_BEHIND = ("training", "momentum", "use_input_stats", "preserve_rng_state")
"""Arguments that also say what a call leaves behind, in buffers or generators, whatever it returns."""

MAX_VALUES = 6
"""An argument with more distinct values than this is data, not configuration."""


@dataclass(frozen=True)
class ModeOfCall(Claim):
    """In a stage models are called in one mode."""

    api: Literal["torch.nn.Module.forward"] = field(default=FORWARD, init=False)
    mode: Mode
    stage: Stage
    value: str


@dataclass(frozen=True)
class ArgumentIs(Claim):
    """An argument has one value, as text; `compiled`: in graphs of compiled regions."""

    api: str
    argument: str
    value: str
    compiled: bool = False


class APIArg:
    """A scalar argument is constant, or constant in a context: `dropout(training=...)` per stage,
    `clip_grad_norm_(max_norm=...)`.

    The modes in which the model is called (training flag, gradient recording, autocast) count as arguments of its
    forward pass.
    """

    name = "APIArg"
    looks: ClassVar[Looks] = NOTHING
    claims: ClassVar[tuple[type[Claim], ...]] = (ModeOfCall, ArgumentIs)

    def layer(self, claim: ModeOfCall | ArgumentIs) -> int:
        return 1 if isinstance(claim, ModeOfCall) else 2

    def meaning(self, rule: Invariant[ModeOfCall | ArgumentIs]) -> Meaning:
        claim = rule.claim
        if isinstance(claim, ModeOfCall):
            return _meaning_of_mode(claim)
        place, argument = place_of_call(rule.subject), claim.argument
        by_mode = argument in SET_BY_MODE
        return Meaning(
            place,
            brings=frozenset(
                {Change.LOSS_INPUT} if place is Place.LOSS else {Change.DERIVATIVES} if rule.subject == GRAD else ()
            ),
            comes_with=frozenset({Change.MODE, Change.LOOP} if by_mode else ()),
            by_data=True,
            excuse=Excuse.NONE if argument in LEFT_BEHIND else Excuse.OWN_RESULT,
            words=Words(words=(argument,)),
            # What the mode of a module sets was not decided where it is called.
            setting=None if by_mode else Setting(Sort.ARGUMENT, argument, claim.value),
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            by_stage = process.stage_labels.groups(process.entry_rows)
            for stage in (stage for stage in sorted(STAGES) if stage in by_stage):
                rows = by_stage[stage]
                for mode, subject in MODES.items():
                    for value in sorted(_mode(process, mode, rows).groups(np.arange(len(rows)))):
                        # A stage that golden never had is no context in which anything was learned.
                        yield Hypothesis(self.name, subject, ModeOfCall(mode, stage, value))
            for (api, argument), distinct in sorted(_arguments(process).items()):
                if len(distinct) > MAX_VALUES or _in_graphs(process, api, argument).keys() - distinct:
                    continue  # What was compiled in golden may be called as it is in the candidate.
                flow = process.api_types[_api_ids(process, api)[0]] in ARGUMENT_TYPES
                kind = Kind.CONFIG if flow else Kind.BEHAVIOUR
                for value in sorted(distinct):
                    yield Hypothesis(
                        self.name,
                        api,
                        ArgumentIs(api, argument, value),
                        kind,
                        _scope(argument),
                    )
            for api, argument in sorted(constants(process)):
                compiled = _in_graphs(process, api, argument)
                # What golden called as it is may be compiled in the candidate.
                if len(compiled) == 1 and _given(process, api, argument) <= compiled.keys():
                    value = next(iter(compiled))
                    inside = ArgumentIs(api, argument, value, compiled=True)
                    yield Hypothesis(self.name, api, inside, scope=Scope.PINNED)

    def examples(self, claim: ModeOfCall | ArgumentIs, run: Run) -> Examples:
        processes = enumerate(run.processes)
        if isinstance(claim, ModeOfCall):
            return Examples.concatenate([_mode_examples(process, position, claim) for position, process in processes])
        make = _in_graphs_examples if claim.compiled else _argument_examples
        return Examples.concatenate([make(process, position, claim) for position, process in processes])

    def sentence(self, claim: ModeOfCall | ArgumentIs, subject: str, when: str) -> str:
        if isinstance(claim, ModeOfCall):
            return f"In {DOING[claim.stage]}, models are called {_mode_text(claim.mode, claim.value)}{when}."
        where = " in compiled regions" if claim.compiled else ""
        return f"`{claim.api}` is called with {claim.argument}={claim.value}{where}{when}."

    def finding(
        self, invariant: Invariant[ModeOfCall | ArgumentIs], run: Run, examples: Examples, broken: Ints
    ) -> Finding:
        claim = invariant.claim
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        if isinstance(claim, ModeOfCall):
            mode = claim.mode
            was, now = _mode_text(mode, claim.value), _mode_text(mode, seen)
            model = examples.context["root"][int(broken[0])]
            hint: Mapping[Mode, str] = {
                "training": "model.train()` or `model.eval()",
                "grad_mode": "torch.no_grad()",
                "autocast": "torch.autocast",
            }
            return Finding(
                f"In {DOING[claim.stage]}, the golden run called `{model}` {was}; the candidate calls it {now} (see "
                f"`{hint[mode]}`).",
                f"called {was}",
                f"called {now}{_set_at(run, examples, int(broken[0]), seen) if mode == 'training' else ''}",
                value=seen,
                modules=(model,) if mode == "training" else (),
            )
        return Finding(
            f"`{claim.api}({claim.argument})` was {claim.value} in the golden run and is {seen} in the candidate"
            f"{', in a compiled region' if claim.compiled else ''}.",
            f"{claim.argument} = {claim.value}",
            f"{claim.argument} = {seen}",
            value=seen,
            changed=(claim.value, seen),
            # Functions of one graph, under one autocast.
            common_cause=f"compiled, {claim.argument} = {seen}" if claim.compiled else "",
        )


def _meaning_of_mode(claim: ModeOfCall) -> Meaning:
    training = claim.mode == "training"
    # A program that never says `eval()` does not ask for train mode in evaluation: nobody has thought of modes.
    never_said = training and (claim.stage, claim.value) == ("eval", "on")
    return Meaning(
        Place.FORWARD,
        brings=frozenset({Change.MODE} if training else ()),
        comes_with=frozenset({Change.LOOP} if training else ()),
        is_mode=True,
        set_up=claim.stage == "init",
        excuse=Excuse.ALIKE_IN_MODES if never_said else Excuse.NONE,
        # A model may be told otherwise than by its mode that it is evaluated.
        shown_by=Evidence.EVALUATED if training and claim.stage == "eval" else Evidence.NONE,
        words=Words(names=MODE_NAMES[claim.mode]),
    )


def _mode_text(mode: Mode, value: str) -> str:
    if mode == "training":
        return "in train mode" if value == "on" else "in eval mode"
    if mode == "grad_mode":
        return "with gradients recorded" if value == "enabled" else "without recording gradients"
    return "without autocast" if value == "off" else f"under autocast({value})"


def _set_at(run: Run, examples: Examples, place: int, mode: str) -> str:
    """Where the mode was last set before a forward pass, or that it never was."""
    process, row = run.processes[int(examples.process[place])], int(examples.row[place])
    if source := set_at(process, row):
        return f", last set at {source}"
    return ", and no `eval()` of it was seen" if mode == "on" and never_set_to_eval(process, row) else ""


def _is_meaningful(api: str, argument: str) -> bool:
    # The weights of the classes are a choice, those of a layer are its parameters.
    return argument in MEANINGFUL or (argument == "weight" and vocabulary.is_loss(api)) or _is_how_many(api, argument)


def _is_how_many(api: str, argument: str) -> bool:
    return api == "torch.topk" and argument == "k"


def _scope(argument: str) -> Scope:
    # A number is somebody's choice; a flag or the presence of an argument is behaviour.
    return Scope.TRANSFERABLE if argument == "training" else Scope.PINNED


def _eligible(process: Process) -> Mapping[str, bool]:
    def compute() -> Mapping[str, bool]:
        wanted: dict[str, bool] = {}
        for name, kind in zip(process.api_names, process.api_types, strict=True):
            if (
                kind in ARGUMENT_TYPES
                or name in process.for_plug_ins
                or _is_how_many(name, "k")
                or (
                    kind == "function"
                    and (name in vocabulary.LAYER_FUNCTIONS or name in vocabulary.EMBEDDING or vocabulary.is_loss(name))
                )
            ):
                wanted[name] = True
        return wanted

    return process.memo("eligible", compute)


def _api_ids(process: Process, api: str) -> list[int]:
    return [number for number, name in enumerate(process.api_names) if name == api]


def _calls(process: Process) -> Ints:
    """Calls whose arguments rules may speak of; not those that a library function makes for itself."""

    def compute() -> Ints:
        mask = (
            process.api.isin(_eligible(process))
            & process.is_call
            & ~process.inside("clip", "scaler", "autograd", "function")
        )
        mask &= ~vocabulary.only_measures(process)
        return vocabulary.without_metrics(process, np.flatnonzero(mask))

    return process.memo("argument calls", compute)


def _arguments(process: Process) -> Mapping[tuple[str, str], set[str]]:
    def compute() -> Mapping[tuple[str, str], set[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        events = process.events
        rows = _calls(process)
        codes, numbers, _ = pairs_of(process.api.codes[rows], events["args"][rows])
        for code, number in zip(codes.tolist(), numbers.tolist(), strict=True):
            api = process.api.values[code]
            values = without_defaults(api, process.raw.symbols["args"][number].get("values") or {})
            for argument, value in values.items():
                # Whoever names a function names the arguments that matter. Where a tree lies is none that does.
                named = api in process.for_plug_ins and not _is_absolute_path(value)
                if not (named or _is_meaningful(api, argument)) or (
                    isinstance(value, Mapping) and "tensor" not in value
                ):
                    continue
                found.setdefault((api, argument), set()).add(argument_text(value))
        return found

    return process.memo("arguments", compute)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_absolute_path(value: Any) -> bool:
    return isinstance(value, str) and (PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute())


def _argument_examples(process: Process, position: int, claim: ArgumentIs) -> Examples:
    rows = process.memo(("calls", claim.api), lambda: _calls(process)[process.api.isin([claim.api])[_calls(process)]])
    if process.raw.stretch is not None and _is_number(claim.value):
        return EMPTY  # A program may set it as training goes on, and golden's runs did not come to these steps.
    if not len(rows):
        return EMPTY
    symbols = process.raw.symbols["args"]
    used, inverse = np.unique(process.events["args"][rows], return_inverse=True)
    texts = []
    for number in used.tolist():
        values = without_defaults(claim.api, symbols[number].get("values") or {})
        texts.append(argument_text(values[claim.argument]) if claim.argument in values else "")
    present = np.array([text != "" for text in texts], dtype=bool)[inverse]
    rows, inverse = rows[present], inverse[present]
    observed = Labels.of(inverse, texts)
    context = process.memo(("context", claim.api, len(rows)), lambda: call_context(process, rows))
    return Examples(
        observed.isin([claim.value]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {name: column for name, column in context.items() if name not in ("autocast", "grad_mode")},
        observed,
    )


def _in_graphs(process: Process, api: str, argument: str) -> Mapping[str, Ints]:
    """Measures of an argument in compiled graphs, by its value in words; none where rules do not speak of it."""
    speaks = api in vocabulary.LAYER_FUNCTIONS or api in vocabulary.EMBEDDING or vocabulary.is_loss(api)
    if not speaks or not _is_meaningful(api, argument) or argument in SET_BY_MODE:
        return {}
    return {argument_text(value): rows for value, rows in constants(process).get((api, argument), {}).values()}


def _given(process: Process, api: str, argument: str) -> set[str]:
    """What an argument was in all calls outside compiled regions, those of library functions included."""
    rows = np.flatnonzero(process.is_call & process.api.isin([api]))
    symbols = [process.raw.symbols["args"][number] for number in np.unique(process.events["args"][rows]).tolist()]
    found = [without_defaults(api, symbol.get("values") or {}) for symbol in symbols]
    return {argument_text(values[argument]) for values in found if argument in values}


def _in_graphs_examples(process: Process, position: int, claim: ArgumentIs) -> Examples:
    return graph_examples(position, _in_graphs(process, claim.api, claim.argument), claim.value)


def _mode(process: Process, mode: Mode, rows: Ints) -> Labels:
    if mode == "autocast":
        return _autocast_inside(process, rows)
    if mode == "grad_mode":
        return Labels.flags(process.grad_mode[rows] == 1, "enabled", "disabled")
    return Labels.flags((process.events["flags"][rows] & fmt.TRAINING) != 0, "on", "off")


def _autocast_inside(process: Process, rows: Ints) -> Labels:
    """Autocast as the layers of a model see it: around the call, or within it, as with a decorated `forward`."""
    entries = process.entry_rows
    seq = process.events["seq"]
    layers = np.flatnonzero(process.is_call & vocabulary.calls_of(process, vocabulary.LINEAR_ALGEBRA))
    layers = layers[~process.inside("function")[layers]]
    inside = np.searchsorted(seq[entries], seq[layers], side="right") - 1
    kept = (inside >= 0) & (seq[layers] < process.events["end"][entries[np.maximum(inside, 0)]])
    layers, inside = layers[kept], inside[kept]
    codes = process.autocast.codes.copy()
    under = ~process.autocast.isin(["off"])[layers]
    codes[entries[inside[under]]] = process.autocast.codes[layers[under]]
    return Labels(codes[rows], process.autocast.values)


def _records_nothing(process: Process, rows: Ints) -> Bools:
    """Which of these calls, in which gradients are recorded, are of models without a trainable parameter: in
    evaluation, where nothing goes backward, there is nothing to record.
    """
    found = np.zeros(len(rows), dtype=bool)
    recording = process.grad_mode[rows] == 1
    if not recording.any():
        return found
    variables, roots = Variables.of(process), module_roots(process)[process.events["mod"][rows]]
    ids = variables.ids("parameter", tied=True)
    for root in np.unique(roots[recording]).tolist():
        mine, lines = ids[variables.root[ids] == root], np.flatnonzero(recording & (roots == root))
        times = process.events["seq"][rows[lines[[0, -1]]]].astype(np.int64)
        if len(mine) and not any(trainable_at(process, mine, np.full(len(mine), time)).any() for time in times):
            found[lines] = True
    return found


def _mode_examples(process: Process, position: int, claim: ModeOfCall) -> Examples:
    rows = process.entry_rows
    rows = rows[process.stage_labels.isin([claim.stage])[rows]]
    if not len(rows):
        return EMPTY
    if claim.mode == "grad_mode" and claim.stage == "eval":
        rows = rows[~_records_nothing(process, rows)]
    observed = _mode(process, claim.mode, rows)
    context = call_context(process, rows)
    # The modes themselves must not explain each other away.
    kept = {name: context[name] for name in ("rank", "root")}
    return Examples(
        observed.isin([claim.value]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        kept,
        observed,
    )
