"""TrainCheck 0.2.0 and pytest-traincheck on the same script: seconds, rules, alarms on clean code, alarms on a bug.

    python benchmarks/peer.py --make DIR       # an environment for the peer, made once with pip
    python benchmarks/peer.py --python DIR/bin/python

The peer is used as its README says: `traincheck-collect` with `--models-to-track`, `traincheck-infer` with its
defaults, the target collected both in full and selectively (`--invariants`), `traincheck-check` on each. The script's
arguments go through `--shscript`, the only way it has for them.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import (
    FIXTURES,
    REPOSITORY,
    Measured,
    machine,
    markdown_table,
    own_package,
    print_facts,
    run,
    traincheck,
)
from planted import find_bug, patched_copy

PEER = "traincheck==0.2.0"
REFERENCE_SEED, OTHER_SEED = 0, 1
_FAILED = re.compile(r"Total failed invariants: (\d+)/(\d+)")
_IDLE = re.compile(r"Total invariants that are not triggered: (\d+)/")
_COLOUR = re.compile(r"\x1b\[\d+m")


@dataclass(frozen=True)
class Peer:
    """The commands of an environment that TrainCheck 0.2.0 is installed in, run on one fixture script."""

    python: Path
    script: str
    model: str
    steps: int
    timeout: float

    def tool(self, name: str) -> Path:
        return self.python.parent / f"traincheck-{name}"

    def plain(self, tree: Path, seed: int) -> Measured:
        """The script alone."""
        words = [self.python, "-u", self.script, "--steps", str(self.steps), "--seed", str(seed)]
        return run(words, cwd=tree, timeout=self.timeout).checked()

    def collect(self, tree: Path, seed: int, trace: Path, invariants: Path | None = None) -> Measured:
        """One instrumented run; selective when `invariants` is given."""
        shell = tree / f"run_seed_{seed}.sh"
        shell.write_text(f"set -e\n{self.python} -u {self.script} --steps {self.steps} --seed {seed}\n")
        words: list[str | Path] = [self.tool("collect"), "--pyscript", self.script, "--shscript", shell.name]
        words += ["--models-to-track", self.model, "--output-dir", trace]
        if invariants is not None:
            words += ["--invariants", invariants]
        return run(words, cwd=tree, timeout=self.timeout).checked()

    def infer(self, traces: list[Path], invariants: Path) -> Measured:
        words = [self.tool("infer"), "-f", *traces, "-o", invariants]
        return run(words, cwd=invariants.parent, timeout=self.timeout).checked()

    def check(self, trace: Path, invariants: Path, results: Path) -> Measured:
        words = [self.tool("check"), "-f", trace, "-i", invariants, "-o", results]
        return run(words, cwd=results.parent, timeout=self.timeout).checked()


def failed_rules(results: Path) -> list[Mapping[str, Any]]:
    """The invariants in the `failed.log` of a check; the file is a row of JSON objects over many lines."""
    rules = []
    for log in sorted(results.glob("*/failed.log")):
        text, at, decoder = log.read_text(), 0, json.JSONDecoder()
        while (at := _next_object(text, at)) < len(text):
            found, at = decoder.raw_decode(text, at)
            rules.append(found["invariant"])
    return rules


def _next_object(text: str, at: int) -> int:
    found = text.find("{", at)
    return len(text) if found < 0 else found


def rule_key(rule: Mapping[str, Any]) -> str:
    """What a rule claims, without its support counts."""
    return json.dumps({"relation": rule["relation"], "params": rule["params"], "when": rule["precondition"]})


def losses(output: str) -> list[str]:
    """The lines of the script's own output that print a loss: what the observer must not change."""
    return [line for line in _COLOUR.sub("", output).splitlines() if "loss" in line]


