"""Which incidents of a refresh were meant. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pytest_traincheck.check.result import CheckResult, Incident
from pytest_traincheck.golden.format_1 import ids_of
from pytest_traincheck.input_error import InputError
from pytest_traincheck.text import one_line


class UnknownIncidentError(InputError, ValueError):
    """Something was accepted that is not there. The text lists what is."""


@dataclass(frozen=True)
class Acceptance:
    """What the user said is intended: ids of incidents or rules, subjects, globs of these; or `everything`."""

    names: tuple[str, ...] = ()
    everything: bool = False


@dataclass(frozen=True)
class Decision:
    """The incidents of all pipelines by pipeline, sorted into those that were meant and those that were not.

    `failed` are the pipelines whose runs gave no result.
    """

    accepted: Mapping[str, tuple[Incident, ...]] = field(default_factory=dict)
    refused: Mapping[str, tuple[Incident, ...]] = field(default_factory=dict)
    failed: tuple[str, ...] = ()

    @property
    def may_write(self) -> bool:
        return not self.refused and not self.failed


def decide(results: Sequence[CheckResult], acceptance: Acceptance) -> Decision:
    """Sort the incidents of all pipelines of one refresh.

    Raises `UnknownIncidentError` for a name that means none of them; not when a run failed,
    since then not all are known.
    """
    accepted: dict[str, tuple[Incident, ...]] = {}
    refused: dict[str, tuple[Incident, ...]] = {}
    for result in results:
        meant = tuple(item for item in result.incidents if is_meant(item, acceptance))
        others = tuple(item for item in result.incidents if not is_meant(item, acceptance))
        if meant:
            accepted[result.pipeline] = meant
        if others:
            refused[result.pipeline] = others
    failed = tuple(result.pipeline for result in results if result.errors)
    incidents = [(result.pipeline, incident) for result in results for incident in result.incidents]
    for name in acceptance.names:
        if not failed and not any(names_incident(name, incident) for _, incident in incidents):
            raise UnknownIncidentError(_unmatched(name, incidents))
    return Decision(accepted, refused, failed)


def names_incident(name: str, incident: Incident) -> bool:
    """Whether `name` is the incident's id, or the id or subject of the rule that is its root, or a glob of these.

    Not of its consequences: what follows from a cause is accepted with the cause, which a person should have read.
    """
    rule = incident.cause.invariant
    return any(_is(name, text) for text in (*incident.ids, *ids_of(rule), rule.subject))


def is_meant(incident: Incident, acceptance: Acceptance) -> bool:
    """Whether the user said that an incident is intended."""
    return acceptance.everything or any(names_incident(name, incident) for name in acceptance.names)


def _is(name: str, text: str) -> bool:
    # `SGD[Net]` is a subject as well as a glob.
    return name == text or fnmatchcase(text, name)


def _unmatched(name: str, incidents: Sequence[tuple[str, Incident]]) -> str:
    head = f"{one_line(name)!r} is to be accepted and names no incident, so nothing was written"
    if not incidents:
        return f"{head}. There is none: what was learned breaks no rule of a stored golden. Leave it out."
    for pipeline, incident in incidents:
        rules = [item.invariant for item in incident.consequences]
        if any(_is(name, text) for rule in rules for text in (*ids_of(rule), rule.subject)):
            return (
                f"{head}. It only follows from incident {incident.id} of {pipeline} "
                f"({one_line(incident.cause.title)}). Accept {incident.id} if that is intended."
            )
    lines = [f"  {incident_line(pipeline, incident)}" for pipeline, incident in incidents]
    return "\n".join([f"{head}. Give one of these ids, or a subject:", *lines])


def incident_line(pipeline: str, incident: Incident) -> str:
    """One line: id, pipeline, what happened."""
    return f"{incident.id}  {one_line(pipeline)}: {one_line(incident.cause.title)}"
