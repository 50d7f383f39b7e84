"""Commits of real repositories, learned and checked: makes `docs/histories.md`.

    python benchmarks/histories.py --repositories DIR --write docs/histories.md

`DIR` holds clones that the user made with `git clone`; nothing of them is kept here. A pair of `histories.toml` names
two commits, a golden and a candidate, and a short pipeline of ours that trains with the code of either. The golden is
learned from three seeds; the candidate and the golden commit under another seed are checked against it. The exit status
is 1 when a run went wrong, and 0 whatever is found: the page is what comes out.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from detection import SEEDS
from histories_page import Kind, Outcome, Pair, page
from measure import REPOSITORY, machine, own_package, run, traincheck
from trees import checkout, put

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.trace import load_run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("histories.toml")
DRIVERS = Path(__file__).with_name("histories")
OTHER_SEED = 3


@dataclass(frozen=True)
class Pipeline:
    """How one repository's code is made to train for a few steps.

    `files` of the folder of drivers are put into the directory `folder` of the commit's tree, where `run` is started;
    `paths` are what of the tree it needs (empty: all), `needs` the packages that have to be installed.
    """

    name: str
    run: str
    files: tuple[str, ...]
    folder: str = "."
    paths: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The packages it needs that this interpreter does not have."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def load_pipelines() -> dict[str, Pipeline]:
    """The pipelines of the table by name."""
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))["pipelines"]
    return {
        name: Pipeline(
            name,
            table["run"],
            tuple(table["files"]),
            table.get("folder", "."),
            tuple(table.get("paths", ())),
            tuple(table.get("needs", ())),
        )
        for name, table in tables.items()
    }


def load_pairs() -> list[Pair]:
    """The pairs in the order of the table."""
    return [
        Pair(
            name=table["id"],
            repository=table["repository"],
            pipeline=table["pipeline"],
            kind=Kind(table["kind"]),
            golden=table["golden"],
            candidate=table["candidate"],
            about=table["about"],
            expected=table["expected"],
            because=table.get("because", ""),
            cause=tuple(table.get("cause", ())),
            near=tuple(table.get("near", ())),
            explained=table.get("explained", ""),
        )
        for table in tomllib.loads(TABLE.read_text(encoding="utf-8"))["pair"]
    ]


@dataclass(frozen=True)
class Recorder:
    """Runs pipelines under the probe in trees of commits below `scratch`. Finished traces are used again."""

    repositories: Path
    scratch: Path
    timeout: float

    def clone(self, pair: Pair) -> Path:
        """The clone of a pair's repository.

        Raises:
            SystemExit: if there is none below the directory that the user named.
        """
        name = pair.repository.rpartition("/")[2]
        for found in (self.repositories / name, self.repositories / f"{name}.git"):
            if found.is_dir():
                return found
        raise SystemExit(
            f"there is no clone of {pair.repository} in {self.repositories}. Run `git clone "
            f"https://github.com/{pair.repository}` there, or leave its pairs out with --only."
        )

    def record(self, pair: Pair, pipeline: Pipeline, commit: str, name: str, seed: int) -> tuple[Path, str]:
        """The directory of the trace of one run, and what went wrong (empty: nothing)."""
        folder = self.scratch / pipeline.name / commit[:12] / name
        trace, finished = folder / "trace", folder / "finished"
        if finished.exists():
            return trace, ""
        shutil.rmtree(folder, ignore_errors=True)
        tree = folder / "tree"
        tree.mkdir(parents=True)
        try:
            checkout(self.clone(pair), commit, pipeline.paths, tree)
            start = tree / pipeline.folder
            for file in pipeline.files:
                put(DRIVERS / file, start)
            words: list[str | Path] = ["collect", "--run", pipeline.run, "--cwd", start, "--output", trace]
            words += ["--seed", str(seed), "--seed-arg", "--seed {seed}", "--timeout", str(int(self.timeout))]
            done = run(traincheck(*words), cwd=folder, env=own_package(), timeout=self.timeout + 60)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
        if done.returncode:
            return trace, done.output[-2000:]
        finished.write_text(f"{done.wall}")
        return trace, ""


def runs_of(pair: Pair) -> list[tuple[str, str, int]]:
    """Commit, name and seed of every run that a pair needs. The name is that of the trace, so that pairs share runs."""
    return [
        *((pair.golden, f"seed {seed}", seed) for seed in (*SEEDS, OTHER_SEED)),
        # As `traincheck refresh` does: what is drawn unseen shows in what comes again.
        (pair.golden, "repeated", SEEDS[0]),
        (pair.candidate, f"seed {SEEDS[0]}", SEEDS[0]),
    ]


def record_all(pairs: Sequence[Pair], pipelines: dict[str, Pipeline], recorder: Recorder, jobs: int) -> None:
    """All runs, a few at a time; what goes wrong is told when the pair is judged."""
    todo = {(pair.pipeline, *each): pair for pair in pairs for each in runs_of(pair)}

    def record(job: tuple[str, str, str, int]) -> None:
        name, commit, run_name, seed = job
        recorder.record(todo[job], pipelines[name], commit, run_name, seed)

    with ThreadPoolExecutor(jobs) as pool:
        for number, _ in enumerate(pool.map(record, todo), start=1):
            print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def judge(pair: Pair, pipeline: Pipeline, recorder: Recorder) -> Outcome:
    """What the golden of a pair says about its candidate and about its own commit under another seed."""
    traces: list[Path] = []
    for commit, name, seed in runs_of(pair):
        trace, problem = recorder.record(pair, pipeline, commit, name, seed)
        if problem:
            return Outcome(pair, problem=f"{name} of {commit[:12]}: {problem}")
        traces.append(trace)
    try:
        *golden_runs, other, repeated, candidate = [load_run(trace) for trace in traces]
        golden = learn(golden_runs, pipeline=pair.name, seeds=SEEDS, repeated=[repeated])
        checked = check_run(golden, candidate, same_spec=True)
        silent = check_run(golden, other, same_spec=True)
    except Exception:  # noqa: BLE001  a checker that fails on real code is a result of this page
        return Outcome(pair, problem=traceback.format_exc(limit=-3))
    return Outcome(pair, tuple(checked.incidents), tuple(silent.incidents), len(golden.invariants))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, metavar="DIR", help="directory of the clones")
    parser.add_argument("--only", action="append", metavar="ID", help="pairs whose id begins so alone; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one run (default: %(default)s)")
    parser.add_argument("--scratch", type=Path, help="keep the traces here and use those that are there")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    parser.add_argument("--again", action="store_true", help="leave out the explanations, which are of the first run")
    arguments = parser.parse_args()
    facts, pipelines = machine(), load_pipelines()
    pairs = [
        pair
        for pair in load_pairs()
        if not arguments.only or any(pair.name.startswith(name) for name in arguments.only)
    ]
    if not pairs:
        raise SystemExit("no pair has an id that begins so; see benchmarks/histories.toml")
    lacking = {package for pair in pairs for package in pipelines[pair.pipeline].missing}
    if lacking:
        raise SystemExit(f"these pipelines need packages that are not installed: {', '.join(sorted(lacking))}")
    scratch = arguments.scratch or Path(tempfile.mkdtemp(prefix="histories-"))
    recorder = Recorder(arguments.repositories.resolve(), scratch.resolve(), arguments.timeout)
    try:
        record_all(pairs, pipelines, recorder, arguments.jobs)
        outcomes = [judge(pair, pipelines[pair.pipeline], recorder) for pair in pairs]
    finally:
        if arguments.scratch is None:
            shutil.rmtree(scratch, ignore_errors=True)
    before = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" if arguments.before else ""
    text = before + page(outcomes, facts, first=not arguments.again)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    for outcome in outcomes:
        if outcome.problem:
            print(f"{outcome.pair.name}: {outcome.problem}", file=sys.stderr)
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