def peer_rows(peer: Peer, clean: Path, buggy: Path, scratch: Path, keywords: list[str]) -> Iterator[dict[str, Any]]:
    """Runs the whole workflow of the peer once and yields one row for each part of it."""
    plain = peer.plain(clean, REFERENCE_SEED)
    yield row("plain run", plain)
    reference = scratch / "reference"
    collected = peer.collect(clean, REFERENCE_SEED, reference)
    size = sum(path.stat().st_size for path in reference.iterdir() if path.name.startswith(("trace_", "proxy_log")))
    records = sum(path.read_bytes().count(b"\n") for path in reference.glob("trace_*"))
    records += sum(path.read_bytes().count(b"\n") for path in reference.glob("proxy_log.json"))
    same = losses(collected.output) == losses(plain.output)
    yield row("collect, full", collected, records=records, bytes_a_record=round(size / records), same_losses=same)

    invariants = scratch / "invariants.json"
    inferred = peer.infer([reference], invariants)
    count = len(invariants.read_text().splitlines())
    yield row("infer, one run", inferred, invariants=count)

    second = scratch / "second_reference"
    peer.collect(clean, OTHER_SEED + 1, second)
    hardened = scratch / "invariants_of_two.json"
    inferred = peer.infer([reference, second], hardened)
    yield row("infer, two runs", inferred, invariants=len(hardened.read_text().splitlines()))

    targets = {
        "clean, other seed": (clean, OTHER_SEED, None),
        "clean, other seed, selective": (clean, OTHER_SEED, invariants),
        "bug": (buggy, REFERENCE_SEED, None),
        "bug, selective": (buggy, REFERENCE_SEED, invariants),
    }
    traces: dict[str, Path] = {}
    for number, (name, (tree, seed, selective)) in enumerate(targets.items()):
        traces[name] = scratch / f"target_{number}"
        yield row(f"collect {name}", peer.collect(tree, seed, traces[name], selective))

    checks = [(name, name, invariants) for name in targets]
    checks += [(f"{name}, rules of two runs", name, hardened) for name in ("clean, other seed", "bug")]
    alarms: dict[str, set[str]] = {}
    for name, target, rules in checks:
        results = scratch / f"results_{len(alarms)}"
        checked = peer.check(traces[target], rules, results)
        violated = failed_rules(results)
        alarms[name] = {rule_key(rule) for rule in violated}
        failed, idle = _FAILED.search(checked.output), _IDLE.search(checked.output)
        if failed is None or idle is None or int(failed[1]) != len(violated):
            raise SystemExit(f"{name}: the peer's summary and its failed.log disagree; see {results}")
        facts = {"invariants": int(failed[2]), "violated": len(violated), "not_triggered": int(idle[1])}
        if name.startswith("bug"):
            on_clean = alarms[name.replace("bug", "clean, other seed")]
            facts["also_on_clean"] = len(alarms[name] & on_clean)
            facts["name_the_cause"] = sum(
                _names(rule["text_description"] + json.dumps(rule["params"]), keywords) for rule in violated
            )
        yield row(f"check {name}", checked, **facts)


def _names(text: str, keywords: list[str]) -> bool:
    return any(word in text.lower() for word in keywords)


def row(part: str, measured: Measured, **facts: Any) -> dict[str, Any]:
    return {"part": part, "wall": measured.wall, "cpu": measured.cpu, **facts}


def our_rows(peer: Peer, clean: Path, buggy: Path, scratch: Path, keywords: list[str]) -> Iterator[dict[str, Any]]:
    """The same workflow with this repository's commands, run by the same interpreter on the training side."""
    run_line = f"{peer.script} --steps {peer.steps}"
    yield row("plain run", peer.plain(clean, REFERENCE_SEED))
    traces = []
    for seed in (REFERENCE_SEED, OTHER_SEED + 1):
        traces.append(scratch / f"our_trace_{seed}")
        words = traincheck("collect", "--run", f"python {run_line}", "--seed", str(seed), "--seed-arg", "--seed {seed}")
        words += ("--python", peer.python, "--output", traces[-1])
        collected = run(words, cwd=clean, env=own_package(), timeout=peer.timeout).checked()
    yield row("collect, full", collected)
    for name, of in (("infer, one run", traces[:1]), ("infer, two runs", traces)):
        golden = scratch / f"{len(of)}.jsonl"
        words = traincheck("infer", *of, "--output", golden)
        inferred = run(words, cwd=clean, env=own_package(), timeout=peer.timeout).checked()
        yield row(name, inferred, invariants=len(golden.read_text().splitlines()) - 1)
    targets = (("clean, other seed", clean, OTHER_SEED), ("bug", buggy, REFERENCE_SEED))
    for name, tree, seed in targets:
        yield from our_check(peer, name, clean, tree, seed, scratch, keywords)


