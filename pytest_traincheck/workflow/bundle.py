"""Keeps a bundle of a failed pipeline: so much of the candidate's trace that it shows the first incident."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_traincheck import __version__
from pytest_traincheck.alignment.align import align
from pytest_traincheck.bundle import BundleError, Manifest, discard_bundle, write_bundle
from pytest_traincheck.bundle import manifest as layout
from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.report.json_report import write_json
from pytest_traincheck.trace.slice import borders, write_slice
from pytest_traincheck.workflow.bundle_check import PartialCheck, broken_ids, check_part
from pytest_traincheck.workflow.engine import Engine, default_engine
from pytest_traincheck.workflow.policy import Rules
from pytest_traincheck.workflow.runs import CANDIDATE, Workspace

if TYPE_CHECKING:
    from pytest_traincheck.trace import Run

BUNDLE = "bundle"
"""Name of the bundle's directory, beside the runs that are kept."""


@dataclass(frozen=True)
class Recipe:
    """How the candidate was checked, beside the golden and the trace."""

    spec: PipelineSpec
    same_spec: bool
    rules: Rules


def keep_bundle(
    space: Workspace, result: CheckResult, golden: Golden | None, recipe: Recipe, engine: Engine | None = None
) -> CheckResult:
    """Leave a bundle beside the runs when the pipeline failed and the user keeps them; the result says where.

    The bundle of an earlier check is removed in any case. What goes wrong here is a note: the verdict stands without.
    """
    if not space.kept:
        return result
    directory = space.path / BUNDLE
    try:
        discard_bundle(directory)
        if golden is None or result.errors or not result.incidents:
            return result
        _keep(directory, space.path / CANDIDATE, result, golden, recipe, engine or default_engine())
    except BundleError as error:
        return replace(result, notes=(*result.notes, str(error)))
    except Exception as error:  # noqa: BLE001 - a help to the reader of a failure must not take the failure's place
        note = f"no bundle could be kept in {directory}: {type(error).__name__}: {error}"
        return replace(result, notes=(*result.notes, note))
    note = f"kept what `traincheck replay {_short(directory)}` needs to show this again, on any machine"
    return replace(result, notes=(*result.notes, note))


def _short(path: Path) -> Path:
    """A path as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _keep(directory: Path, trace: Path, result: CheckResult, golden: Golden, recipe: Recipe, engine: Engine) -> None:
    run = engine.load_run(trace)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{BUNDLE}-") as name:
        content = Path(name).resolve()
        for number, part in enumerate(_parts(run, golden, result)):
            target = content / str(number) / layout.CANDIDATE
            events = write_slice(run, part.borders, target)
            kept = layout.Slice(part.last_step, part.steps, events, run.events)
            shown, beyond = _shown(golden, engine.load_run(target), result, recipe, engine)
            ids = tuple(incident.id for incident in shown.judged.incidents)
            # A rule may look back on all that was before, so what the part shows is tried, not assumed.
            if ids[:1] == (result.incidents[0].id,):
                break
        else:
            raise BundleError(
                f"The bundle {directory} was not written: a check of what it would hold does not show the first "
                "incident. The whole trace lies beside it; please report this as a bug of pytest-traincheck."
            )
        store.write(target.parent / layout.GOLDEN, golden)
        write_json(target.parent / layout.REPORT, [result])

        def manifest(files: dict[str, layout.File]) -> Manifest:
            return Manifest(
                made_by=f"pytest-traincheck {__version__}",
                spec=recipe.spec,
                same_spec=recipe.same_spec,
                golden=result.golden,
                candidate=result.candidate,
                kept=kept,
                incidents=ids,
                beyond=tuple(sorted(beyond)),
                accept=recipe.rules.accept,
                policy=recipe.rules.policy,
                today=recipe.rules.today,
                files=files,
            )

        write_bundle(directory, target.parent, manifest)


@dataclass(frozen=True)
class _Part:
    """The beginning of a run, to the end of a step."""

    last_step: int
    steps: int
    borders: tuple[int | None, ...]


def _parts(run: Run, golden: Golden, result: CheckResult) -> Iterator[_Part]:
    """From one step beyond the first violation, in growing steps, to the whole run."""
    # Steps are counted as the golden counts them.
    aligned = align(golden, run).run
    steps = max(process.windows for process in aligned.processes)
    more = 1
    while (last := result.incidents[0].cause.step + more) < steps:
        yield _Part(last, steps, borders(aligned, last))
        more *= 2
    yield _Part(steps, steps, (None,) * len(run.processes))


def _shown(
    golden: Golden, part: Run, result: CheckResult, recipe: Recipe, engine: Engine
) -> tuple[PartialCheck, frozenset[str]]:
    """What a check of a part finds, and the rules that look broken only because it is a part."""

    def check(beyond: frozenset[str]) -> PartialCheck:
        return check_part(golden, part, same_spec=recipe.same_spec, beyond=beyond, rules=recipe.rules, engine=engine)

    found = check(frozenset())
    beyond = broken_ids(found.judged.verdicts) - broken_ids(result.verdicts)
    return (check(beyond), beyond) if beyond else (found, beyond)
