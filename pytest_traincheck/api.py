"""What packages and conftest files that extend this one may use: the names of `__all__`, and the hooks.

`docs/extending.md` says what each is for and what is promised. Importing this needs numpy and no torch. Everything that
is not named here is ours to change.
"""

from __future__ import annotations

from pytest_traincheck.frameworks.description import CallType, Framework, Observation, Wrapper
from pytest_traincheck.golden.numbers import Numbers
from pytest_traincheck.mutants.kind import Mistake
from pytest_traincheck.relations.base import (
    ABSENT,
    Examples,
    Finding,
    Hypothesis,
    Meaningful,
    Measured,
    MeasuredClaim,
    Relation,
    listed,
    seen_values,
    usual_meaning,
    variable_names,
)
from pytest_traincheck.relations.claims import Items, Natural, SettingValue, Value
from pytest_traincheck.relations.context import (
    call_context,
    mesh_label,
    rank_label,
    state_labels,
    step_context,
    variable_context,
)
from pytest_traincheck.relations.meaning import Change, Deviation, Evidence, Excuse, Meaning, Place, Words
from pytest_traincheck.report.reporter import Reporter
from pytest_traincheck.rules.claims import Claim, Written
from pytest_traincheck.rules.conditions import Clause, Condition, Except, Exists, Same
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Bools, Ints, Labels
from pytest_traincheck.trace.process import OptimizerStep

__all__ = [
    "ABSENT",
    "Bools",
    "CallType",
    "Change",
    "Claim",
    "Clause",
    "Condition",
    "Deviation",
    "Evidence",
    "Examples",
    "Except",
    "Excuse",
    "Exists",
    "Finding",
    "Framework",
    "Hypothesis",
    "Ints",
    "Invariant",
    "Items",
    "Kind",
    "Labels",
    "Meaning",
    "Meaningful",
    "Measured",
    "MeasuredClaim",
    "Mistake",
    "Natural",
    "Numbers",
    "Observation",
    "OptimizerStep",
    "Place",
    "Process",
    "Relation",
    "Reporter",
    "Run",
    "Same",
    "Scope",
    "SettingValue",
    "Value",
    "Words",
    "Wrapper",
    "Written",
    "call_context",
    "listed",
    "mesh_label",
    "rank_label",
    "seen_values",
    "state_labels",
    "step_context",
    "usual_meaning",
    "variable_context",
    "variable_names",
]
