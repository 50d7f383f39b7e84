"""The planted bugs of single-process pipelines through TrainCheck 0.2.0: found, noise and seconds.

    python benchmarks/peer.py --make DIR                    # an environment for the peer, made once with pip
    python benchmarks/peer_corpus.py --python DIR/bin/python

As in its paper, invariants are inferred from clean runs (two seeds) and checked offline on complete traces. What a
clean run with a third seed breaks is noise; a bug counts as found when it breaks a rule that no clean run breaks, and
its cause as named when such a rule holds one of the words by which `fixtures/bugs/bugs.toml` judges exact causes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import machine, markdown_table, print_facts
from peer import Peer, failed_rules, rule_key
from planted import Bug, Pipeline, load_bugs, load_pipelines, patched_copy, tree_of

MODELS = {
    "mnist_cnn": "model",
    "tiny_gpt": "model",
    "vae": "model",
    "seq2seq": "model",
    "lora": "model",
    "multimodal": "model",
}
"""The variable of each script that holds its model: the peer wants to be told. Pipelines whose script has none (a
trainer class, several ranks) are left out, since the peer does not find their models."""

GOLDEN_SEEDS, CLEAN_SEED = (0, 1), 2
STEPS = 8


def rows_of(peer: Peer, pipeline: Pipeline, bugs: list[Bug], scratch: Path) -> Iterator[dict[str, Any]]:
    """A row for each bug of one pipeline, after one for its clean run."""
    clean = tree_of(pipeline, scratch / "clean")
    traces, golden_seconds = [], 0.0
    for seed in GOLDEN_SEEDS:
        traces.append(scratch / f"golden_{seed}")
        golden_seconds += peer.collect(clean, seed, traces[-1]).wall
    invariants = scratch / "invariants.json"
    golden_seconds += peer.infer(traces, invariants).wall
    count = len(invariants.read_text().splitlines())
    noise, seconds = _violated(peer, clean, CLEAN_SEED, scratch / "other", invariants)
    base = {"pipeline": pipeline.name, "rules": count, "noise": len(noise)}
    yield {**base, "case": f"clean, seed {CLEAN_SEED}", "violated": len(noise), "seconds": seconds + golden_seconds}
    for bug in bugs:
        tree = patched_copy(bug, scratch / bug.name)
        violated, seconds = _violated(
            peer, tree, GOLDEN_SEEDS[0], scratch / f"trace {bug.name}".replace(" ", "_"), invariants
        )
        own = {key: rule for key, rule in violated.items() if key not in noise}
        texts = [(rule.get("text_description", "") + json.dumps(rule["params"])).lower() for rule in own.values()]
        named = sum(any(word in text for word in bug.cause) for text in texts)
        yield {**base, "case": bug.name, "violated": len(violated), "new": len(own), "named": named, "seconds": seconds}


def _violated(peer: Peer, tree: Path, seed: int, trace: Path, invariants: Path) -> tuple[dict[str, Any], float]:
    collected = peer.collect(tree, seed, trace)
    results = trace.parent / f"results_{trace.name}"
    checked = peer.check(trace, invariants, results)
    found = {rule_key(rule): dict(rule) for rule in failed_rules(results)}
    shutil.rmtree(trace, ignore_errors=True)
    return found, collected.wall + checked.wall


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter of an environment with the peer")
    parser.add_argument("--pipeline", action="append", metavar="NAME", help="this pipeline alone; repeatable")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one command")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table to FILE instead of printing it")
    arguments = parser.parse_args()
    facts = machine(arguments.python)
    rows: list[dict[str, Any]] = []
    for pipeline in load_pipelines():
        if pipeline.name not in (arguments.pipeline or MODELS) or pipeline.name not in MODELS:
            continue
        script = next(word for word in pipeline.run.split() if word.endswith(".py"))
        peer = Peer(arguments.python.absolute(), script, MODELS[pipeline.name], STEPS, arguments.timeout)
        scratch = Path(tempfile.mkdtemp(prefix="peer-"))
        bugs = [bug for bug in load_bugs() if bug.pipeline == pipeline.name]
        try:
            for each in rows_of(peer, pipeline, bugs, scratch):
                print(each, file=sys.stderr, flush=True)
                rows.append(each)
        except SystemExit as error:
            rows.append(
                {"pipeline": pipeline.name, "case": "does not run", "problem": str(error).splitlines()[-1][:160]}
            )
            print(rows[-1], file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    text = table(rows)
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
        print_facts(facts)
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, with a line that sums it up."""
    bugs = [row for row in rows if "new" in row]
    found = sum(row["new"] > 0 for row in bugs)
    named = sum(row["named"] > 0 for row in bugs)
    header = ["pipeline", "case", "rules", "violated", "not broken by clean code", "name the cause", "s"]
    lines = [
        [
            row["pipeline"],
            row["case"] if "problem" not in row else f"{row['case']}: {row['problem']}",
            row.get("rules", ""),
            row.get("violated", ""),
            row.get("new", ""),
            row.get("named", ""),
            f"{row['seconds']:.0f}" if "seconds" in row else "",
        ]
        for row in rows
    ]
    summary = (
        f"TrainCheck 0.2.0: {found} of {len(bugs)} bugs break a rule that clean code does not; {named} name the cause."
    )
    return f"{summary}\n\n{markdown_table(header, lines)}\n"


if __name__ == "__main__":
    sys.exit(main())
