"""A history as one JSON object: what was read, and what it tells of each pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_traincheck.history.record import Record
from pytest_traincheck.history.story import Pipeline

FORMAT = 1


def document(records: Sequence[Record], stories: Sequence[Pipeline]) -> dict[str, Any]:
    """`runs` are the lines themselves, the oldest first."""
    return {
        "format": FORMAT,
        "runs": [record.to_json() for record in records],
        "pipelines": [_pipeline(story) for story in stories],
    }


def _pipeline(story: Pipeline) -> dict[str, Any]:
    return {
        "pipeline": story.name,
        "checks": len(story.checks),
        "verdicts": {outcome: sum(ran.entry.verdict.value == outcome for ran in story.checks) for outcome in _OUTCOMES},
        "seconds": story.seconds,
        "broke": [
            {
                "id": episode.incident.id,
                "title": episode.incident.title,
                "branch": episode.branch,
                "first": _place(episode.first),
                "last": _place(episode.last),
                "times": episode.times,
                "gone": None if episode.gone is None else _place(episode.gone),
            }
            for episode in story.episodes
        ],
        "learned": [
            {
                "commit": item.origin.commit,
                "reason": item.origin.reason,
                "by": item.origin.by,
                "rules_before": item.rules_before,
                "rules": item.rules,
                "first": _place(item.record),
            }
            for item in story.learned
        ],
        "accepted": [
            {
                "rule": item.rule.rule,
                "sentence": item.rule.sentence,
                "reason": item.rule.reason,
                "first": _place(item.first),
                "last": _place(item.last),
                "times": item.times,
            }
            for item in story.accepted
        ],
        "silent": {"rules": list(story.silent.rules), "checks": story.silent.checks},
        "kill_rates": [
            {**_place(ran.record), "kill_rate": ran.entry.kill_rate, "survivors": list(ran.entry.survivors)}
            for ran in story.selftests
        ],
    }


_OUTCOMES = ("pass", "fail", "error")


def _place(record: Record) -> dict[str, str]:
    return {"when": record.when.isoformat(timespec="seconds"), "commit": record.commit}
