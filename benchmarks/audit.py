"""Ready-made packs, measured: rules learned without a program, tried on it; and planted bugs found without a golden.

    python benchmarks/audit.py --traces DIR --public SCRATCH --packs pytest_traincheck/packs \
        --write docs/audit_measured.md

DIR holds traces that `traincheck collect` recorded, as CORPUS/PROGRAM/VARIANT/trace. The variant `clean` is a right
program, and what begins with `refactor` or `feature` as well; what begins with `bug-` or `num-` has a planted bug.
SCRATCH is what `public.py` has recorded public scripts in. Where somebody who looked says that one breaks a law by
mistake (`public.toml`), it has no part in learning that law, and the finding is no false alarm.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from measure import REPOSITORY, machine, markdown_table
from public_programs import load_programs

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.audit import audit_run
from pytest_traincheck.check.audited import Audit
from pytest_traincheck.infer import Terms, learn_pack
from pytest_traincheck.packs import store
from pytest_traincheck.packs.model import Level, Pack
from pytest_traincheck.packs.versions import libraries
from pytest_traincheck.relations import laws
from pytest_traincheck.trace import Run, load_run
from pytest_traincheck.trace.errors import TraceError

CLEAN, PUBLIC = "clean", "public"
RIGHT = (CLEAN, "refactor", "feature")
WRONG = ("bug-", "num-")
GROUPS = ("torch-distributed", "transformers", "accelerate", "lightning", "peft", "deepspeed")
"""Libraries whose programs are left out together."""


@dataclass(frozen=True)
class Trial:
    """One audited run. `errors` and `warnings` are names of rules; `title` is that of the first finding."""

    program: str
    variant: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    title: str = ""
    evaluated: int = 0

    @property
    def is_found(self) -> bool:
        return bool(self.errors or self.warnings)


@dataclass
class Corpus:
    """The traces of a directory; right runs are kept in memory, since packs are learned from them again and again."""

    directory: Path
    public: Path | None = None
    right: dict[str, dict[str, Run]] = field(default_factory=dict)
    """By program and variant."""
    unreadable: list[str] = field(default_factory=list)

    mistakes: dict[str, frozenset[str]] = field(default_factory=dict)
    """Rules that a right program is known to break, by program."""

    def read(self) -> None:
        self._read_public()
        for program, variant, path in self.variants(RIGHT):
            run = self.load(path)
            if run is not None:
                self.right.setdefault(program, {})[variant] = run

    def _read_public(self) -> None:
        if self.public is None:
            return
        for program in load_programs():
            name = f"{PUBLIC}/{program.name}"
            if not (self.public / program.name / "finished").exists():
                self.unreadable.append(f"`{name}`: not recorded")
                continue
            run = self.load(self.public / program.name / "trace")
            if run is None:
                continue
            self.right[name] = {CLEAN: run}
            mistakes = frozenset(finding.rule for finding in program.findings if finding.verdict == "right")
            if mistakes:
                self.mistakes[name] = mistakes

    def variants(self, beginnings: Sequence[str]) -> Iterator[tuple[str, str, Path]]:
        for path in sorted(self.directory.glob("*/*/*/trace")):
            corpus, program, variant = path.relative_to(self.directory).parts[:3]
            if variant.startswith(tuple(beginnings)):
                yield f"{corpus}/{program}", variant, path

    def load(self, path: Path) -> Run | None:
        try:
            return load_run(path)
        except TraceError as error:
            self.unreadable.append(f"`{'/'.join(path.parts[-4:-1])}`: {str(error).splitlines()[0][:160]}")
            return None


class Packs:
    """Packs of laws, learned without some programs; each set once."""

    def __init__(self, corpus: Corpus) -> None:
        self._right = corpus.right
        self.mistakes = corpus.mistakes
        self._known: dict[frozenset[str], tuple[Pack, ...]] = {}
        claims = (law.reason(law.claims[0]()).library for law in laws().values())
        self.libraries = tuple(sorted(set(claims)))

    def without(self, left_out: frozenset[str] = frozenset()) -> tuple[Pack, ...]:
        if left_out not in self._known:
            programs = {name: list(runs.values()) for name, runs in self._right.items() if name not in left_out}
            mistakes = {name: rules for name, rules in self.mistakes.items() if name not in left_out}
            found = (
                learn_pack(
                    programs,
                    name=library,
                    terms=Terms(library, laws_only=True, mistakes=mistakes),
                    reason=REASON,
                )
                for library in self.libraries
            )
            self._known[left_out] = tuple(pack for pack in found if pack.rules)
        return self._known[left_out]


FEW = 10
"""Programs; of rules that fewer show more than one in four right programs may break them."""

REASON = "right programs of this repository, with their refactorings and extensions, and public scripts"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True, metavar="DIR")
    parser.add_argument("--public", type=Path, metavar="SCRATCH", help="public scripts that `public.py` has recorded")
    parser.add_argument("--packs", type=Path, metavar="DIR", help="write the packs of all right programs here")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page here instead of printing it")
    arguments = parser.parse_args()
    begun = time.perf_counter()
    corpus = Corpus(arguments.traces, arguments.public)
    corpus.read()
    packs = Packs(corpus)
    whole = packs.without()
    learned_s = time.perf_counter() - begun
    if arguments.packs is not None:
        for pack in whole:
            store.write(arguments.packs / f"{pack.name}{store.SUFFIX}", pack)
    right = [
        _trial(packs, program, variant, run) for program, runs in corpus.right.items() for variant, run in runs.items()
    ]
    wrong = [
        _trial(packs, program, variant, run)
        for program, variant, path in corpus.variants(WRONG)
        if (run := corpus.load(path)) is not None
    ]
    grouped = list(_by_library(corpus, packs))
    text = _page(corpus, whole, right, wrong, grouped, learned_s)
    if arguments.write is None:
        print(text)
    else:
        arguments.write.write_text(text, encoding="utf-8")


def _trial(packs: Packs, program: str, variant: str, run: Run) -> Trial:
    """A run, held against what was learned without any run of its program."""
    audit = audit_run(run, packs.without(frozenset({program})), name=program)
    return _judged(program, variant, audit, packs.mistakes.get(program, frozenset()))


def _by_library(corpus: Corpus, packs: Packs) -> Iterator[tuple[str, list[Trial]]]:
    """Each library's programs, held against what was learned from all others."""
    for library in GROUPS:
        users = frozenset(
            name for name, runs in corpus.right.items() if any(library in libraries(run) for run in runs.values())
        )
        if users and len(users) < len(corpus.right):
            yield (
                library,
                [
                    _judged(
                        name,
                        variant,
                        audit_run(run, packs.without(users), name=name),
                        packs.mistakes.get(name, frozenset()),
                    )
                    for name in sorted(users)
                    for variant, run in corpus.right[name].items()
                ],
            )


