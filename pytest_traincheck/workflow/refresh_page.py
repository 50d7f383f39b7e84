"""A refresh as its page shows it."""

from __future__ import annotations

from pytest_traincheck.report.refresh.result import Refreshed
from pytest_traincheck.workflow.refresh import Refresh, Relearned
from pytest_traincheck.workflow.refresh_text import Command, became


def refreshed(outcome: Refresh, command: Command) -> list[Refreshed]:
    """One entry for each pipeline; `command` gives what accepts an incident, or all of them."""
    return [_entry(item, outcome, command) for item in outcome.pipelines]


def _entry(item: Relearned, outcome: Refresh, command: Command) -> Refreshed:
    decision = outcome.decision
    refused = decision.refused.get(item.pipeline, ())
    return Refreshed(
        item.result,
        became(item, written=decision.may_write, path=f"{item.path.parent.name}/{item.path.name}"),
        item.change,
        item.learned,
        item.reason,
        decision.accepted.get(item.pipeline, ()),
        refused,
        item.warnings,
        item.notes,
        tuple(command(item.pipeline, incident.id) for incident in refused),
    )
