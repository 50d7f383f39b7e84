"""Transferable rules learned from some pipelines and checked on others, as the TrainCheck paper (OSDI 2025) measures
false alarms."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from measure import REPOSITORY, markdown_table

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.check.audit import audit_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.infer import Terms, learn_pack
from pytest_traincheck.infer.transferable import MIN_PROGRAMS
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.trace import Run

TEACHERS = ("mnist_cnn", "tiny_gpt", "gan", "finetune", "ddp")
"""The five that rules are learned from: the first five of `traincheck.toml` that differ most."""


@dataclass(frozen=True)
class Transferred:
    """How many rules were learned, and for each other pipeline how many applied and which were broken."""

    learned: int
    applied: Mapping[str, int]
    broken: Mapping[str, Sequence[Invariant]]

    def summary(self) -> str:
        checked = sum(self.applied.values())
        alarms = sum(map(len, self.broken.values()))
        distinct = {invariant.id for broken in self.broken.values() for invariant in broken}
        programs = sum(bool(broken) for broken in self.broken.values())
        share = 100 * alarms / checked if checked else 0.0
        return (
            f"{self.learned} transferable rules learned from {', '.join(TEACHERS)}. On the {len(self.applied)} other "
            f"pipelines they were evaluated {checked} times and broken {alarms} times: {share:.2f} % by invariant "
            f"(paper: under 2 %); {programs} of {len(self.applied)} programs have an alarm; "
            f"{len(distinct)} rules of {self.learned} are ever broken."
        )

    def table(self) -> str:
        rows = [
            [name, self.applied[name], len(self.broken[name]), "<br>".join(each.sentence for each in self.broken[name])]
            for name in self.applied
        ]
        return markdown_table(["pipeline", "rules that applied", "broken", "which"], rows)


def transfer(runs: Mapping[str, Sequence[Run]]) -> Transferred:
    """Learns from `TEACHERS`, checks the first run of every other pipeline."""
    teachers = {name: runs[name] for name in TEACHERS if name in runs}
    pack = learn_pack(teachers, name="transferable", terms=Terms(unreasoned=MIN_PROGRAMS))
    applied: Counter[str] = Counter()
    broken: dict[str, list[Invariant]] = {}
    for name, theirs in runs.items():
        if name in TEACHERS:
            continue
        broken[name] = []
        for item in audit_run(theirs[0], [pack], name=name).verdicts:
            if item.verdict in (Verdict.HELD, Verdict.VIOLATED):
                applied[name] += 1
            if item.verdict is Verdict.VIOLATED:
                broken[name].append(item.rule.invariant)
    return Transferred(len(pack.rules), {name: applied[name] for name in broken}, broken)