def _judged(program: str, variant: str, audit: Audit, mistakes: frozenset[str]) -> Trial:
    """What an audit found, without the findings that are known to be right."""
    names: dict[Level, dict[str, None]] = {level: {} for level in Level}
    findings = [finding for finding in audit.findings if not mistakes.intersection(finding.names)]
    for finding in findings:
        for rule in (finding.rule, *finding.others):
            names[rule.level].setdefault(rule.id)
    title = findings[0].incident.cause.title if findings else ""
    counts = audit.laws()
    return Trial(
        program, variant, tuple(names[Level.LAW]), tuple(names[Level.HABIT]), title, counts["held"] + counts["broken"]
    )


def _page(
    corpus: Corpus, packs: Sequence[Pack], right: Sequence[Trial], wrong: Sequence[Trial],
    grouped: Sequence[tuple[str, Sequence[Trial]]], learned_s: float,
) -> str:  # fmt: skip
    parts = [
        "# Packs, measured",
        "Made by `python benchmarks/audit.py --traces DIR --public SCRATCH --packs pytest_traincheck/packs --write "
        "docs/audit_measured.md` from traces of the programs in `fixtures/` and of [public scripts](public.md). Every "
        "run was held against packs that were learned without any run of its own program.",
        ", ".join(f"{key} {value}" for key, value in machine().items()) + ". Packs were learned from "
        f"{len(corpus.right)} right programs in {learned_s:.1f} s, reading their traces included.",
        _packs_table(packs),
        _thin(packs),
        _known(corpus.mistakes),
        "## False alarms: right programs",
        _summary(right),
        _alarms_by_rule(right),
        _alarms(right),
        "## False alarms: a library left out",
        "All programs that use a library are left out of learning, and the packs are tried on them.",
        _grouped(grouped),
        "## Planted bugs",
        _recall(wrong),
        _by_sort(wrong),
        _rows(wrong),
    ]
    if corpus.unreadable:
        parts += ["## Runs without a trace to rely upon", "\n".join(f"- {line}" for line in corpus.unreadable)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _packs_table(packs: Sequence[Pack]) -> str:
    rows = [[f"`{pack.name}`", pack.count(Level.LAW), pack.count(Level.HABIT), pack.library] for pack in packs]
    return markdown_table(["pack", "laws", "habits", "library"], rows)


def _thin(packs: Sequence[Pack]) -> str:
    """What few programs show, so that the bound on how many right programs may break it is wide."""
    found = [
        f"`{rule.id}` ({pack.name}, {len(rule.evidence.shows)}; {rule.evidence.at_most:.0%})"
        for pack in packs
        for rule in pack.rules
        if len(rule.evidence.shows) < FEW
    ]
    return (
        f"{len(found)} rules have thin evidence: fewer than {FEW} programs show them. With each stands how many do, "
        f"and the share of right programs that may break it all the same, with 95 % confidence: {', '.join(found)}."
    )


def _known(mistakes: Mapping[str, frozenset[str]]) -> str:
    """Which programs had no part in learning a rule, since they break it by mistake."""
    if not mistakes:
        return ""
    found = "; ".join(f"{name}: {_named(sorted(rules))}" for name, rules in sorted(mistakes.items()))
    return (
        f"{len(mistakes)} public scripts break rules by mistake, as somebody who looked says ([why](public.md)): they "
        f"have no part in learning these, and such a finding is none of the alarms below. {found}."
    )


def _summary(trials: Sequence[Trial]) -> str:
    evaluated = sum(trial.evaluated for trial in trials)
    errors, warnings = sum(len(trial.errors) for trial in trials), sum(len(trial.warnings) for trial in trials)
    broken = sum(bool(trial.errors) for trial in trials)
    programs = len({trial.program for trial in trials})
    share = 100 * (errors + warnings) / max(1, evaluated)
    return (
        f"{len(trials)} runs of {programs} right programs (clean, refactored, extended): {errors} errors in {broken} "
        f"runs, {warnings} warnings ({warnings / max(1, len(trials)):.2f} a run). By rule: {errors + warnings} of "
        f"{evaluated} evaluations ({share:.2f} %)."
    )


def _alarms_by_rule(trials: Sequence[Trial]) -> str:
    tally: Counter[tuple[str, str]] = Counter()
    for trial in trials:
        tally.update(("error", name) for name in trial.errors)
        tally.update(("warning", name) for name in trial.warnings)
    rows = [[f"`{name}`", level, count] for (level, name), count in sorted(tally.items(), key=lambda item: -item[1])]
    return markdown_table(["rule", "level", "runs"], rows) if rows else ""


def _alarms(trials: Sequence[Trial]) -> str:
    rows = [
        [trial.program, trial.variant, _named(trial.errors), _named(trial.warnings), trial.title]
        for trial in trials
        if trial.is_found
    ]
    return markdown_table(["program", "run", "errors", "warnings", "first finding"], rows) if rows else ""


def _grouped(grouped: Sequence[tuple[str, Sequence[Trial]]]) -> str:
    rows = [
        [
            library,
            len(trials),
            sum(trial.evaluated for trial in trials),
            _named(name for trial in trials for name in trial.errors),
            _named(name for trial in trials for name in trial.warnings),
        ]
        for library, trials in grouped
    ]
    return markdown_table(["library", "runs", "evaluations", "errors", "warnings"], rows)


def _recall(trials: Sequence[Trial]) -> str:
    by_law = sum(bool(trial.errors) for trial in trials)
    by_habit = sum(bool(trial.warnings) and not trial.errors for trial in trials)
    return (
        f"{by_law + by_habit} of {len(trials)} found without a golden: {by_law} by a law, {by_habit} by a habit alone."
    )


def _by_sort(trials: Sequence[Trial]) -> str:
    """By corpus, and bugs of behaviour apart from those that change numbers only."""
    sorts: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        kind = "numbers" if trial.variant.startswith("num-") else "behaviour"
        sorts.setdefault((trial.program.partition("/")[0], kind), []).append(trial)
    rows = [
        [corpus, kind, len(found), sum(bool(trial.errors) for trial in found), sum(trial.is_found for trial in found)]
        for (corpus, kind), found in sorted(sorts.items())
    ]
    return markdown_table(["corpus", "bugs of", "bugs", "found by a law", "found"], rows)


def _rows(trials: Sequence[Trial]) -> str:
    rows = [
        [trial.program, trial.variant, _named(trial.errors), _named(trial.warnings), trial.title] for trial in trials
    ]
    return markdown_table(["program", "bug", "laws", "habits", "first finding"], rows)


def _named(names: Sequence[str] | Iterator[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names)) or "-"


if __name__ == "__main__":
    main()
