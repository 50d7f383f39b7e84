"""Every planted bug and every clean variation of the fixtures, learned and checked: makes `docs/detection.md`.

    python benchmarks/detection.py --write docs/detection.md

The golden of each pipeline is learned once, from three seeds, and every candidate is one more run that is checked
against it: each bug of `fixtures/bugs`, three other seeds, a refactor, and a legitimate feature where there is one.
`--transferable` adds the paper's experiment: transferable rules learned from five pipelines, checked on the others.
The exit status is 1 when a bug is missed, a clean variation has an incident, a run went wrong, or the exact cause is
on top for fewer than three bugs in four.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from detection_page import page
from judged import Case, Judged, Variation
from measure import FIXTURES, REPOSITORY, machine, own_package, run, traincheck
from planted import Bug, Pipeline, apply_patch, load_bugs, load_pipelines, tree_of
from transfer import transfer

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.trace import Run, load_run

SEEDS = (0, 1, 2)
OTHER_SEEDS = (3, 4, 5)
CAUSE_SHARE = 0.75


@dataclass(frozen=True)
class Recorder:
    """Runs pipelines under the probe, each in a tree of its own below `scratch`. Finished traces are used again."""

    scratch: Path
    timeout: float

    def record(
        self, pipeline: Pipeline, name: str, patch: Path | None, seed: int, env: Mapping[str, str] | None = None
    ) -> tuple[Path, float, str]:
        """The directory of the trace, the seconds the run took, and what went wrong (empty: nothing)."""
        folder = self.scratch / pipeline.name / name
        trace, seconds = folder / "trace", folder / "seconds"
        if seconds.exists():
            return trace, float(seconds.read_text()), ""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        tree = tree_of(pipeline, folder / pipeline.name)
        if patch is not None:
            apply_patch(patch, tree)
        words: list[str | Path] = ["collect", "--run", pipeline.run, "--cwd", tree, "--output", trace]
        words += ["--seed", str(seed), "--seed-arg", pipeline.seed_arg, "--timeout", str(int(self.timeout))]
        done = run(traincheck(*words), cwd=folder, env={**own_package(), **(env or {})}, timeout=self.timeout + 60)
        if done.returncode:
            return trace, done.wall, done.output[-1500:]
        seconds.write_text(f"{done.wall}")
        return trace, done.wall, ""


def variations(pipeline: Pipeline, bugs: Sequence[Bug]) -> list[Case]:
    """Everything that is checked against the golden of one pipeline."""
    found = [Case(bug.name, pipeline, Variation.BUG, bug.patch, SEEDS[0], bug) for bug in bugs]
    found += [Case(f"seed {seed}", pipeline, Variation.SEED, None, seed) for seed in OTHER_SEEDS]
    for kind, folder in ((Variation.REFACTOR, "refactors"), (Variation.FEATURE, "features")):
        patch = FIXTURES / folder / f"{pipeline.name}.patch"
        if patch.exists():
            found.append(Case(kind.value, pipeline, kind, patch, SEEDS[0]))
    return found


def judge(case: Case, golden: Golden, recorder: Recorder) -> Judged:
    """Runs one candidate and checks it."""
    trace, seconds, problem = recorder.record(case.pipeline, case.name, case.patch, case.seed)
    if problem:
        return Judged(case, problem=problem, seconds=seconds)
    begin = time.perf_counter()
    try:
        outcome = check_run(golden, load_run(trace), same_spec=True)
    except ValueError as error:
        return Judged(case, problem=str(error), seconds=seconds)
    checked = time.perf_counter() - begin
    return Judged(case, tuple(outcome.incidents), len(golden.invariants), "", seconds + checked, checked)


def learned(
    pipeline: Pipeline, recorder: Recorder, env: Mapping[str, str] | None = None
) -> tuple[Golden, list[Run], float]:
    """The golden of a pipeline, its runs, and the seconds of inference."""

    def golden_run(name: str, seed: int) -> Run:
        trace, _, problem = recorder.record(pipeline, name, None, seed, env)
        if problem:
            raise SystemExit(f"the {name} run of {pipeline.name} with seed {seed} went wrong: {problem}")
        return load_run(trace)

    runs = [golden_run(f"golden {seed}", seed) for seed in SEEDS]
    # As `learn_side` does: what is drawn unseen shows in what comes again.
    repeated = [golden_run("golden repeated", SEEDS[0])]
    begin = time.perf_counter()
    golden = learn(runs, pipeline=pipeline.name, seeds=SEEDS, repeated=repeated)
    return golden, runs, time.perf_counter() - begin


def record_all(pipelines: Sequence[Pipeline], bugs: Sequence[Bug], recorder: Recorder, jobs: int) -> None:
    """All runs, a few at a time; what goes wrong is told when the run is judged."""
    todo = [(pipeline, f"golden {seed}", None, seed) for pipeline in pipelines for seed in SEEDS]
    for pipeline in pipelines:
        mine = [bug for bug in bugs if bug.pipeline == pipeline.name]
        todo += [(pipeline, case.name, case.patch, case.seed) for case in variations(pipeline, mine)]
    with ThreadPoolExecutor(jobs) as pool:
        for number, _ in enumerate(pool.map(lambda job: recorder.record(*job), todo), start=1):
            print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def arguments_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipeline", action="append", metavar="NAME", help="this pipeline alone; repeatable")
    parser.add_argument("--bug", action="append", metavar="ID", help="bugs that begin so alone, like 04; repeatable")
    parser.add_argument("--part", choices=("development", "hold-out"), help="one part of the corpus")
    parser.add_argument("--transferable", action="store_true", help="also check transferable rules across pipelines")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--scratch", type=Path, help="keep the traces here and use those that are there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    return parser.parse_args(argv)


def main() -> int:
    arguments = arguments_of()
    facts = machine()
    pipelines = [
        each
        for each in load_pipelines()
        if (not arguments.pipeline or each.name in arguments.pipeline)
        and (arguments.part is None or each.part == arguments.part)
    ]
    if not pipelines:
        raise SystemExit("no pipeline of that name; see fixtures/pipelines.toml")
    bugs = [
        bug
        for bug in load_bugs()
        if bug.pipeline in {each.name for each in pipelines}
        and (not arguments.bug or any(bug.name.startswith(name) for name in arguments.bug))
    ]
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="detection-"))
    recorder = Recorder(scratch.resolve(), arguments.timeout)
    try:
        record_all(pipelines, bugs, recorder, arguments.jobs)
        judged: list[Judged] = []
        goldens: dict[str, tuple[Golden, list[Run]]] = {}
        infer_seconds = 0.0
        for pipeline in pipelines:
            golden, runs, seconds = learned(pipeline, recorder)
            goldens[pipeline.name] = (golden, runs)
            infer_seconds += seconds
            mine = [bug for bug in bugs if bug.pipeline == pipeline.name]
            judged += [judge(case, golden, recorder) for case in variations(pipeline, mine)]
        transferred = transfer({name: runs for name, (_, runs) in goldens.items()}) if arguments.transferable else None
    finally:
        if arguments.scratch is None:
            shutil.rmtree(scratch, ignore_errors=True)
    text = page(judged, facts, infer_seconds, transferred)
    if arguments.before:
        text = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" + text
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    wrong = [each for each in judged if not each.as_expected]
    for each in wrong:
        print(each.complaint(), file=sys.stderr)
    with_bug = [each for each in judged if each.case.bug is not None]
    exact = sum(each.cause == "exact" for each in with_bug)
    return int(bool(wrong) or exact < CAUSE_SHARE * len(with_bug))


if __name__ == "__main__":
    sys.exit(main())
