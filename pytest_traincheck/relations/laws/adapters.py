"""Adapters of peft: they alone are trained, begin as if they were not there, and are saved with all that was trained.

What peft freezes, a later loop over `model.parameters()` thaws; what it initialises, `model.apply` initialises anew;
what is merged for an evaluation and not taken out again gets no gradients any more.
"""

from __future__ import annotations

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, listed, variable_names
from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.relations.laws.holdings import held, reached
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, in_step, table
from pytest_traincheck.relations.laws.places import arguments, calls_of, loaded
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Bools, Ints
from pytest_traincheck.trace.stages import TRAIN
from pytest_traincheck.trace.variables import Variables

_MODEL = "https://huggingface.co/docs/peft/package_reference/peft_model"
_TROUBLE = "https://huggingface.co/docs/peft/developer_guides/troubleshooting"
_TUNER = "peft.tuners.tuners_utils.BaseTuner"
_RESET = "peft.tuners.lora.layer.LoraLayer.reset_lora_parameters"
_SAVE = "peft.peft_model.PeftModel.save_pretrained"
_INNER = "base_layer"
"""What an adapter calls the layer that it is put around."""
_NEUTRAL = ("lora_B", "lora_embedding_A")
"""The factors that are zero at first, so that the product is."""
_ORDINARY = (True, "gaussian", "True")


class AdaptedStaysFrozen(Law):
    """The weight of a layer is trained beside the adapter that was put around it."""

    name = "AdaptedStaysFrozen"
    subject = "peft.get_peft_model"
    says = "A weight that an adapter was put around is not trained itself"
    expected = "adapted weights are frozen"
    because = Reason(
        "adapted-weight-trained",
        "peft freezes what it puts adapters around. Where it is thawed again, all weights are trained, and what "
        "`save_pretrained` saves, the adapters alone, is not what was trained.",
        _MODEL,
        "Hand `(p for p in model.parameters() if p.requires_grad)` to the optimizer and thaw nothing after "
        "`get_peft_model`; what is to be trained in full is named in `modules_to_save`.",
        library="peft",
    )
    right = "model = get_peft_model(model, config)"
    wrong = "model = get_peft_model(model, config)\nmodel.requires_grad_(True)"
    place = Place.HELD

    def places(self, run: Run) -> Examples:
        return each_process(run, _adapted)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(
            f"{names} are trained beside the adapters that were put around them.", "adapted weights are trained"
        )


class AdapterBeginsNeutral(Law):
    """An adapter changes what the model computes before it was trained."""

    name = "AdapterBeginsNeutral"
    subject = _RESET
    says = "An adapter that LoRA initialises leaves the model as it is until the first step"
    expected = "the product of its factors is zero at first"
    because = Reason(
        "adapter-not-neutral",
        "LoRA sets one factor to zero, so that the model begins as it was pretrained. Where something initialises all "
        "layers afterwards, it begins with noise in each adapted layer.",
        _TROUBLE,
        "Initialise new layers before `get_peft_model`, or only those that are yours.",
        "Adapters that go on from other ones.",
        "peft",
    )
    right = "model.head.apply(init_weights)\nmodel = get_peft_model(model, config)"
    wrong = "model = get_peft_model(model, config)\nmodel.apply(init_weights)"
    place = Place.INITIAL
    depth = 3

    def places(self, run: Run) -> Examples:
        return each_process(run, _neutral)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} are not zero when the first step begins: the adapters change the model from the start.",
                    "adapters begin with other values")  # fmt: skip


class UnmergedInTraining(Law):
    """Adapters are merged into their layers while the model is trained."""

    name = "UnmergedInTraining"
    subject = f"{_TUNER}.merge_adapter"
    says = "Adapters are not merged where the model is trained"
    expected = "`unmerge_adapter()` before training goes on"
    because = Reason(
        "adapters-merged-in-training",
        "A merged adapter is part of the weight that it was put around, and is not called: it gets no gradients, and "
        "what is trained on is a frozen weight.",
        _MODEL,
        "Call `model.unmerge_adapter()` after the evaluation that has called `merge_adapter()`.",
        library="peft",
    )
    right = "model.merge_adapter()\nevaluate(model)\nmodel.unmerge_adapter()"
    wrong = "model.merge_adapter()\nevaluate(model)"
    place = Place.FORWARD
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _merged)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"The model is trained while its adapters are merged, first {in_step(run, examples, broken)}.",
                    "merged adapters in training")  # fmt: skip


