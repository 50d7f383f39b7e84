"""What `growth.py` does to traces in processes of their own, so that the memory of each is that of one thing.

python benchmarks/growth_task.py cut RUN EVENTS TARGET
python benchmarks/growth_task.py check GOLDEN RUN
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.trace import load_run
from pytest_traincheck.trace.slice import borders, write_slice


def cut(run: Path, events: int, target: Path) -> None:
    """Write the beginning of a run, up to the end of the step that is nearest to that many events."""
    loaded = load_run(run)
    so_far = np.cumsum(np.bincount(loaded.processes[0].window))
    step = int(np.abs(so_far - events).argmin())
    write_slice(loaded, borders(loaded, step), target)


def check(golden: Path, run: Path) -> None:
    """Check a run against a golden and say what became of the rules."""
    loaded = load_run(run)
    outcome = check_run(read_golden(golden), loaded, same_spec=True)
    verdicts = Counter(verdict.verdict.value for verdict in outcome.verdicts)
    print(f"{loaded.events} events, {len(outcome.incidents)} incidents, {dict(sorted(verdicts.items()))}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["cut", run, events, target]:
            cut(Path(run), int(events), Path(target))
        case ["check", golden, run]:
            check(Path(golden), Path(run))
        case _:
            raise SystemExit(__doc__)
