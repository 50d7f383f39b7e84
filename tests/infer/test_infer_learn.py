"""Learning: what held in every golden run, and nothing else; the same bytes every time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from judgements import rule, sentences
from trace_builder import tensor
from training_story import BACKWARD, CLIP, DROPOUT, LINEAR, PARAMETERS, F, Loop, Recorder, Training

from pytest_traincheck.golden.encode import encode
from pytest_traincheck.infer import learn
from pytest_traincheck.infer.candidates import pins
from pytest_traincheck.relations import relations
from pytest_traincheck.rules.conditions import Clause, Same
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace import Run, load_run

BACKWARD_ONCE = f"`{BACKWARD}` is called exactly once in every training step."
CLIP_ONCE = f"`{CLIP}` is called exactly once in every training step."


def test_no_run_is_an_error() -> None:
    with pytest.raises(ValueError, match="no golden run to learn from; run the pipeline at least once"):
        learn([], pipeline="nothing")


def test_the_same_runs_give_the_same_bytes(recorder: Recorder) -> None:
    runs = [recorder.record(Loop(seed=seed)) for seed in (0, 1)]
    files: list[bytes] = []
    for _ in range(2):
        # Read again, so that nothing is remembered from the first time.
        golden = learn([load_run(run.path) for run in runs], pipeline="story", seeds=(0, 1))
        files.append(encode(golden))
    assert files[0] == files[1]


def test_other_seeds_claim_the_same(recorder: Recorder) -> None:
    first, second = recorder.golden(Loop(), seeds=(0, 1)), recorder.golden(Loop(), seeds=(5, 6))
    assert {item.id for item in first.invariants} == {item.id for item in second.invariants}


def test_each_claim_is_kept_once(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ranks=2))
    identities = [item.id for item in golden.invariants]
    assert len(set(identities)) == len(identities)


def test_what_fails_under_one_seed_is_dropped(recorder: Recorder) -> None:
    both = learn([recorder.record(Loop()), recorder.record(Loop(seed=1, clip=None))], pipeline="story")
    assert CLIP_ONCE not in sentences(both)
    assert BACKWARD_ONCE in sentences(both)
    other = learn([recorder.record(Loop(seed=1, clip=None)), recorder.record(Loop())], pipeline="story")
    assert CLIP_ONCE not in sentences(other)


def test_what_depends_on_chance_is_no_rule(recorder: Recorder) -> None:
    """A rule must come up in every run: here an evaluation happens under one seed only."""
    golden = learn([recorder.record(Loop()), recorder.record(Loop(seed=1, evaluate_after=()))], pipeline="story")
    assert not [line for line in sentences(golden) if "in evaluation" in line or "in eval`" in line]


def test_support_is_counted(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(steps=4), seeds=(0, 1, 2))
    invariant = rule(golden, BACKWARD_ONCE)
    assert (invariant.examples, invariant.runs, golden.runs) == (12, 3, 3)


def test_a_clause_needs_more_support_than_none(recorder: Recorder) -> None:
    def short(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(2):
            t.forward(net)
            t.loss(reduction="sum" if step else "mean")
            t.backward(net)
            t.step(optimizer)

    golden = learn([recorder.tell(short)], pipeline="short")
    assert BACKWARD_ONCE in sentences(golden)
    within_training = (Clause("stage", ("train",)),)
    conditional = [item for item in golden.invariants if item.when not in ((), within_training)]
    assert not conditional, sentences(golden)
    assert not [line for line in sentences(golden) if "reduction" in line]


def test_a_varied_run_removes_transferable_rules_only(recorder: Recorder) -> None:
    runs = [recorder.record(Loop(seed=seed)) for seed in (0, 1)]
    alone = learn(runs, pipeline="story")
    varied = learn(runs, pipeline="story", varied=[recorder.record(Loop(microbatches=2, lr=0.5, clip=7.0))])
    assert BACKWARD_ONCE in sentences(alone)
    assert BACKWARD_ONCE not in sentences(varied)
    assert f"`{BACKWARD}` is called at least once in every training step." in sentences(varied)
    for invariant in alone.invariants:
        if invariant.scope is Scope.PINNED:
            assert invariant.id in {item.id for item in varied.invariants}, invariant.sentence
    assert (varied.runs, rule(varied, CLIP_ONCE).runs) == (3, 2)


def test_rules_about_names_are_pinned(recorder: Recorder) -> None:
    for invariant in recorder.golden(Loop(ema=True, ranks=2)).invariants:
        named = [clause for clause in invariant.when if pins(clause)]
        if named or "`Net" in invariant.sentence or "[Net]" in invariant.sentence:
            assert invariant.scope is Scope.PINNED, invariant.sentence


def test_a_golden_describes_its_models_and_optimizers(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    assert golden.models == {"Net": {"fc1.bias": [4], "fc1.weight": [4, 3], "fc2.weight": [2, 4]}}
    assert list(golden.optimizers) == ["AdamW[Net]"]
    assert golden.optimizers["AdamW[Net]"]["class"] == "torch.optim.AdamW"
    assert golden.optimizers["AdamW[Net]"]["parameters"] == 3


def test_every_sentence_is_a_sentence(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ranks=2, ema=True, buffers=("norm.running_mean",), autocast="bfloat16"))
    assert len(golden.invariants) > 30
    for line in sentences(golden):
        assert line[0].isupper() or line[0] == "`", line
        assert line.endswith("."), line
        assert "{" not in line, line
        assert "None" not in line or f"`{F}" in line, line


def _calls_of_learning(run: Run) -> int:
    """Python calls of our own package that learning makes: work, measured without a clock."""
    count = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        if event == "call" and "pytest_traincheck" in frame.f_code.co_filename:
            count += 1

    relations()
    sys.setprofile(profile)
    try:
        learn([run], pipeline="story")
    finally:
        sys.setprofile(None)
    return count


def test_work_grows_no_faster_than_the_trace(recorder: Recorder) -> None:
    """Twice the steps may cost twice the calls, not four times: quadratic work would show as a ratio of four."""
    loops = [Loop(steps=steps, factor=1.0, evaluate_after=()) for steps in (60, 120)]
    short, long = (_calls_of_learning(recorder.record(loop)) for loop in loops)
    assert long < 2.2 * short


def test_a_transferable_rule_that_needs_a_name_becomes_pinned(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(unreached=("fc2.weight",)))
    received = [item for item in golden.invariants if getattr(item.claim, "change", "") == "received"]
    assert [item.scope for item in received] == [Scope.PINNED]
    assert "fc1" in received[0].sentence


def test_dropout_outside_every_model_is_on_in_evaluation_too(recorder: Recorder) -> None:
    """A disjunction, of which one alternative says that something does not exist; neither names the model."""

    def augmented(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(4):
            t.mode(net, True)
            t.forward(net)
            _functional_dropout(t)
            t.loss()
            t.backward(net)
            t.step(optimizer)
            t.mode(net, False)
            if step < 3:
                with t.no_grad():
                    t.forward(net)
                    _functional_dropout(t)

    golden = learn([recorder.tell(augmented, seed=seed) for seed in (0, 1)], pipeline="augmented")
    always_on = [
        item for item in golden.invariants if getattr(item.claim, "value", "") == "True" and "dropout" in item.subject
    ]
    assert sorted(item.sentence for item in always_on) == [
        f"`{F}dropout` is called with training=True, in training.",
        f"`{F}dropout` is called with training=True, outside every model.",
    ]
    assert {item.scope for item in always_on} == {Scope.TRANSFERABLE}


def _functional_dropout(t: Training) -> None:
    with t.call(F + "dropout", args={"input": tensor(8, 4), "p": 0.1, "training": True}, returns=tensor(8, 4)):
        pass


def test_a_token_without_a_gradient_does_not_pin_the_rule(recorder: Recorder) -> None:
    """Only the mask token, a parameter of the model itself, is unused: the rule speaks of all layers by no name."""
    parameters = {**PARAMETERS, "mask_token": (4,), "norm.bias": (4,), "norm.weight": (4,)}
    golden = recorder.golden(Loop(parameters=parameters, layers=(LINEAR, DROPOUT), unreached=("mask_token",)))
    received = [item for item in golden.invariants if getattr(item.claim, "change", "") == "received"]
    assert [(item.scope, item.when) for item in received] == [
        (Scope.TRANSFERABLE, (Same("child", "root", negated=True),))
    ]
    assert received[0].sentence.endswith("every parameter it holds has received a gradient, in a part of the model.")


def test_a_simpler_claim_is_better_than_alternatives(recorder: Recorder) -> None:
    """The count may be said less strictly, so its precondition is no exception "in the first step on other ranks"."""

    def uneven(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(8):
            t.forward(net)
            t.loss()
            t.backward(net)
            for _ in range(2 if t.rank and not step else 1):
                t.clip(optimizer)
            t.step(optimizer)

    golden = learn([recorder.tell(uneven, seed=seed, ranks=2) for seed in (0, 1)], pipeline="uneven")
    counts = [line for line in sentences(golden, "Count") if CLIP in line]
    assert counts == [f"`{CLIP}` is called exactly once in every training step, from the second step on."]


def test_the_order_of_the_relations_decides_nothing(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rules say nothing new where another relation has a stronger one, whichever of them is asked first."""
    runs = [recorder.record(Loop(seed=seed)) for seed in (0, 1)]
    known = relations()
    found = []
    for names in (sorted(known), sorted(known, reverse=True)):
        table = {name: known[name] for name in names}
        monkeypatch.setattr(sys.modules["pytest_traincheck.infer.learn"], "relations", lambda table=table: table)
        found.append(learn(runs, pipeline="story").invariants)
    assert found[0] == found[1]
