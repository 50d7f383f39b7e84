"""Kill rates of the reference pipelines: makes the tables of `docs/selftest.md`.

    python benchmarks/selftest.py --scratch /tmp/selftest --write docs/selftest.md

Every pipeline of `fixtures/pipelines.toml` (or those named) is copied below `--scratch`, and `traincheck selftest`
plants every kind of mistake into it. The golden is the committed one where there is one, else it is learned there. What
is finished is not run again, so that the work can be done in pieces. `--write` replaces what stands between the two
marks of the page by the tables; without it they are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import REPOSITORY, markdown_table, own_package, run, traincheck
from planted import Pipeline, load_pipelines, tree_of

FIRST = ("gan", "lstm", "finetune", "ddp", "vit", "hf_gpt2")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PIPELINE", help="(default: all)")
    parser.add_argument("--scratch", type=Path, required=True, metavar="DIR", help="where pipelines run; kept")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page to put the tables into")
    parser.add_argument("--only-write", action="store_true", help="run nothing, use what is finished")
    arguments = parser.parse_args()
    pipelines = load_pipelines()
    pipelines.sort(key=lambda pipeline: FIRST.index(pipeline.name) if pipeline.name in FIRST else len(FIRST))
    found: dict[str, Mapping[str, Any]] = {}
    for pipeline in pipelines:
        if arguments.names and pipeline.name not in arguments.names:
            continue
        result = arguments.scratch / pipeline.name / "selftest.json"
        if not result.exists() and not arguments.only_write:
            measure(pipeline, arguments.scratch.absolute() / pipeline.name, arguments.jobs)
        if result.exists():
            found[pipeline.name] = json.loads(result.read_text(encoding="utf-8"))
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
    store = folder / "golden_invariants"
    store.mkdir()
    for path in (REPOSITORY / "golden_invariants").glob(f"{pipeline.name}.*"):
        shutil.copy(path, store)
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
    env = {**own_package(), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = run(traincheck(*words), cwd=folder, env=env, timeout=TIMEOUT)
    (folder / "output.txt").write_text(done.output, encoding="utf-8")
    if done.returncode == 0:
        unfinished.rename(folder / "selftest.json")
    seconds = time.monotonic() - started
    print(f"{pipeline.name}: status {done.returncode}, {seconds:.0f} s", file=sys.stderr, flush=True)


def tables(found: Mapping[str, Mapping[str, Any]], total: int) -> str:
    """All that is measured, as Markdown."""
    if not found:
        return "Nothing has been measured yet."
    mutants = [(name, mutant) for name, result in found.items() for mutant in result["mutants"]]
    survived = [(name, mutant) for name, mutant in mutants if mutant["fate"] == "survived"]
    counted = sum(result["counts"]["counted"] for result in found.values())
    head = (
        f"{len(found)} of {total} reference pipelines measured: {counted - len(survived)} of {counted} mistakes killed "
        f"({(counted - len(survived)) / max(counted, 1):.1%})."
    )
    return "\n\n".join(
        [head, _by_pipeline(found), "### Survivors", _survivors(survived), "### By kind", _by_kind(mutants)]
    )


def _by_pipeline(found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, result in found.items():
        counts = result["counts"]
        rows.append(
            [
                f"`{name}`",
                f"{result['kill_rate']:.0%}",
                str(counts["killed"]),
                str(counts["did not finish"]),
                str(counts["survived"]),
                str(counts["equivalent"]),
                str(counts["not applicable"]),
            ]
        )
    return markdown_table(
        ["pipeline", "kill rate", "killed", "did not finish", "survived", "equivalent", "not applicable"], rows
    )


def _survivors(survived: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    if not survived:
        return "None."
    return markdown_table(
        ["pipeline", "kind", "the mistake"],
        [[f"`{name}`", f"`{mutant['kind']}`", mutant["mistake"]] for name, mutant in survived],
    )


def _by_kind(mutants: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    kinds: dict[str, list[str]] = {}
    for _, mutant in mutants:
        kinds.setdefault(mutant["kind"], []).append(mutant["fate"])
    columns = ["killed", "did not finish", "survived", "equivalent"]
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
