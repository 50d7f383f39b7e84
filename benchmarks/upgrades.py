"""Pipelines with one release of a library and the next: makes the tables of `docs/upgrades.md`.

    python benchmarks/upgrades.py --scratch DIR --before benchmarks/upgrades_intro.md --write docs/upgrades.md

Every pipeline runs with every release and three seeds. A golden is learned from the three runs with the older release,
and the first run with the newer one is checked against it. `upgrades.toml` says what every incident is; the exit status
is 1 when there is one that it does not explain, or a run went wrong.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from measure import FIXTURES, REPOSITORY, machine, markdown_table
from planted import Pipeline, load_pipelines
from upgrade_runs import Runner, Version

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.result import Incident, Verdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SEEDS = (0, 1, 2)
KNOWN = Path(__file__).with_name("upgrades.toml")

TRANSFORMERS = tuple(
    Version(number, (f"transformers=={number}",)) for number in ("4.45.2", "4.46.3", "4.51.3", "4.57.6", "5.23.0")
)
TORCH = (TRANSFORMERS[-1], Version("torch-2.15.0", ("torch==2.15.0",)))

SCRIPTS = {
    "gpt2": "python gpt2.py",
    "bert": "python bert.py",
    "t5": "python t5.py",
    "llama": "python llama.py",
    "trainer": "python trainer.py",
    "trainer-gpt2": "python trainer.py --model gpt2",
    "trainer-44": "python trainer.py --documents 44",
}
WITH_TORCH = ("mnist_cnn", "tiny_gpt", "gan", "lstm", "ddp", "vit", "seq2seq")
"""Reference pipelines that are run with both releases of torch, besides the scripts."""


@dataclass(frozen=True)
class Known:
    """An entry of `upgrades.toml`: an incident that is explained, or one that should be there and is not."""

    letter: str
    words: tuple[str, ...]
    kind: str
    text: str
    missed: Mapping[str, Sequence[str]]

    def is_about(self, incident: Incident) -> bool:
        title = incident.cause.title.lower()
        return bool(self.words) and all(word.lower() in title for word in self.words)


@dataclass(frozen=True)
class Upgraded:
    """One pipeline with two releases."""

    pipeline: str
    old: str
    new: str
    outcome: CheckOutcome | None
    problem: str = ""

    def share(self, *verdicts: Verdict) -> float:
        items = self.outcome.verdicts if self.outcome else ()
        return sum(item.verdict in verdicts for item in items) / max(1, len(items))

    def letters(self, known: Sequence[Known]) -> str:
        """What the incidents are by their letters, and what is missed; 0 for nothing at all."""
        if self.outcome is None:
            return "**error**"
        found = [
            next((item.letter for item in known if item.is_about(incident)), "?") for incident in self.outcome.incidents
        ]
        missed = [item.letter for item in known if self.pipeline in item.missed.get(f"{self.old} {self.new}", ())]
        true = {item.letter for item in known if item.kind == "true"}
        shown = ", ".join(f"**{letter}**" if letter in true else letter for letter in found) or (
            "0" if not missed else ""
        )
        return "; ".join(part for part in (shown, f"missed: {', '.join(missed)}" if missed else "") if part)


def scripts() -> list[Pipeline]:
    return [Pipeline(name, FIXTURES / "upgrades", f"{run} --steps 8", "--seed {seed}") for name, run in SCRIPTS.items()]


def with_torch() -> list[Pipeline]:
    chosen = [each for each in load_pipelines() if each.name in WITH_TORCH]
    return [each for each in scripts() if each.name not in ("trainer-gpt2", "trainer-44")] + chosen


def upgrade(runner: Runner, pipeline: Pipeline, old: Version, new: Version) -> Upgraded:
    """Learn with the old release, check the new."""
    try:
        golden = _learned(runner, pipeline, old)
        outcome = check_run(golden, runner.load(pipeline, new, SEEDS[0]), same_spec=True)
    except ValueError as error:
        return Upgraded(pipeline.name, old.name, new.name, None, str(error))
    return Upgraded(pipeline.name, old.name, new.name, outcome)


@cache
def _learned(runner: Runner, pipeline: Pipeline, version: Version) -> Golden:
    return learn([runner.load(pipeline, version, seed) for seed in SEEDS], pipeline=pipeline.name, seeds=SEEDS)


def wanted_runs(only: Sequence[str]) -> Iterator[tuple[Pipeline, Version, int]]:
    for pipelines, versions in ((scripts(), TRANSFORMERS), (with_torch(), TORCH)):
        for pipeline in pipelines:
            if not only or pipeline.name in only:
                # Of the newest release nothing is learned, so there is one run of it.
                yield from ((pipeline, version, seed) for version in versions[:-1] for seed in SEEDS)
                yield pipeline, versions[-1], SEEDS[0]


def record_all(runner: Runner, only: Sequence[str]) -> dict[tuple[str, str], str]:
    """All runs, one at a time; what went wrong, by pipeline and version."""
    todo = list(dict.fromkeys(wanted_runs(only)))
    wrong: dict[tuple[str, str], str] = {}
    for number, (pipeline, version, seed) in enumerate(todo, start=1):
        problem = runner.record(pipeline, version, seed)
        if problem:
            wrong[pipeline.name, version.name] = problem
        print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return wrong


def load_known() -> list[Known]:
    tables = tomllib.loads(KNOWN.read_text(encoding="utf-8"))["known"]
    return [
        Known(
            table["letter"],
            tuple(table.get("words", ())),
            table["kind"],
            table["text"].strip(),
            table.get("missed", {}),
        )
        for table in tables
    ]


def page(transformers: Sequence[Upgraded], torch: Sequence[Upgraded], known: Sequence[Known]) -> str:
    """The tables and what the letters stand for."""
    blocks = [
        "## transformers",
        "Incidents in each comparison; true ones in bold, 0 where there is none.",
        _incidents(transformers, known),
    ]
    for kind, title in (
        ("true", "### What is true"),
        ("missed", "### What is missed"),
        ("false", "### What is a false alarm"),
    ):
        items = [f"- **{item.letter}**: {item.text}" for item in known if item.kind == kind]
        blocks += [title, "\n".join(items) if items else "Nothing."]
    blocks += [
        "## Rules that stay valid and applicable",
        "Share of golden's rules that come up with the newer release and hold.",
        _shares(transformers),
        _mean(transformers),
        "## torch 2.13.0 to 2.15.0",
        _torch(torch, known),
        _mean(torch),
    ]  # fmt: skip
    return "\n\n".join(blocks) + "\n"


def _pairs(found: Sequence[Upgraded]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((each.old, each.new) for each in found))


def _matrix(found: Sequence[Upgraded], cell: Mapping[tuple[str, str, str], str]) -> str:
    pairs = _pairs(found)
    rows = [
        [f"`{name}`", *(cell.get((name, old, new), "") for old, new in pairs)]
        for name in dict.fromkeys(each.pipeline for each in found)
    ]
    return markdown_table(["", *(f"{old} to {new}" for old, new in pairs)], rows)


def _incidents(found: Sequence[Upgraded], known: Sequence[Known]) -> str:
    return _matrix(found, {(each.pipeline, each.old, each.new): each.letters(known) for each in found})


def _shares(found: Sequence[Upgraded]) -> str:
    return _matrix(
        found, {(each.pipeline, each.old, each.new): f"{100 * each.share(Verdict.HELD):.1f} %" for each in found}
    )


def _mean(found: Sequence[Upgraded]) -> str:
    known = [each for each in found if each.outcome is not None]
    held = sum(each.share(Verdict.HELD) for each in known) / max(1, len(known))
    broken = sum(each.share(Verdict.VIOLATED) for each in known) / max(1, len(known))
    return (
        f"In the mean of these {len(known)} comparisons {100 * held:.1f} % of the rules stay valid and applicable, "
        f"{100 * broken:.1f} % are broken and {100 * (1 - held - broken):.1f} % do not come up."
    )


def _torch(found: Sequence[Upgraded], known: Sequence[Known]) -> str:
    rows = []
    for each in found:
        rules = len(each.outcome.verdicts) if each.outcome else 0
        modules = [item for item in (each.outcome.modules if each.outcome else ()) if item.status != "not comparable"]
        same = sum(item.status == "same" for item in modules)
        off = max((item.off for item in modules), default=0.0)
        rows.append(
            [f"`{each.pipeline}`", rules, f"{100 * each.share(Verdict.HELD):.1f} %", each.letters(known),
             f"{same} of {len(modules)}", f"{off:.1e}" if off else "0"]
        )  # fmt: skip
    return markdown_table(
        ["", "rules", "valid and applicable", "incidents", "modules bit by bit the same", "largest distance"], rows
    )


def arguments_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="keep the traces here and use those that are there")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this pipeline alone; repeatable")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to FILE instead of printing it")
    parser.add_argument("--before", type=Path, metavar="FILE", help="text that goes in front of the tables")
    return parser.parse_args(argv)


def main() -> int:
    arguments = arguments_of()
    facts = machine()
    runner = Runner(arguments.scratch.resolve(), arguments.timeout)
    for (pipeline, version), problem in record_all(runner, arguments.only).items():
        print(f"{pipeline} with {version} went wrong: {problem}", file=sys.stderr)
    chosen = [each for each in scripts() if not arguments.only or each.name in arguments.only]
    steps = list(itertools.pairwise(TRANSFORMERS))
    transformers = [upgrade(runner, pipeline, old, new) for pipeline in chosen for old, new in steps]
    chosen = [each for each in with_torch() if not arguments.only or each.name in arguments.only]
    torch = [upgrade(runner, pipeline, *TORCH) for pipeline in chosen]
    known = load_known()
    text = page(transformers, torch, known)
    text += "\nMeasured on: " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".\n"
    if arguments.before:
        text = arguments.before.read_text(encoding="utf-8").rstrip() + "\n\n" + text
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    wrong = [each for each in (*transformers, *torch) if each.outcome is None or "?" in each.letters(known)]
    for each in wrong:
        told = [incident.cause.title for incident in each.outcome.incidents] if each.outcome else [each.problem]
        print(f"{each.pipeline}, {each.old} to {each.new}: {told}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
