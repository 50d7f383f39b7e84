"""A check result crosses a process boundary without loss."""

from __future__ import annotations

import json

from pytest_traincheck.check.result import (
    ChangedLines,
    CheckResult,
    Coverage,
    Incident,
    InvariantVerdict,
    ModuleAgreement,
    Parted,
    RunError,
    SideInfo,
    Timing,
    Verdict,
    Violation,
    Warned,
)
from pytest_traincheck.check.serialise import from_plain, to_plain
from pytest_traincheck.relations.hyperparameter import SettingIs
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause, Except, Exists, Same
from pytest_traincheck.rules.model import Invariant, Kind, Scope

RULE = Invariant(
    "Hyperparameter",
    "torch.optim.AdamW",
    SettingIs("value", "AdamW[Net]", "betas", [0.9, 0.999]),
    (
        Clause("stage", ("train", "eval")),
        Clause("rank", ("0",), negated=True),
        Exists("root"),
        Same("child", "root", negated=True),
        Except((Clause("stage", ("eval",)),)),
    ),
    Scope.PINNED,
    Kind.CONFIG,
    "AdamW(lr) is 0.001",
    8,
    3,
)
OTHER = Invariant("Plugin", "backward", Foreign({"x": [1]}), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, "once", 1, 1)


def violation(rule: Invariant) -> Violation:
    return Violation(rule, "title", "0.001", "0.0003", 2, "train", (0, 1), 9, "net", ("net.w",), "train.py:3", 4,
                     deviation=Deviation.TOO_OFTEN, common_cause="one mask")  # fmt: skip


def test_everything_comes_back():
    result = CheckResult(
        "net",
        (InvariantVerdict(RULE, Verdict.VIOLATED, "reason"), InvariantVerdict(OTHER, Verdict.NOT_OBSERVABLE)),
        (
            Incident("id", 1, violation(RULE), (violation(OTHER), violation(RULE))),
            Incident("id2", 2, violation(OTHER), (), ChangedLines("a.py", "@@ -1,1 +1,0 @@\n-x", "same file", 1)),
        ),
        (RunError("golden", "message", "remedy", "output\n"),),
        SideInfo("c0ffee", 3, {"torch": "2.13.0"}, "/golden", "python train.py"),
        SideInfo("", 1, {}, "/candidate", "python train.py"),
        Timing(1.5, 2.5, 0.25, 0.125),
        ("a note",),
        (ModuleAgreement("Net.fc", "deviates", float("inf"), 2), ModuleAgreement("Net", "same", 0.0, 2)),
        (("Wrapper.model", "Net"), ("Net.hidden", "Net.fc1")),
        coverage=Coverage(
            40, 3, 0.5, None, Parted("first batch: part 0 differs", 1, "train.py:7", True), 20, "no seed"
        ),
        warnings=(Warned("coverage", "too little", "train.py:7", fails=True), Warned("golden", "one seed")),
    )
    assert from_plain(json.loads(json.dumps(to_plain(result)))) == result


def test_an_invariant_is_written_once():
    result = CheckResult("net", (InvariantVerdict(RULE, Verdict.VIOLATED),), (Incident("id", 1, violation(RULE)),))
    assert len(to_plain(result)["invariants"]) == 1
