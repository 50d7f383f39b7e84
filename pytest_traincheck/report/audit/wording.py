"""The parts of an audit in words, shared by its reporters."""

from __future__ import annotations

from pytest_traincheck.check.audited import Audit, AuditFinding, Silenced
from pytest_traincheck.check.result import Outcome, Verdict
from pytest_traincheck.packs.model import Level
from pytest_traincheck.report.wording import shortened, where
from pytest_traincheck.text import one_line, plural

SILENCING = "[[tool.traincheck.audit.allow]]"


def verdict(audit: Audit) -> str:
    """ "passed", "FAILED" or "ERROR", and what that rests on."""
    word = {Outcome.PASS: "passed", Outcome.FAIL: "FAILED", Outcome.ERROR: "ERROR"}[audit.outcome]
    found = [plural(audit.level(level), level.report) for level in Level if audit.level(level)]
    laws = audit.laws()
    if audit.errors:
        return word
    looked = laws["held"] + laws["broken"]
    rules = f"{looked} of {plural(laws['known'], 'rule')} came up, {laws['held']} held"
    return f"{word} - {', '.join([*found, rules])}"


def counts(audit: Audit) -> str:
    """How many rules there are, and what became of them."""
    laws = audit.laws()
    parts = [f"{laws[key]} {key.replace('_', ' ')}" for key in list(laws)[1:] if laws[key]]
    return f"{laws['known']} known" + (f": {', '.join(parts)}" if parts else "")


def reasons(audit: Audit) -> list[tuple[str, int]]:
    """Why rules were not evaluated, with how many share the reason, the most frequent first."""
    tally: dict[str, set[str]] = {}
    for item in audit.verdicts:
        if item.verdict in (Verdict.NOT_TRIGGERED, Verdict.NOT_OBSERVABLE):
            tally.setdefault(one_line(f"{item.verdict.value}: {item.reason}"), set()).add(item.rule.id)
    return sorted(((reason, len(ids)) for reason, ids in tally.items()), key=lambda entry: (-entry[1], entry[0]))


def details(finding: AuditFinding) -> list[tuple[str, str]]:
    """What a person needs to know about a finding, as label and text."""
    cause, rule = finding.incident.cause, finding.rule
    more = f" ({cause.count} places in all)" if cause.count > 1 else ""
    facts = [
        ("where", where(cause) + more),
        ("variables", shortened(cause.variables)),
        ("why", one_line(rule.why or cause.invariant.sentence)),
        ("do", one_line(rule.remedy)),
        ("unless", one_line(rule.meant)),
        ("link", one_line(rule.link)),
    ]
    return [(label, text) for label, text in facts if text]


def silencing(finding: AuditFinding) -> str:
    """What somebody writes who means it: three lines of TOML, for `pyproject.toml`."""
    return f'{SILENCING}\nlaw = "{finding.names[0]}"\nreason = "..."'


def others(finding: AuditFinding) -> list[str]:
    """What follows from the same cause, each with the name of its rule."""
    pairs = zip(finding.others, finding.incident.consequences, strict=True)
    return list(dict.fromkeys(one_line(f"{rule.id}: {violation.title}") for rule, violation in pairs))


def allowed(item: Silenced) -> str:
    """A finding that is allowed, by whom and why."""
    by = f" ({item.owner})" if item.owner else ""
    return one_line(f"{item.finding.rule.id} at {item.finding.incident.cause.source or 'no line'}: {item.reason}{by}")


def looked_at(audit: Audit) -> str:
    """What was looked at: the steps, and the libraries that packs are for."""
    known = dict.fromkeys(pack.library for pack in audit.packs if not pack.reason)
    libraries = [f"{library} {audit.libraries[library]}" for library in known if library in audit.libraries]
    return ", ".join([plural(audit.steps, "training step"), *libraries])