def our_check(
    peer: Peer, name: str, clean: Path, tree: Path, seed: int, scratch: Path, keywords: list[str]
) -> Iterator[dict[str, Any]]:
    """One `traincheck compare` with two golden runs."""
    report = scratch / f"our {name}.json"
    words = traincheck("compare", "--golden", clean, "--candidate", tree, "--run")
    words += (f"python {peer.script} --steps {peer.steps}", "--seed-arg", "--seed {seed}")
    words += ("--seeds", f"{REFERENCE_SEED},{OTHER_SEED + 1}", "--candidate-seed", str(seed))
    words += ("--golden-python", peer.python, "--candidate-python", peer.python, "--json", report)
    compared = run(words, cwd=scratch, env=own_package(), timeout=peer.timeout).checked((0, 1))
    result = json.loads(report.read_text())
    timing, counts, incidents = result["timing"], result["invariants"], result["incidents"]
    yield {"part": f"collect {name}", "wall": timing["candidate_run_s"]}
    yield {
        "part": f"check {name}",
        "wall": timing["check_s"],
        "violated": counts["violated"],
        "invariants": counts["golden"],
        "not_triggered": counts["not_evaluated"],
        "incidents": len(incidents),
        "name_the_cause": sum(_names(each["title"] + each["subject"], keywords) for each in incidents),
        "top": incidents[0]["title"] if incidents else "",
    }
    yield row(f"compare {name}: two golden runs, infer, candidate run, check", compared)


def median_rows(repeats: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One list of rows, with the median of the times and the facts of the last repetition."""
    merged = []
    for versions in zip(*repeats, strict=True):
        times = {
            name: statistics.median(version[name] for version in versions)
            for name in ("wall", "cpu")
            if name in versions[0]
        }
        merged.append({**versions[-1], **times})
    return merged


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown of one system's rows."""

    def seconds(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    facts = ("invariants", "violated", "not_triggered", "also_on_clean", "name_the_cause", "incidents")
    shown = [name for name in facts if any(name in each for each in rows)]
    header = ["part", "wall s", "CPU s", *(name.replace("_", " ") for name in shown)]
    return markdown_table(
        header,
        (
            [each["part"], seconds(each.get("wall")), seconds(each.get("cpu")), *(each.get(name, "") for name in shown)]
            for each in rows
        ),
    )


def make_environment(folder: Path, pip_arguments: list[str]) -> Path:
    """Creates an environment with the peer in it and returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    constraints = REPOSITORY / "constraints.txt"
    pin = ["-c", str(constraints)] if constraints.exists() else []
    subprocess.run([str(python), "-m", "pip", "install", "-q", *pip_arguments, *pin, "torch==2.13.0", PEER], check=True)
    return python


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--python", type=Path, help="interpreter of an environment that has TrainCheck 0.2.0")
    where.add_argument("--make", type=Path, metavar="DIR", help="make that environment first")
    parser.add_argument("--pip-argument", action="append", default=[], help="with --make: passed on to pip")
    parser.add_argument(
        "--bug", default="01-missing-zero-grad", help="a planted bug of mnist_cnn (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=1, help="times are medians over them")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds for one command")
    parser.add_argument("--only", choices=("peer", "ours"), help="leave the other system out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    if arguments.make:
        python = make_environment(arguments.make.absolute(), arguments.pip_argument)
    else:
        python = arguments.python.absolute()
    bug = find_bug(arguments.bug)
    peer = Peer(python, "pipeline.py", "model", arguments.steps, arguments.timeout)
    facts = machine(python)
    systems = {"TrainCheck 0.2.0": peer_rows, "pytest-traincheck": our_rows}
    if arguments.only:
        systems.pop("pytest-traincheck" if arguments.only == "peer" else "TrainCheck 0.2.0")
    results: dict[str, list[dict[str, Any]]] = {}
    for system, rows_of in systems.items():
        repeats = []
        for number in range(arguments.repeats):
            print(f"{system}: round {number + 1} of {arguments.repeats}", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="peer-") as folder:
                scratch = Path(folder).resolve()
                clean = scratch / "clean"
                shutil.copytree(FIXTURES / "mnist_cnn", clean, ignore=shutil.ignore_patterns("__pycache__"))
                buggy = patched_copy(bug, scratch / "buggy")
                repeats.append(list(rows_of(peer, clean, buggy, scratch, list(bug.cause))))
        results[system] = median_rows(repeats)
        print(f"\n### {system}, {arguments.steps} steps, bug `{bug.name}`\n\n{table(results[system])}")
    print_facts(facts)
    text = json.dumps({"steps": arguments.steps, "bug": bug.name, "machine": facts, **results}, indent=2)
    if arguments.json:
        arguments.json.write_text(text + "\n")
    else:
        print(f"\n```json\n{text}\n```")


if __name__ == "__main__":
    main()
