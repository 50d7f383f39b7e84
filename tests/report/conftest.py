"""Results as checks of a tiny GPT would leave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_traincheck.check.result import (
    ChangedLines,
    CheckResult,
    Coverage,
    Incident,
    InvariantVerdict,
    LaterSteps,
    Parted,
    RunError,
    SideInfo,
    Timing,
    Verdict,
    Violation,
    Warned,
)
from pytest_traincheck.relations.api_arg import ArgumentIs
from pytest_traincheck.relations.api_output import Returns
from pytest_traincheck.relations.api_sequence import Order
from pytest_traincheck.relations.event_contain import InStep
from pytest_traincheck.rules.claims import Claim, Foreign
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Invariant, Kind, Scope

HOSTILE = "<script>alert(1)</script> [bold red]x[/] \x1b[31m\x00\u202e & \"quoted\" 'single' \ufffe {{ 7*7 }}"


CLAIMS: dict[str, Callable[[str], Claim]] = {
    "EventContain": lambda text: InStep(text, "updates"),
    "APISequence": lambda text: Order((text, "step")),
    "APIOutput": lambda text: Returns(text, "float32"),
    "APIArg": lambda text: ArgumentIs(text, "lr", "0.001"),
}
"""A claim of each relation that no other rule makes."""


def rule(subject: str, sentence: str, relation: str = "EventContain", kind: Kind = Kind.BEHAVIOUR) -> Invariant:
    return Invariant(
        relation=relation,
        subject=subject,
        claim=CLAIMS.get(relation, lambda text: Foreign({"x": text}))(sentence),
        when=(Clause("stage", ("train",)),),
        scope=Scope.TRANSFERABLE,
        kind=kind,
        sentence=sentence,
        examples=24,
        runs=3,
    )


CLIP = rule(
    "torch.nn.utils.clip_grad_norm_",
    "Every step of training calls `torch.nn.utils.clip_grad_norm_` once before `torch.optim.AdamW.step`.",
    relation="APISequence",
)
STEP = rule("torch.optim.AdamW.step", "`torch.optim.AdamW.step` changes every parameter that has a gradient.")
BACKWARD = rule("torch.Tensor.backward", "`torch.Tensor.backward` gives every trainable parameter a gradient.")
EVAL = rule("torch.nn.Dropout", "`torch.nn.Dropout` gives back its input in eval.", relation="APIOutput")
LEARNING_RATE = rule("torch.optim.AdamW", "`AdamW(lr)` is 0.001.", relation="APIArg", kind=Kind.CONFIG)

LAYERS = tuple(f"transformer.blocks.{index}.attention.projection.weight" for index in range(12))


def violation(invariant: Invariant, title: str, seq: int = 10, **changes: object) -> Violation:
    facts: dict[str, object] = {
        "golden": "once in every step, before the optimizer steps (24 examples in 3 runs)",
        "candidate": "never in 8 steps",
        "step": 1,
        "stage": "train",
        "ranks": (0, 1, 2, 3),
        "seq": seq,
        "module": "transformer.blocks.0.attention",
        "variables": LAYERS,
        "source": "train/loop.py:41",
        "count": 8,
    }
    return Violation(invariant, title, **{**facts, **changes})  # type: ignore[arg-type]


LONG_LINE = (
    "        loss = criterion(model(batch.to(device, non_blocking=True)), targets.to(device, non_blocking=True)).mean()"
)
HUNK = "\n".join(
    [
        "@@ -38,16 +38,14 @@",
        "     model.train()",
        "     for batch, targets in loader:",
        "         optimizer.zero_grad()",
        f" {LONG_LINE}",
        "         loss.backward()",
        "-        torch.nn.utils.clip_grad_norm_(",
        "-            model.parameters(), config.grad_clip",
        "-        )",
        "+        # clipped by the optimizer now",
        "         optimizer.step()",
        "         scheduler.step()",
        "-        log(loss)",
        "-        log(norm)",
        "+        log(loss, step)",
        "         if step == config.steps:",
        "             break",
    ]
)

ENVIRONMENT = {"python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.3.1", "platform": "linux-x86_64-cpu"}


@pytest.fixture
def failed() -> CheckResult:
    clipping = Incident(
        id="c0ffee",
        number=1,
        cause=violation(CLIP, "`torch.nn.utils.clip_grad_norm_` is no longer called before `torch.optim.AdamW.step`"),
        consequences=(
            *(violation(STEP, f"the update of `{name}` is larger than ever in golden", 20 + i) for i, name in
              enumerate(LAYERS)),
            violation(BACKWARD, "the gradient norm is larger than ever in golden", 50, step=2),
        ),
        diff=ChangedLines("train/loop.py", HUNK, "same function", 6),
    )  # fmt: skip
    config = Incident(
        id="decade",
        number=2,
        cause=violation(
            LEARNING_RATE,
            "`AdamW(lr)` was 0.001, is 0.0003",
            5,
            golden="0.001",
            candidate="0.0003",
            stage="init",
            step=0,
            ranks=(),
            module="",
            variables=(),
            count=1,
        ),
    )
    return CheckResult(
        pipeline="tiny_gpt",
        verdicts=(
            InvariantVerdict(CLIP, Verdict.VIOLATED),
            InvariantVerdict(STEP, Verdict.VIOLATED),
            InvariantVerdict(BACKWARD, Verdict.VIOLATED),
            InvariantVerdict(LEARNING_RATE, Verdict.VIOLATED),
            InvariantVerdict(EVAL, Verdict.NOT_TRIGGERED, "the candidate never was in eval"),
            *(
                InvariantVerdict(rule("torch.nn.Linear", f"`Linear` number {i} returns float32."), Verdict.HELD)
                for i in range(30)
            ),
            InvariantVerdict(rule("torch.cuda.amp.GradScaler.step", "The scaler steps."), Verdict.NOT_OBSERVABLE,
                             "no GPU in the candidate run"),
        ),
        incidents=(clipping, config),
        golden=SideInfo("4f1c2ab90d", 3, ENVIRONMENT, "/tmp/worktrees/golden", "python train.py --steps 8"),
        candidate=SideInfo(
            "97bd01c4aa", 1, {**ENVIRONMENT, "torch": "2.14.0+cpu"}, "/home/user/project", "python train.py --steps 8"
        ),
        timing=Timing(4.21, 4.4, 0.31, 0.052),
        notes=("The golden run with seed 2 was repeated: it aborted in teardown after training had finished.",),
        renamed=tuple((f"Distiller.student.{name}", f"Student.{name}") for name in "abcdef"),
    )  # fmt: skip


@pytest.fixture
def passed() -> CheckResult:
    return CheckResult(
        pipeline="mnist",
        verdicts=(InvariantVerdict(STEP, Verdict.HELD), InvariantVerdict(EVAL, Verdict.ACCEPTED, "until 2027-01-01")),
        golden=SideInfo("4f1c2ab90d", 3, ENVIRONMENT),
        candidate=SideInfo("97bd01c4aa", 1, ENVIRONMENT),
        timing=Timing(1.0, 1.1, 0.1, 0.01),
    )


@pytest.fixture
def errored() -> CheckResult:
    output = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    import tokenisers\n' * 9
    return CheckResult(
        pipeline="gan",
        errors=(
            RunError(
                "candidate",
                "`python train.py --steps 8` ended with exit status 1 after 0.4 seconds.",
                "Run the command by itself in /home/user/project and make it pass.",
                output + "\x1b[31mModuleNotFoundError: No module named 'tokenisers'\x1b[0m\n",
            ),
        ),
        timing=Timing(candidate_run_s=0.4),
    )  # fmt: skip


@pytest.fixture
def hostile() -> CheckResult:
    """Markup, control characters and endless names in every string there is."""
    long = "a_very_long.module_path/" * 12 + "漢字" * 60
    invariant = rule(f"{HOSTILE} {long}", HOSTILE, relation=HOSTILE)
    cause = violation(
        invariant, f"{HOSTILE} {long}", golden=HOSTILE, candidate=HOSTILE, module=long, variables=(HOSTILE, long) * 9,
        source=f"{HOSTILE}.py:1", stage=HOSTILE,
    )  # fmt: skip
    hunk = ChangedLines(HOSTILE, f"@@ {HOSTILE}\n-{HOSTILE}\n+{long}\n \t{long}\n{HOSTILE}\f\u2028", HOSTILE, 9)
    return CheckResult(
        pipeline=HOSTILE,
        verdicts=(InvariantVerdict(invariant, Verdict.VIOLATED, HOSTILE),
                  InvariantVerdict(rule("other", HOSTILE), Verdict.NOT_TRIGGERED, HOSTILE)),
        incidents=(Incident(HOSTILE, 1, cause, (cause, violation(STEP, HOSTILE)), hunk),),
        errors=(RunError(HOSTILE, HOSTILE, HOSTILE, f"{HOSTILE}\n{'x' * 500}\n\tcolumn   column\n"),),
        golden=SideInfo(HOSTILE, 1, {HOSTILE: HOSTILE}, HOSTILE, HOSTILE),
        candidate=SideInfo(HOSTILE, 1, {HOSTILE: "other"}, HOSTILE, HOSTILE),
        notes=(HOSTILE, long),
        renamed=((HOSTILE, long),),
    )  # fmt: skip


@pytest.fixture
def uncovered(passed: CheckResult) -> CheckResult:
    """Golden's command and seed, and hardly anything could be compared."""
    place = Parted("first batch: `batch[1]` differs, `batch[0]` is as in the golden run", 1, "train/data.py:31")
    return replace(
        passed,
        coverage=Coverage(
            214,
            3,
            1.0,
            True,
            place,
            211,
            reasons=(("drew other random numbers", 211),),
            later=LaterSteps(18, 4, "drew other random numbers"),
        ),
        warnings=(
            Warned(
                "coverage",
                "only 3 of 214 comparisons with the golden run took place; the runs differ.",
                "train/data.py:31",
            ),
            Warned("golden", "The golden was learned from one seed."),
        ),
    )