class AdaptersTrained(Law):
    """A model with adapters is trained, and none of them."""

    name = "AdaptersTrained"
    subject = "peft.PeftModel.from_pretrained"
    says = "Where a model with adapters is trained, some adapter gets gradients"
    expected = "adapters are trained"
    because = Reason(
        "adapters-frozen",
        "`from_pretrained` loads adapters frozen, for inference. A head that is thawed beside them is all that is "
        "trained then.",
        _MODEL,
        "Call `PeftModel.from_pretrained(model, path, is_trainable=True)`, and freeze before `get_peft_model`.",
        "A head that is trained on adapters which are done.",
        "peft",
    )
    right = "model = PeftModel.from_pretrained(model, path, is_trainable=True)"
    wrong = "model = PeftModel.from_pretrained(model, path)"
    place = Place.HELD
    depth = 2
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _trained_adapters)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, _ = first_of(run, examples, broken)
        root = int(Variables.of(process).root[examples.variable[broken[0]]])
        return Told(f"`{process.names.roots[root]}` is trained, and none of its adapters gets a gradient.",
                    "frozen adapters")  # fmt: skip


class TrainedIsSaved(Law):
    """What was trained beside the adapters is not saved with them."""

    name = "TrainedIsSaved"
    subject = _SAVE
    says = "What was trained in a model with adapters is in what is saved of it"
    expected = "all that was trained is saved"
    because = Reason(
        "trained-beside-adapters-not-saved",
        "`save_pretrained` of peft saves adapters and `modules_to_save`. A head or an embedding that was thawed by "
        "hand is trained, lost, and random when the adapters are loaded again.",
        _TROUBLE,
        'Name it in the configuration: `LoraConfig(modules_to_save=["classifier"])`.',
        library="peft",
    )
    right = 'LoraConfig(modules_to_save=["classifier"])\nmodel.save_pretrained(path)'
    wrong = "model.classifier.requires_grad_(True)\nmodel.save_pretrained(path)"
    place = Place.RESUMED
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _saved)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        names = listed(variable_names(run, examples, np.array(broken)))
        return Told(f"{names} were trained and are not saved with the adapters.", "trained parameters are not saved")


def _path(process: Process, number: int) -> str:
    return str(Variables.of(process).symbols[number].get("name", ""))


def _layers(process: Process) -> frozenset[tuple[int, str]]:
    """Layers that an adapter was put around: root and path."""

    def compute() -> frozenset[tuple[int, str]]:
        found = set()
        for symbol in Variables.of(process).symbols:
            before, inner, _ = f".{symbol.get('name', '')}".partition(f".{_INNER}.")
            if inner and symbol.get("kind") == "parameter" and "peft" in (process.raw.meta.get("versions") or {}):
                found.add((symbol.get("root", 0), before[1:]))
        return frozenset(found)

    return process.memo("adapted layers", compute)


def adapters(process: Process) -> Bools:
    """Which variables are parameters of adapters: what lies beside the layer that it was put around."""

    def compute() -> Bools:
        layers, found = _layers(process), []
        for symbol in Variables.of(process).symbols:
            path, inner = str(symbol.get("name", "")), f".{_INNER}."
            parts = path.split(".") if layers and symbol.get("kind") == "parameter" and inner not in f".{path}" else []
            begins = (".".join(parts[:size]) for size in range(len(parts)))
            found.append(any((symbol.get("root", 0), begin) in layers for begin in begins))
        return np.array(found, dtype=bool)

    return process.memo("parameters of adapters", compute)


def _trained(process: Process) -> Bools:
    """Which variables an optimizer holds that steps, and gradients reach."""
    variables, _ = held(process)
    found = np.zeros(len(Variables.of(process).symbols), dtype=bool)
    variables = variables[reached(process, variables)]
    found[variables] = True
    return found | found[Variables.of(process).first_name]


