"""The states in which people meet our pages, each as the text of a page: results as commands would leave them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kept_checks import a_month

from pytest_traincheck.check.attribution import Cell, Code, Libraries
from pytest_traincheck.check.result import CheckResult, ModuleAgreement
from pytest_traincheck.golden.diff import Change, GoldenDiff
from pytest_traincheck.golden.portrait import Call, Curve, Group, Outline, Portrait, Portraits, Rank
from pytest_traincheck.history.story import stories
from pytest_traincheck.launch.bisection import Commit, Mark
from pytest_traincheck.mutants.kind import Kind
from pytest_traincheck.report import bisect_html, html, trace_html
from pytest_traincheck.report.bisect import BisectReport, Tested
from pytest_traincheck.report.history import html as history_html
from pytest_traincheck.report.refresh import html as refresh_html
from pytest_traincheck.report.refresh.result import Refreshed
from pytest_traincheck.report.selftest import html as selftest_html
from pytest_traincheck.report.trace_html import TracePage, TraceProcess
from pytest_traincheck.report.upgrade import html as upgrade_html
from pytest_traincheck.report.upgrade.result import UpgradeResult, VersionRow
from pytest_traincheck.selftest.result import Fate, Mutant, SelftestResult

BATCH, CLEAR, NET, LOSS, BACK, STEP = (
    Call("data", "torch.utils.data.DataLoader.__next__"),
    Call("zero_grad", "torch.optim.AdamW.zero_grad"),
    Call("module", "Net"),
    Call("function", "torch.nn.functional.cross_entropy"),
    Call("autograd", "torch.autograd.backward"),
    Call("optimizer", "torch.optim.AdamW.step"),
)
CALLS = (BATCH, CLEAR, NET, LOSS, BACK, STEP)


def curve(seed: str, *losses: float, name: str = "AdamW[Net]", rate: float = 0.01) -> Curve:
    return Curve(seed, name, losses, tuple(value / 2 for value in losses), ((rate,) * len(losses),))


def outline(*calls: Call, steps: int = 4) -> Outline:
    known = tuple(dict.fromkeys(calls))
    return Outline(known, (tuple(known.index(call) for call in calls),), (0,) * steps)


def rank(number: int, batches: str, norm: float = 1.0) -> Rank:
    count = len(batches)
    made = tuple((letter * 8,) for letter in batches)
    return Rank(number, made, (0.5,) * count, (norm,) * count, (2,) * count)


GROUP = Group("AdamW[Net]", 0, 4, 1200, 4, ("Net.a", "Net.b"), (("lr", "0.01"),))

GOLDEN = Portrait(
    "0",
    (curve("0", 2.0, 1.5, 1.0, 0.8), curve("1", 2.1, 1.4, 1.1, 0.7)),
    outline(*CALLS),
    (GROUP,),
    (rank(0, "abcd"), rank(1, "efgh")),
)
SAME = replace(GOLDEN, curves=GOLDEN.curves[:1])
BROKEN = Portrait(
    "0",
    (curve("0", 2.0, 1.8, 1.9, float("inf"), rate=0.1),),
    outline(BATCH, NET, LOSS, BACK, STEP),
    (replace(GROUP, tensors=3, elements=900, settings=(("lr", "0.1"),)), Group("", 0, 1, 300, 1, ("Net.d",))),
    (rank(0, "abab"), rank(1, "efxh", norm=1.2)),
)
MODULES = (
    ModuleAgreement("Net", "deviates", 0.4, 4),
    ModuleAgreement("Net.stem", "same", 0.0, 4),
    ModuleAgreement("Net.blocks.0.norm", "drifted", 1e-7, 4),
    ModuleAgreement("Net.blocks.0.fc", "deviates", 0.02, 4),
    ModuleAgreement("Net.head", "not comparable", 0.0, 4),
)


def drawn(result: CheckResult) -> CheckResult:
    """A result with everything that can be drawn."""
    return replace(result, portraits=Portraits(BROKEN, GOLDEN), modules=MODULES)


def commit(letter: str, subject: str) -> Commit:
    return Commit(letter * 40, "maintainers", "2026-01-02T03:04:05+00:00", subject)


def bisected(result: CheckResult, subject: str = "Extract a function") -> BisectReport:
    good, bad = commit("a", "Begin"), commit("b", subject)
    tested = (Tested(good, Mark.GOOD), Tested(commit("c", "Skip"), Mark.SKIP, "it does not run"))
    first = Tested(bad, Mark.BAD, "1 incident", drawn(result))
    rule = result.incidents[0].cause.invariant.id if result.incidents else "none"
    return BisectReport(result.pipeline, rule, good, bad, (*tested, first), first)


def refreshed(result: CheckResult) -> Refreshed:
    rules = [item.invariant for item in result.verdicts]
    change = GoldenDiff(
        result.pipeline, added=tuple(rules[:2]), removed=tuple(rules[2:3]), changed=(Change(rules[3], rules[3]),)
    )
    return Refreshed(
        drawn(result), "learned 36 rules, wrote golden_invariants/tiny_gpt.jsonl", change, tuple(rules), "as meant",
        accepted=result.incidents[:1],
    )  # fmt: skip


def selftested(result: CheckResult, mistake: str = "Nothing clears the gradients.") -> SelftestResult:
    def mutant(name: str, fate: Fate, group: str = "gradients") -> Mutant:
        return Mutant(Kind(name, group, mistake, "Steps go wrong.", "gradients"), fate, 3, detail="why")

    fates = (Fate.KILLED, Fate.SURVIVED, Fate.EQUIVALENT, Fate.NOT_APPLICABLE, Fate.CRASHED)
    found = tuple(mutant(f"mistake-{place}", fate, f"group {place % 2}") for place, fate in enumerate(fates))
    return SelftestResult(replace(result, incidents=(), errors=()), found)


def upgraded(result: CheckResult, passed: CheckResult) -> UpgradeResult:
    cells = (
        Cell(Code.GOLDEN, Libraries.NEW, drawn(result)),
        Cell(Code.CANDIDATE, Libraries.OLD, passed),
        Cell(Code.CANDIDATE, Libraries.NEW, drawn(result)),
    )
    versions = (VersionRow(result.pipeline, "1.0", "2.0", True),)
    calls = (None,) * len(result.incidents)
    return UpgradeResult(result.pipeline, CheckResult(result.pipeline), 36, cells, calls, versions, "python", "python")


def traced(name: str) -> TracePage:
    process = TraceProcess(name, "finished", (("command", name),), ((name, 12), ("torch.nn.Linear", 4)))
    return TracePage(name, (process,), BROKEN)


def states(
    failed: CheckResult, passed: CheckResult, errored: CheckResult, uncovered: CheckResult
) -> Mapping[str, Callable[[], str]]:
    """The page of each state, by name."""
    one = replace(failed, incidents=failed.incidents[:1])
    return {
        "green check": lambda: html.to_text([replace(passed, portraits=Portraits(SAME, GOLDEN))]),
        "one incident": lambda: html.to_text([replace(one, portraits=Portraits(BROKEN, GOLDEN))]),
        "several incidents": lambda: html.to_text([drawn(failed)]),
        "several pipelines": lambda: html.to_text([drawn(failed), passed, errored]),
        "selftest with a survivor": lambda: selftest_html.to_text([selftested(passed)]),
        "upgrade": lambda: upgrade_html.to_text([upgraded(failed, passed)]),
        "bisect": lambda: bisect_html.to_text(bisected(failed)),
        "refresh": lambda: refresh_html.to_text([refreshed(failed)]),
        "trace": lambda: trace_html.to_text(traced("candidate")),
        "under a floor": lambda: html.to_text([replace(uncovered, portraits=Portraits(SAME, None))]),
        "a run that failed": lambda: html.to_text([errored]),
        "history": lambda: history_html.to_text(a_month(), stories(a_month()), {}),
    }
