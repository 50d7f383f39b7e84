"""Bugs that only numbers reveal, and variations that change nothing but rounding: makes `docs/replay.md`.

    python benchmarks/replay.py --write docs/replay.md

The golden of each pipeline is learned once, from three seeds, with one thread. Every bug of `fixtures/numbers` and
every variation of `fixtures/drift` is one more run that is checked against it. The exit status is 1 when a bug is
missed or a variation has an incident.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from detection import SEEDS, Recorder, learned
from judged import Case, Judged, Variation
from measure import REPOSITORY, machine, markdown_table
from planted import Bug, Drift, Pipeline, load_drifts, load_number_bugs, load_pipelines

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.trace import load_run

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Replayed:
    """What became of one candidate: the judgement, and how far it drifted where replay compared it."""

    judged: Judged
    drift: Drift | None = None
    compared: int = 0
    """Rules of replay whose condition came up."""
    modules: int = 0
    drifted: int = 0
    off: float = 0.0
    """Largest relative distance of a module's result, within rounding or not."""


def check(case: Case, golden: Golden, recorder: Recorder, drift: Drift | None, env: Mapping[str, str]) -> Replayed:
    """Runs one candidate and checks it."""
    trace, seconds, problem = recorder.record(case.pipeline, case.name, case.patch, case.seed, env)
    if problem:
        return Replayed(Judged(case, problem=problem, seconds=seconds), drift)
    try:
        outcome: CheckOutcome = check_run(golden, load_run(trace), same_spec=True)
    except ValueError as error:
        return Replayed(Judged(case, problem=str(error), seconds=seconds), drift)
    judged = Judged(case, tuple(outcome.incidents), len(golden.invariants), "", seconds)
    compared = [
        item
        for item in outcome.verdicts
        if item.invariant.relation == "Replay" and item.verdict in (Verdict.HELD, Verdict.VIOLATED)
    ]
    moved = [item for item in outcome.modules if item.status in ("drifted", "deviates")]
    known = [item for item in outcome.modules if item.status != "not comparable"]
    off = max((item.off for item in moved), default=0.0)
    return Replayed(judged, drift, len(compared), len(known), len(moved), off)


def cases_of(pipeline: Pipeline, bugs: Sequence[Bug], drifts: Sequence[Drift]) -> list[tuple[Case, Drift | None]]:
    """Every candidate of one pipeline."""
    found: list[tuple[Case, Drift | None]] = [
        (Case(bug.name, pipeline, Variation.BUG, bug.patch, SEEDS[0], bug), None)
        for bug in bugs
        if bug.pipeline == pipeline.name
    ]
    found += [
        (Case(drift.name, pipeline, Variation.REFACTOR, drift.patch, SEEDS[0]), drift)
        for drift in drifts
        if drift.pipeline == pipeline.name
    ]
    return found


def environment_of(drift: Drift | None) -> dict[str, str]:
    return {**ONE_THREAD, **(drift.env if drift is not None else {})}


def page(replayed: Sequence[Replayed], facts: Mapping[str, str]) -> str:
    """The whole text."""
    bugs = [each for each in replayed if each.drift is None]
    clean = [each for each in replayed if each.drift is not None]
    causes = [each.judged.cause for each in bugs if each.judged.found]
    silent = sum(each.judged.as_expected for each in clean)
    blocks = [
        "## Bugs that only numbers reveal",
        f"{len(causes)} of {len(bugs)} found; the first incident names the place for {causes.count('exact')}. "
        f"{sum(_by_replay(each) for each in bugs)} are found by replay itself or with it, the others by rules of "
        "behaviour alone.",
        _bug_table(bugs),
        "## Variations that must be silent",
        f"{silent} of {len(clean)} without an incident. *Compared* counts the rules of replay whose condition came up: "
        "where data or random draws are others, none may. *Off* is the largest relative distance of a module's result.",
        _drift_table(clean),
        "Measured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".",
    ]
    return "\n\n".join(blocks) + "\n"


def _by_replay(replayed: Replayed) -> bool:
    return any(
        violation.invariant.relation == "Replay"
        for incident in replayed.judged.incidents
        for violation in incident.violations
    )


def _bug_table(replayed: Sequence[Replayed]) -> str:
    rows = []
    ordered = sorted(replayed, key=lambda each: each.judged.case.bug.family if each.judged.case.bug else "")
    for each in ordered:
        judged, bug = each.judged, each.judged.case.bug
        assert bug is not None
        top = judged.incidents[0].cause if judged.incidents else None
        rows.append(
            [
                bug.family,
                judged.case.pipeline.name,
                "**error**" if judged.problem else "yes" if judged.found else "**no**",
                "" if top is None else top.step,
                judged.cause if judged.found else "",
                len(judged.incidents),
                "" if top is None else top.invariant.relation,
                (judged.problem.splitlines()[-1] if judged.problem else "") if top is None else top.title,
            ]
        )
    return markdown_table(
        ["family", "pipeline", "found", "step", "place", "incidents", "relation", "top incident"], rows
    )


def _drift_table(replayed: Sequence[Replayed]) -> str:
    rows = []
    for each in sorted(replayed, key=lambda item: item.drift.kind if item.drift else ""):
        assert each.drift is not None
        judged = each.judged
        count = "**error**" if judged.problem else len(judged.incidents) or "0"
        rows.append(
            [
                each.drift.kind,
                judged.case.pipeline.name,
                each.drift.title,
                count if judged.as_expected or judged.problem else f"**{count}**",
                each.compared,
                f"{each.drifted} of {each.modules}",
                f"{each.off:.0e}" if each.drifted else "",
            ]
        )
    return markdown_table(["kind", "pipeline", "what changed", "incidents", "compared", "drifted", "off"], rows)


def arguments_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipeline", action="append", metavar="NAME", help="this pipeline alone; repeatable")
    parser.add_argument("--only", choices=("bugs", "drift"), help="one half alone")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--scratch", type=Path, help="keep the traces here and use those that are there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    return parser.parse_args(argv)


def main() -> int:
    arguments = arguments_of()
    bugs = load_number_bugs() if arguments.only != "drift" else []
    drifts = load_drifts() if arguments.only != "bugs" else []
    wanted = arguments.pipeline or {each.pipeline for each in (*bugs, *drifts)}
    pipelines = [each for each in load_pipelines() if each.name in wanted]
    if not pipelines:
        raise SystemExit("no pipeline of that name; see fixtures/pipelines.toml")
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="replay-"))
    recorder = Recorder(scratch.resolve(), arguments.timeout)
    replayed: list[Replayed] = []
    try:
        todo = [(pipeline, f"golden {seed}", None, seed, ONE_THREAD) for pipeline in pipelines for seed in SEEDS]
        for pipeline in pipelines:
            cases = cases_of(pipeline, bugs, drifts)
            todo += [(pipeline, case.name, case.patch, case.seed, environment_of(drift)) for case, drift in cases]
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for number, _ in enumerate(pool.map(lambda job: recorder.record(*job), todo), start=1):
                print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        for pipeline in pipelines:
            golden, _, _ = learned(pipeline, recorder, ONE_THREAD)
            for case, drift in cases_of(pipeline, bugs, drifts):
                replayed.append(check(case, golden, recorder, drift, environment_of(drift)))
    finally:
        if arguments.scratch is None:
            shutil.rmtree(scratch, ignore_errors=True)
    text = page(replayed, machine())
    if arguments.before:
        text = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" + text
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    wrong = [each for each in replayed if not each.judged.as_expected]
    for each in wrong:
        print(each.judged.complaint(), file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
