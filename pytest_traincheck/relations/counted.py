"""What of a process is counted: which calls of which APIs, and in which windows their number says something."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.relations.called import FORWARD, Called
from pytest_traincheck.relations.context import module_roots
from pytest_traincheck.trace import Process
from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.labels import Ints, Labels

RESTORE = ".load_state_dict"
GRADIENT_TYPES = ("clip", "scaler", "collective")
"""Types of calls that stand between a backward pass and the step that uses its gradients."""


def counted(process: Process) -> Mapping[Called, Ints]:
    """Rows of everything that is counted. Steps are counted by optimizer as well."""
    return process.memo("counted", lambda: _count(process))


def _count(process: Process) -> Mapping[Called, Ints]:
    events = process.events
    found: dict[Called, Ints] = {}
    succeeded = (events["flags"] & fmt.RAISED) == 0

    flow = process.rows_of_type(*vocabulary.FLOW_TYPES)
    nested = process.inside(*vocabulary.FLOW_TYPES, "function")
    # What is gathered in evaluation is a metric.
    measuring = process.type_codes.isin(["collective"]) & vocabulary.follows_evaluation(process)
    measuring |= vocabulary.only_measures(process)
    left_out = nested | measuring | process.api.isin(vocabulary.WAITING)
    found.update(_by_api(process, flow[~left_out[flow] & succeeded[flow]]))

    steps = process.rows_of_type("optimizer")
    steps = steps[~process.inside("optimizer")[steps] & succeeded[steps]]
    for api, rows in process.api.groups(steps).items():
        found[Called(api)] = rows
        labels = Labels.of(events["opt"], process.names.optimizers)
        found.update({Called(api, label): mine for label, mine in labels.groups(rows).items()})

    # State comes back when a run resumes.
    modes = process.rows_of_type("mode")
    modes = modes[~process.inside("mode", "module")[modes] & succeeded[modes]]
    restored = process.api.groups(modes)
    found.update({Called(api): rows for api, rows in restored.items() if api.endswith(RESTORE)})

    wrappers = vocabulary.wrapper_calls(process)
    found.update({Called(f"{api}.forward"): rows for api, rows in process.api.groups(wrappers).items()})

    layers = vocabulary.calls_of(process, vocabulary.LAYER_FUNCTIONS) & (process.stage == 1) & succeeded
    found.update(_by_api(process, np.flatnonzero(layers)))

    # Of those types that flow the calls are there already. In evaluation a function may be a metric.
    named = process.api.isin(process.for_plug_ins) & process.type_codes.isin(["observed"])
    found.update(_by_api(process, np.flatnonzero(named & succeeded & ~vocabulary.follows_evaluation(process))))

    masking = vocabulary.masking_calls(process)
    found[Called(vocabulary.MASKING)] = masking[process.stage[masking] == 1]

    roots = Labels.of(module_roots(process)[events["mod"]], process.names.roots)
    whole = process.forward_rows
    for root, rows in roots.groups(process.entry_rows[~np.isin(process.entry_rows, wrappers)]).items():
        for stage, mine in process.stage_labels.groups(rows).items():
            # A model whose parts are called one by one is called by them.
            as_whole = mine[np.isin(mine, whole)]
            found[Called(FORWARD, root, stage)] = as_whole if len(as_whole) else mine
    return found


def _by_api(process: Process, rows: Ints) -> Mapping[Called, Ints]:
    return {Called(api): mine for api, mine in process.api.groups(rows).items()}


def steps_optimizer(process: Process, called: Called) -> bool:
    """Whether it is the step of an optimizer that the process has made."""
    return called.api in {f"{kind}.step" for kind in process.optimizer_class if kind}


def said_otherwise(process: Process, called: Called) -> bool:
    """Steps of several optimizers are counted apart, those of a single one by its class alone."""
    if not steps_optimizer(process, called):
        return False
    return bool(called.owner) != (len({step.optimizer for step in process.steps}) > 1)


def skipped_windows(process: Process) -> Ints:
    """Windows of which it is up to the data what falls into them: a gradient scaler was asked for a step in them and
    took none, as gradients had overflowed. Whether it takes the very first one is up to the data as well, so that what
    golden does around that is not known. And those before which something rare was observed, which other steps lie
    between.
    """

    def compute() -> Ints:
        first = np.zeros(min(len(_asked_for_steps(process)), 1), dtype=np.int64)
        return np.unique(np.concatenate([process.window[steps_not_taken(process)], first, _in_pieces(process)]))

    return process.memo("skipped windows", compute)


def _in_pieces(process: Process) -> Ints:
    """Windows that were observed in more than one piece."""
    begun = np.bincount(process.window[process.measures(fmt.OBSERVED)], minlength=1)
    found: Ints = np.flatnonzero(begun > 1)
    return found


def handed_over(process: Process, rows: Ints) -> Ints:
    """Windows behind golden's number of steps in which, instead of the scheduler whose calls are `rows`, another one
    steps for the same optimizer, which no step of the beginning has called: one schedule has followed another.
    """
    stretch, events = process.raw.stretch, process.events
    schedulers = process.rows_of_type("scheduler")
    if stretch is None or not len(rows) or not np.isin(rows, schedulers).all():
        return np.empty(0, dtype=np.int64)
    # By name: a resume makes an optimizer anew.
    names = Labels.of(events["opt"], process.names.optimizers)
    held = names.isin({names[row] for row in np.unique(rows).tolist()})
    first = schedulers[events["seq"][schedulers] <= stretch.head_end]
    others = schedulers[held[schedulers] & (events["flags"][schedulers] & fmt.RAISED == 0)]
    others = others[~process.api.isin({process.api[row] for row in first.tolist()})[others]]
    return np.setdiff1d(process.window[others], process.window[rows]).astype(np.int64)


def steps_not_taken(process: Process) -> Ints:
    """Calls in which a gradient scaler was asked for a step and took none."""

    def compute() -> Ints:
        asked = _asked_for_steps(process)
        begins = process.events["seq"][asked].astype(np.int64)
        taken = np.array([step.begin for step in process.steps], dtype=np.int64)
        inside = process.inside("scaler")[[step.row for step in process.steps]] if len(taken) else taken == 0
        within = np.searchsorted(begins, taken[inside]) - 1
        return asked[np.setdiff1d(np.arange(len(asked)), within)]

    return process.memo("steps not taken", compute)


def _asked_for_steps(process: Process) -> Ints:
    scaler = process.rows_of_type("scaler")
    return scaler[[process.api[row].endswith("GradScaler.step") for row in scaler.tolist()]]
