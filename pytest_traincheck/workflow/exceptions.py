"""The exceptions on file, judged themselves: one that has expired, or that matches no rule any more, is a failure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from pytest_traincheck.check.result import CONFIGURATION, CheckResult, Incident, Verdict, Violation
from pytest_traincheck.config import Accept, Config
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.relations.stored import read_golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.policy import matches

NAME = "accepted exceptions"
"""What stands for the pipeline in a result that is about exceptions."""


def today() -> datetime.date:
    """The day by which exceptions are judged, the same all over the world."""
    return datetime.datetime.now(datetime.timezone.utc).date()


def judge_exceptions(config: Config, known: Sequence[Invariant] | None, day: datetime.date) -> CheckResult | None:
    """A failed result with one incident for every exception that applies no more; None where all are in order.

    `known` are the rules of all goldens; None where they are not all at hand: then only days are looked at.
    """
    violations = [item for entry in config.accept if (item := problem(entry, config, known, day)) is not None]
    if not violations:
        return None
    return CheckResult(
        NAME,
        incidents=tuple(
            Incident(violation.invariant.id, rank, violation) for rank, violation in enumerate(violations, start=1)
        ),
    )


def problem(entry: Accept, config: Config, known: Sequence[Invariant] | None, day: datetime.date) -> Violation | None:
    """What is wrong with an exception: it has expired, or it matches none of the rules `known`."""
    what = f"The accepted exception `{entry.name}` of {entry.owner}"
    if entry.expires < day:
        title = f"{what} expired on {entry.expires}."
        now = f"{day}: fix what it excuses and delete it, or agree on a new date"
    elif known is not None and not any(matches(entry, rule) for rule in known):
        title = f"{what} matches no rule of any golden."
        now = "no rule has this id or subject: delete it"
    else:
        return None
    rule = Invariant(
        relation="Accept",
        subject=entry.invariant,
        claim=Foreign(
            {
                "owner": entry.owner,
                "expires": str(entry.expires),
                "reason": entry.reason,
                **({"value": entry.value} if entry.value else {}),
            }
        ),
        when=(),
        scope=Scope.PINNED,
        kind=Kind.CONFIG,
        sentence=f"{what} is for a rule that exists, until {entry.expires}.",
    )
    return Violation(
        rule,
        title,
        f"accepted until {entry.expires}: {entry.reason}",
        now,
        0,
        CONFIGURATION,
        (),
        0,
        source=config.source.name,
    )


def stored_rules(config: Config) -> tuple[Invariant, ...] | None:
    """The rules of all goldens in the store; None where a pipeline has none, or one that cannot be read."""
    paths = {store.golden_path(config.store, name) for name in config.pipelines}
    # Those of tests that train by themselves lie there too, and exceptions are for them as well.
    paths |= set(config.store.glob(f"[!.]*{store.SUFFIX}"))
    try:
        return tuple(rule for path in sorted(paths) for rule in read_golden(path).invariants)
    except GoldenError:
        return None


def checked_rules(config: Config, results: Iterable[CheckResult]) -> tuple[Invariant, ...] | None:
    """The rules that were checked; None unless every configured pipeline was."""
    done = {result.pipeline: result for result in results if not result.errors}
    if done.keys() < set(config.pipelines):
        return None
    return tuple(item.invariant for result in done.values() for item in result.verdicts)


def needless(config: Config, results: Sequence[CheckResult], day: datetime.date) -> tuple[str, ...]:
    """A note for every exception whose rules all held in a check of all pipelines: it may be deleted some day soon."""
    if checked_rules(config, results) is None:
        return ()
    verdicts = [item for result in results for item in result.verdicts]
    notes = []
    for entry in config.accept:
        found = [item.verdict for item in verdicts if matches(entry, item.invariant)]
        if entry.expires >= day and Verdict.HELD in found and not {Verdict.ACCEPTED, Verdict.VIOLATED} & set(found):
            notes.append(
                f"the accepted exception {entry.name!r} of {entry.owner} was not needed: what it excuses held; "
                "delete it when that is fixed"
            )
    return tuple(notes)
