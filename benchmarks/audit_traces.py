"""`traincheck audit` for `audit_peers.py`, from traces that are there already: no program runs again.

Each run is held against packs that were learned without any run of its program, as in `audit.py`: what ships has seen
the right programs of this repository. The fifth corpus has no part in any pack, and has none here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from audit import Corpus, Packs
from audit_page import Case
from audit_tools import Remark, Said

from pytest_traincheck.check.audit import audit_run

_UNSEEN = "fifth"


def audited(cases: Sequence[Case], traces: Path) -> Iterator[tuple[Case, Said]]:
    """What an audit says of every case whose trace is below the directory, as CORPUS/PROGRAM/VARIANT/trace."""
    corpus = Corpus(traces)
    corpus.read()
    packs = Packs({name: runs for name, runs in corpus.right.items() if not name.startswith(f"{_UNSEEN}/")})
    for case in cases:
        program, path = _place(case)
        if not (traces / path).is_dir():
            continue
        begun = time.perf_counter()
        run = corpus.load(traces / path)
        if run is None:
            yield case, Said(problem=corpus.unreadable[-1])
            continue
        audit = audit_run(run, packs.without(frozenset({program})), name=program)
        remarks = tuple(
            Remark(each.level, each.rule.id, each.rule.invariant.subject, each.incident.cause.title)
            for each in audit.findings
        )
        yield (
            case,
            Said(remarks, 1, (), "; ".join(error.message for error in audit.errors), time.perf_counter() - begun),
        )


def _place(case: Case) -> tuple[str, Path]:
    """The program's name, and where its trace is."""
    home = case.right.partition("/")[0]
    program = f"{'ref' if home == 'pipelines' else home}/{case.program.name}"
    if case.bug is None:
        return program, Path(program) / "clean" / "trace"
    kind = "num" if case.group == "numbers" else "bug"
    return program, Path(program) / f"{kind}-{case.bug.name}" / "trace"
