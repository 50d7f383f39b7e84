"""Checks what a bundle holds: the same golden, the same trace, no training."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pytest_traincheck.bundle import Bundle, BundleError, open_bundle
from pytest_traincheck.check.result import CheckResult, Incident, Timing
from pytest_traincheck.text import one_line, plural
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.workflow.bundle_check import check_part
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.policy import Rules
from pytest_traincheck.workflow.replay_next_steps import replayed_commands
from pytest_traincheck.workflow.sufficiency import vacuous


def replay_bundle(path: Path, engine: Engine | None = None) -> CheckResult:
    """Check the trace of a bundle against its golden, under the exceptions that were in force then.

    Raises `BundleError` or `TraceError` for a bundle that cannot be used.
    """
    with open_bundle(path) as bundle:
        return replayed_commands(_checked(bundle, engine or default_engine()), bundle)


def _checked(bundle: Bundle, engine: Engine) -> CheckResult:
    manifest = bundle.manifest
    started = time.perf_counter()
    try:
        found = check_part(
            bundle.golden,
            engine.load_run(bundle.trace),
            same_spec=manifest.same_spec,
            beyond=frozenset(manifest.beyond),
            rules=Rules(manifest.accept, manifest.policy, manifest.today),
            engine=engine,
        )
    except TraceError as error:
        raise BundleError(
            f"The trace in the bundle {bundle.place} cannot be relied upon: "
            f"{str(error).replace(f'{bundle.trace}/', '').replace(str(bundle.trace), 'it')}"
        ) from error
    except Exception as error:
        # Every file is what the format allows, and yet they contradict each other.
        raise BundleError(
            f"The trace in the bundle {bundle.place} cannot be evaluated ({type(error).__name__}: {error}). "
            "It was changed or made by another version; if it is as it was written, report this as a bug."
        ) from error
    seconds = time.perf_counter() - started
    incidents = tuple(_with_diff(bundle, incident) for incident in found.judged.incidents)
    return CheckResult(
        manifest.spec.name,
        found.judged.verdicts,
        incidents,
        golden=manifest.golden,
        candidate=manifest.candidate,
        timing=Timing(check_s=seconds),
        notes=(_origin(bundle), *_differences(bundle, incidents), *found.judged.notes),
        modules=found.modules,
        portraits=found.portraits,
        renamed=found.renamed,
        errors=() if incidents else vacuous(found.judged.verdicts),
        coverage=found.coverage,
    )


def _with_diff(bundle: Bundle, incident: Incident) -> Incident:
    """The incident with the changed lines that were found when both trees were at hand."""
    diff = next((item.diff for item in bundle.reported if item.id in incident.ids), None)
    return replace(incident, diff=diff)


def _origin(bundle: Bundle) -> str:
    manifest, kept = bundle.manifest, bundle.manifest.kept
    extent = "the whole run" if kept.is_whole else f"steps 0 to {kept.last_step} of {kept.steps}"
    return one_line(
        f"replayed from a bundle of {manifest.made_by}: {extent}, {kept.events} of {kept.events_in_run} events; "
        f"candidate {manifest.candidate.commit[:12] or 'without a commit'}, golden "
        f"{manifest.golden.commit[:12] or 'without a commit'}"
    )


def _differences(bundle: Bundle, incidents: tuple[Incident, ...]) -> tuple[str, ...]:
    """What the report in the bundle says and this check does not."""
    found = {name for incident in incidents for name in incident.ids}
    lost = [item.title for item in bundle.reported if item.id in bundle.manifest.incidents and item.id not in found]
    later = [item.title for item in bundle.reported if item.id not in bundle.manifest.incidents]
    lines = []
    if lost:
        lines.append(f"{plural(len(lost), 'incident')} of its report did not come up again: {'; '.join(lost)}")
    if later:
        lines.append(f"{plural(len(later), 'incident')} of its report lies beyond the steps kept: {'; '.join(later)}")
    return tuple(map(one_line, lines))
