"""A failed pipeline leaves a bundle, and the bundle shows the same incident without training."""

from __future__ import annotations

import datetime
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from recipes import RULES, Keep, recipe
from training_story import Loop, Recorder

from pytest_traincheck.bundle import MANIFEST, open_bundle
from pytest_traincheck.check.result import Outcome, Verdict
from pytest_traincheck.config import Accept
from pytest_traincheck.trace import load_run
from pytest_traincheck.trace.show import summarise
from pytest_traincheck.workflow.bundle import keep_bundle
from pytest_traincheck.workflow.replay import replay_bundle
from pytest_traincheck.workflow.runs import Workspace

LONG = Loop(steps=12, evaluate_after=(2, 5, 8, 11))
BROKEN = {
    "zero_grad": LONG.but(zero_grad="never"),
    "skipped step": LONG.but(skip_step=(3, 7)),
    "no scheduler": LONG.but(schedule="never"),
    "another learning rate": LONG.but(lr=0.02),
    "eval is train": LONG.but(eval_mode=False),
    "stays in eval": LONG.but(back_to_train=False),
    "never evaluates": LONG.but(evaluate_after=()),
    "clips late": LONG.but(clip_after_step=True),
    "stuck": LONG.but(stuck=("fc1.bias",)),
    "autocast": LONG.but(autocast="bfloat16"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_bundle_shows_the_top_incident(name: str, recorder: Recorder, keep: Keep, tmp_path: Path) -> None:
    result, bundle = keep(recorder.golden(LONG), BROKEN[name])
    assert result.outcome is Outcome.FAIL
    elsewhere = tmp_path / "elsewhere" / "any name"
    shutil.copytree(bundle, elsewhere)
    shutil.rmtree(tmp_path / "kept")

    replayed = replay_bundle(elsewhere)
    assert replayed.outcome is Outcome.FAIL
    assert replayed.incidents[0].id == result.incidents[0].id
    assert replayed.incidents[0].cause.title == result.incidents[0].cause.title
    # What a part of a run lacks is no incident of its own.
    assert {item.cause.invariant.id for item in replayed.incidents} <= {
        violation.invariant.id for item in result.incidents for violation in item.violations
    }
    assert len(replayed.verdicts) == len(result.verdicts)


def test_whole_steps_are_kept_and_little_beyond_the_first_violation(recorder: Recorder, keep: Keep) -> None:
    _, bundle = keep(recorder.golden(LONG), BROKEN["zero_grad"])
    with open_bundle(bundle) as opened:
        kept = opened.manifest.kept
        process = load_run(opened.trace).processes[0]
    assert (kept.last_step, kept.steps) == (2, 12)  # the violation is in step 1
    assert process.windows == 3
    assert kept.events == len(process.events) < kept.events_in_run / 3
    assert int(process.window.max()) == 2, "an event of the next step was kept"
    assert "3 of torch.optim.AdamW" in summarise(bundle / "candidate").replace("AdamW[Net]", "torch.optim.AdamW")


def test_rules_about_the_rest_of_the_run_are_set_aside(recorder: Recorder, keep: Keep) -> None:
    golden = recorder.golden(LONG)
    _, bundle = keep(golden, BROKEN["zero_grad"])
    replayed = replay_bundle(bundle)
    aside = [item for item in replayed.verdicts if item.verdict is Verdict.NOT_OBSERVABLE]
    with open_bundle(bundle) as opened:
        assert {item.invariant.id for item in aside} == set(opened.manifest.beyond)
    assert len(replayed.incidents) == 1


def test_all_ranks_are_kept(recorder: Recorder, keep: Keep) -> None:
    two = LONG.but(ranks=2, synced=True)
    result, bundle = keep(recorder.golden(two), two.but(clip_ranks=(0,)))
    with open_bundle(bundle) as opened:
        run = load_run(opened.trace)
        assert [process.rank for process in run.processes] == [0, 1]
        assert len({process.windows for process in run.processes}) == 1
    assert replay_bundle(bundle).incidents[0].id == result.incidents[0].id


def test_exceptions_in_force_then_are_in_force_again(recorder: Recorder, keep: Keep) -> None:
    golden = recorder.golden(LONG)
    plain, _ = keep(golden, LONG.but(zero_grad="never", lr=0.02))
    first = plain.incidents[0].cause.invariant
    excused = replace(RULES, accept=(Accept(first.id, "vision", "known", datetime.date(2026, 1, 2)),))
    result, bundle = keep(golden, LONG.but(zero_grad="never", lr=0.02), excused)
    assert result.incidents
    replayed = replay_bundle(bundle)
    # The day of the check counts, not that of the replay.
    assert Verdict.ACCEPTED in {item.verdict for item in replayed.verdicts if item.invariant.id == first.id}
    assert replayed.incidents[0].id == result.incidents[0].id


def test_a_bundle_of_an_earlier_failure_does_not_outlive_it(recorder: Recorder, keep: Keep) -> None:
    golden = recorder.golden(LONG)
    _, bundle = keep(golden, BROKEN["zero_grad"])
    assert bundle.is_dir()
    result, _ = keep(golden, LONG)
    assert result.outcome is Outcome.PASS
    assert not bundle.exists()


def test_what_is_no_bundle_is_not_removed(recorder: Recorder, keep: Keep, tmp_path: Path) -> None:
    mine = tmp_path / "kept" / "story" / "bundle"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("mine")
    result, _ = keep(recorder.golden(LONG), BROKEN["zero_grad"])
    assert (mine / "notes.txt").read_text() == "mine"
    assert "no bundle could be kept" in result.notes[-1]
    assert result.outcome is Outcome.FAIL


def test_nothing_is_kept_unasked_and_nothing_is_left_half_made(recorder: Recorder, keep: Keep, tmp_path: Path) -> None:
    golden = recorder.golden(LONG)
    result, bundle = keep(golden, BROKEN["zero_grad"])
    assert "traincheck replay" in result.notes[-1]
    assert sorted(path.name for path in bundle.parent.iterdir()) == ["bundle", "candidate"]
    unasked = keep_bundle(Workspace(tmp_path / "temporary", kept=False), result, golden, recipe())
    assert unasked == result
    assert not (tmp_path / "temporary").exists()


def test_an_incident_that_lies_beyond_is_named(recorder: Recorder, keep: Keep) -> None:
    both = LONG.but(zero_grad="never", eval_mode=False)
    result, bundle = keep(recorder.golden(LONG), both)
    replayed = replay_bundle(bundle)
    found = {incident.id for incident in replayed.incidents}
    missing = [incident for incident in result.incidents if incident.id not in found]
    for incident in missing:
        assert any(incident.cause.title.split("`")[1] in note for note in replayed.notes)
    assert (bundle / MANIFEST).is_file()