def _adapted(process: Process, position: int) -> Examples:
    """One example for each weight that an adapter was put around, in a process that trains."""
    if not process.steps or not _layers(process):
        return EMPTY
    wanted = [
        number
        for number in Variables.of(process).ids("parameter").tolist()
        if f".{_path(process, number)}".endswith(f".{_INNER}.weight")
    ]
    chosen = np.array(wanted, dtype=np.int64)
    return table(process, position, ~_trained(process)[chosen], np.full(len(chosen), process.steps[0].row), chosen)


def _neutral(process: Process, position: int) -> Examples:
    """One example for each factor that LoRA has set to zero and nothing has loaded since."""
    rows = calls_of(process, frozenset({_RESET}))
    names = {str(values.get("adapter_name")) for row in rows.tolist()
             if (values := arguments(process, row)).get("init_lora_weights") in _ORDINARY}  # fmt: skip
    if not names or not process.steps:
        return EMPTY
    chosen = [
        number
        for number in np.setdiff1d(Variables.of(process).ids("parameter"), loaded(process)).tolist()
        if any(f".{factor}.{name}" in _path(process, number) for factor in _NEUTRAL for name in names)
    ]
    variable = np.array(chosen, dtype=np.int64)
    begin = np.full(len(variable), process.steps[0].begin)
    state = Variables.of(process).state(variable, begin)
    seen = state != fmt.ABSENT
    row = np.full(int(seen.sum()), process.steps[0].row)
    return table(process, position, state[seen] == fmt.ZERO, row, variable[seen]) if seen.any() else EMPTY


def _merged(process: Process, position: int) -> Examples:
    """One example for each training call of the one model that has adapters."""
    roots = {root for root, _ in _layers(process)}
    rows = process.forward_rows
    rows = rows[(process.stage[rows] == TRAIN) & (process.grad_mode[rows] == 1)]
    mine = module_roots(process)[process.events["mod"][rows]]
    rows = rows[np.isin(mine, sorted(roots))]
    if not len(rows) or len(np.unique(mine[np.isin(mine, sorted(roots))])) > 1:
        return EMPTY
    merges, takes_out = (_last(process, rows, f"{_TUNER}.{name}") for name in ("merge_adapter", "unmerge_adapter"))
    return table(process, position, (merges < 0) | (takes_out > merges), rows)


def _last(process: Process, rows: Ints, api: str) -> Ints:
    """The last call of an API before each row, -1 where there is none."""
    calls = calls_of(process, frozenset({api}))
    return np.concatenate([[-1], calls])[np.searchsorted(calls, rows)]


def _trained_adapters(process: Process, position: int) -> Examples:
    """One example for each model with adapters of which something is trained in two steps or more."""
    if len(process.steps) < 2 or not _layers(process):
        return EMPTY
    trained, mine, root = _trained(process), adapters(process), Variables.of(process).root
    first = []
    for number in np.unique(root[mine]).tolist():
        learned = np.flatnonzero(trained & (root == number))
        if len(learned):
            first.append((int(learned[0]), bool((trained & mine & (root == number)).any())))
    rows = np.full(len(first), process.steps[0].row)
    return table(process, position, [holds for _, holds in first], rows, [number for number, _ in first])


def _saved(process: Process, position: int) -> Examples:
    """One example for each trained parameter that peft's saving has an opinion of; it holds if any call saves it. Of
    several adapters one alone may be saved.
    """
    calls = calls_of(process, frozenset({_SAVE}))
    without, content = process.measures("save.without"), process.measures("save.content")
    if not len(calls):
        return EMPTY
    variables = process.events["args"]
    left, kept = np.unique(variables[without]).astype(np.int64), np.unique(variables[content]).astype(np.int64)
    trained = _trained(process)
    chosen = np.array([number for number in np.union1d(left, kept).tolist() if trained[number]], dtype=np.int64)
    holds = np.isin(chosen, kept) | adapters(process)[chosen]
    return table(process, position, holds, np.full(len(chosen), calls[-1]), chosen)
