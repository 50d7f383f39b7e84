"""The three moments of a week, from an empty repository and `pip install` to a merged refresh."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.sweep]
pytest.importorskip("hatchling")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from moments import live

    week = live(tmp_path, seeds=(0,))
    ended = {moment.name: (moment.status, moment.output[-3000:]) for moment in week.moments if not moment.as_expected}
    assert not ended
    printed = {moment.name: " ".join(moment.output.split()) for moment in week.moments}

    # The cause is on top, and the golden of a commit is learned once.
    assert "zero_grad is missing or misplaced" in printed["check a silent bug"]
    cold, cached = printed["the same against the merge base, cold"], printed["the same, its golden in the cache"]
    assert "zero_grad is missing or misplaced" in cold
    assert "zero_grad is missing or misplaced" in cached
    learning = re.compile(r"golden run \d")  # among the seconds that each part took
    assert learning.search(cold)
    assert not learning.search(cached)

    # The library broke it, not the code, and the report names the call of it.
    upgraded = printed["try a library, cold"]
    assert "tinyloss" in upgraded
    assert "library" in upgraded

    # What was meant is refused until somebody says so, and is one line of the golden afterwards.
    assert "--accept" in printed["refresh without a word"]
    golden = (week.repository / "golden_invariants" / "my_model.jsonl").read_text(encoding="utf-8")
    assert json.loads(golden.splitlines()[0])["reason"] == "The learning rate was too low"
    merged = week.git("log", "--oneline", "--merges")
    assert "Merge the faster training" in merged
    changed = week.git("diff", "--numstat", "HEAD~1", "--", "golden_invariants/my_model.jsonl").split()
    assert int(changed[0]) <= 4
