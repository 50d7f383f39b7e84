"""Kill rates of the reference pipelines: makes the tables of `docs/selftest.md`.

    python benchmarks/selftest.py --scratch /tmp/selftest --write docs/selftest.md

Every pipeline of `fixtures/pipelines.toml` (or those named) is copied below `--scratch`, and `traincheck selftest`
learns its golden there and plants every kind of mistake into it. All traces are kept. What is finished is not run
again, so that the work can be done in pieces; but it is judged again, so that the tables say what the rules of today
find.
`--write` replaces what stands between the two marks of the page by the tables; without it they are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import REPOSITORY, markdown_table, own_package, run, traincheck
from planted import Pipeline, load_pipelines, tree_of

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.selftest.identical import trained_alike
from pytest_traincheck.trace import load_run
from pytest_traincheck.workflow.candidate import vacuous

FIRST = ("gan", "lstm", "finetune", "ddp", "vit", "hf_gpt2")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
KILLED, CRASHED, SURVIVED, EQUIVALENT = "killed", "did not finish", "survived", "equivalent"
CONFIG = """\
store = "golden_invariants"
python = {python}

[pipelines.{name}]
run = {run}
cwd = "fixtures/{name}"
seed_arg = {seed_arg}
seeds = [0, 1, 2]
timeout = 300
"""
TIMEOUT = 7200.0


KEPT = "kept"
"""Where the traces of a pipeline are, below its folder."""


@dataclass(frozen=True)
class Mutant:
    """A kind of mistake in one pipeline, and what became of it."""

    kind: str
    mistake: str
    fate: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PIPELINE", help="(default: all)")
    parser.add_argument("--scratch", type=Path, required=True, metavar="DIR", help="where runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page to put the tables into")
    parser.add_argument("--only-write", action="store_true", help="run nothing, use what is finished")
    arguments = parser.parse_args()
    pipelines = load_pipelines()
    pipelines.sort(key=lambda pipeline: FIRST.index(pipeline.name) if pipeline.name in FIRST else len(FIRST))
    found: dict[str, Sequence[Mutant]] = {}
    for pipeline in pipelines:
        if arguments.names and pipeline.name not in arguments.names:
            continue
        result = arguments.scratch / pipeline.name / "selftest.json"
        if not result.exists() and not arguments.only_write:
            measure(pipeline, arguments.scratch.absolute() / pipeline.name, arguments.jobs)
        if result.exists():
            found[pipeline.name] = judged(pipeline.name, result.parent)
    text = tables(found, len(pipelines))
    if arguments.write is None:
        print(text)
    else:
        replace_between_marks(arguments.write, text)
    return 0


def measure(pipeline: Pipeline, folder: Path, jobs: int) -> None:
    """One selftest, whose JSON is there when it is finished."""
    shutil.rmtree(folder, ignore_errors=True)
    tree = folder / "fixtures" / pipeline.name
    tree.parent.mkdir(parents=True)
    tree_of(pipeline, tree)
    config = CONFIG.format(
        name=pipeline.name,
        python=json.dumps(sys.executable),
        run=json.dumps(pipeline.run),
        seed_arg=json.dumps(pipeline.seed_arg),
    )
    (folder / "traincheck.toml").write_text(config, encoding="utf-8")
    started = time.monotonic()
    unfinished = folder / "unfinished.json"
    words = ["selftest", pipeline.name, "--jobs", str(jobs), "--json", str(unfinished)]
    words += ["--artifacts", str(folder / KEPT)]
    env = {**own_package(), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = run(traincheck(*words), cwd=folder, env=env, timeout=TIMEOUT)
    (folder / "output.txt").write_text(done.output, encoding="utf-8")
    if done.returncode == 0:
        unfinished.rename(folder / "selftest.json")
    seconds = time.monotonic() - started
    print(f"{pipeline.name}: status {done.returncode}, {seconds:.0f} s", file=sys.stderr, flush=True)


def judged(name: str, folder: Path) -> Sequence[Mutant]:
    """What became of each mutant, by the rules of today. Raises `SystemExit` when the pipeline itself does not pass."""
    kept = folder / KEPT / name
    goldens = [load_run(path) for path in sorted(kept.glob("golden-seed*"))]
    repeated = [load_run(path) for path in kept.glob("golden-repeated")]
    golden = learn(goldens, pipeline=name, seeds=tuple(range(len(goldens))), repeated=repeated)
    unchanged = load_run(kept / "unchanged")
    if incidents := check_run(golden, unchanged, same_spec=True).incidents:
        raise SystemExit(f"{name} without a mistake: {incidents[0].cause.title}")
    found = []
    for mutant in json.loads((folder / "selftest.json").read_text(encoding="utf-8"))["mutants"]:
        kind, fate = mutant["kind"], mutant["fate"]
        if fate in (KILLED, SURVIVED, EQUIVALENT):
            run = load_run(kept / f"mutant-{kind}")
            outcome = check_run(golden, run, same_spec=True)
            alike = EQUIVALENT if trained_alike(unchanged, run) else SURVIVED
            fate = KILLED if outcome.incidents or vacuous(outcome.verdicts) else alike
        found.append(Mutant(kind, mutant["mistake"], fate))
    return found


def tables(found: Mapping[str, Sequence[Mutant]], total: int) -> str:
    """All that is measured, as Markdown."""
    if not found:
        return "Nothing has been measured yet."
    mutants = [(name, mutant) for name, mine in found.items() for mutant in mine]
    survived = [(name, mutant) for name, mutant in mutants if mutant.fate == SURVIVED]
    counted = sum(mutant.fate in (KILLED, CRASHED, SURVIVED) for _, mutant in mutants)
    head = (
        f"{len(found)} of {total} reference pipelines measured: {counted - len(survived)} of {counted} mistakes killed "
        f"({(counted - len(survived)) / max(counted, 1):.1%})."
    )
    return "\n\n".join(
        [head, _by_pipeline(found), "### Survivors", _survivors(survived), "### By kind", _by_kind(mutants)]
    )


def _by_pipeline(found: Mapping[str, Sequence[Mutant]]) -> str:
    columns = [KILLED, CRASHED, SURVIVED, EQUIVALENT, "not applicable"]
    rows = []
    for name, mutants in found.items():
        counts = Counter(mutant.fate for mutant in mutants)
        killed = counts[KILLED] + counts[CRASHED]
        rate = 100 * killed // max(killed + counts[SURVIVED], 1)
        rows.append([f"`{name}`", f"{rate}%", *(str(counts[fate]) for fate in columns)])
    return markdown_table(["pipeline", "kill rate", *columns], rows)


def _survivors(survived: Sequence[tuple[str, Mutant]]) -> str:
    if not survived:
        return "None."
    return markdown_table(
        ["pipeline", "kind", "the mistake"],
        [[f"`{name}`", f"`{mutant.kind}`", mutant.mistake] for name, mutant in survived],
    )


def _by_kind(mutants: Sequence[tuple[str, Mutant]]) -> str:
    kinds: dict[str, list[str]] = {}
    for _, mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant.fate)
    columns = [KILLED, CRASHED, SURVIVED, EQUIVALENT]
    rows = [
        [f"`{kind}`", *(str(fates.count(fate) or "") for fate in columns)]
        for kind, fates in kinds.items()
        if any(fate in columns for fate in fates)
    ]
    return markdown_table(["kind", *columns], rows)


def replace_between_marks(page: Path, text: str) -> None:
    """Put the tables where the page marks their place."""
    content = page.read_text(encoding="utf-8")
    head, _, rest = content.partition(BEGIN)
    tail = rest.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
