"""Count: a call that vanished, or came too often, is seen; helpers and logging are nobody's business."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from judgements import broken, describe, rule, sentences, titles, violations
from scaled_story import Scaled
from trace_builder import Layer, tensor
from training_story import BACKWARD, CLIP, DROPOUT, LINEAR, STEP_LR, F, Loop, Measured, Recorder, Story, Training

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Scope

ONCE = "`{}` is called exactly once in every training step."
DDP = "torch.nn.parallel.DistributedDataParallel"


def test_what_happens_once_a_step_is_learned(recorder: Recorder) -> None:
    golden = recorder.golden(Loop())
    for api in (BACKWARD, CLIP, "torch.optim.AdamW.step"):
        assert rule(golden, ONCE.format(api)).scope is Scope.TRANSFERABLE
    assert rule(golden, "`torch.nn.functional.dropout` is called at least once in every training step.").examples == 12


def test_removed_clipping_is_a_violation_of_the_first_step(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(clip=None))
    violation = broken(outcome, ONCE.format(CLIP))
    assert violation.step == 0
    assert violation.stage == "train"
    assert violation.candidate == "never called"
    assert "never calls it" in violation.title


def test_one_call_that_is_left_out_is_found_at_its_step(recorder: Recorder) -> None:
    def forgets_once(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            if step != 4:
                t.clip(optimizer)
            t.step(optimizer)
            t.schedule(optimizer)

    outcome = check_run(recorder.golden(Loop()), recorder.tell(forgets_once), same_spec=True)
    violation = broken(outcome, ONCE.format(CLIP))
    assert (violation.step, violation.source, violation.count) == (4, "train.py:15", 1)
    assert "does not call it in step 4" in violation.title


def test_a_second_backward_is_too_many(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(microbatches=2))
    assert "`backward` runs twice before step 0" in broken(outcome, ONCE.format(BACKWARD)).title


def test_accumulation_is_at_least_once_not_exactly_once(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(microbatches=3))
    assert f"`{BACKWARD}` is called at least once in every training step." in sentences(golden, "Count")
    assert not violations(recorder.check(golden, Loop(microbatches=2)), "Count")


def test_a_layer_that_left_the_model_is_named(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(layers=(LINEAR,)))
    violation = broken(outcome, f"`{F}dropout` is called at least once in every training step.")
    assert violation.invariant.subject == F + "dropout"


def test_more_layers_of_a_kind_are_a_legitimate_change(recorder: Recorder) -> None:
    assert not recorder.check(recorder.golden(Loop()), Loop(layers=(LINEAR, DROPOUT, DROPOUT))).incidents


def test_logging_and_shape_helpers_are_not_counted(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(logging=True))
    assert not [line for line in sentences(golden) if "norm`" in line or "item" in line or "mean`" in line]
    assert not recorder.check(golden, Loop()).incidents
    assert not recorder.check(recorder.golden(Loop()), Loop(logging=True)).incidents


def test_a_vanished_evaluation_is_seen(recorder: Recorder) -> None:
    outcome = recorder.check(recorder.golden(Loop()), Loop(evaluate_after=()))
    assert [item.invariant.subject for item in violations(outcome, "Count")] == ["torch.nn.Module.forward"]


def test_the_raw_module_instead_of_its_wrapper(recorder: Recorder) -> None:
    golden = recorder.golden(Loop(ranks=2, wrapper=DDP))
    outcome = recorder.check(golden, Loop(ranks=2))
    violation = broken(outcome, f"`{DDP}.forward` is called at least once in every training step.")
    assert "the raw module instead of its wrapper" in violation.title
    assert violation.ranks == (0, 1)


def test_a_failed_call_does_not_count(recorder: Recorder) -> None:
    def one_step_raises(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            if step == 2:
                t.step(optimizer, raised=True)
            t.step(optimizer)

    golden = learn([recorder.tell(one_step_raises), recorder.tell(one_step_raises, seed=1)], pipeline="story")
    assert rule(golden, ONCE.format("torch.optim.AdamW.step"))


def _gan(t: Training, *, both: bool = False) -> None:
    generator = t.model("Generator", {"g.weight": (3, 3)}, layers=())
    judge = t.model("Discriminator", {"d.weight": (5, 5)}, layers=())
    first = t.adamw(list(judge.parameters.values()))
    second = t.adamw(list(generator.parameters.values()))
    for _ in range(6):
        t.zero_grad(first)
        t.forward(judge)
        t.backward(judge)
        t.step(first)
        t.zero_grad(second)
        t.forward(generator)
        t.forward(judge)
        t.backward(generator, judge)
        t.step(second)
        if both:
            t.step(first)


def test_a_generator_step_that_also_steps_the_discriminator(recorder: Recorder) -> None:
    golden = learn([recorder.tell(_gan), recorder.tell(_gan, seed=1)], pipeline="gan")
    assert "After a backward pass only one optimizer steps." in sentences(golden, "Count")
    assert not check_run(golden, recorder.tell(_gan, seed=5), same_spec=True).incidents
    outcome = check_run(golden, recorder.tell(lambda t: _gan(t, both=True)), same_spec=True)
    violation = broken(outcome, "After a backward pass only one optimizer steps.")
    assert "`AdamW[Discriminator]` and `AdamW[Generator]`" in violation.title, describe(outcome.incidents)


def after_some(t: Training, *after: int, times: int = 1) -> None:
    """Eight steps; after some of them a scheduler steps, and the fourth clips."""
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))
    for step in range(8):
        t.zero_grad(optimizer)
        t.forward(net)
        t.backward(net)
        if step == 3:
            t.clip(optimizer)
        t.step(optimizer)
        for _ in range(times if step in after else 0):
            t.schedule(optimizer)


def test_an_occasional_scheduler_is_at_most_once_a_step(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: after_some(t, 1, 4, 7))
    name = "torch.optim.lr_scheduler.StepLR.step"
    assert {
        f"`{name}` is called at least once in every run.",
        f"`{name}` is called at most once in every training step.",
    } <= set(sentences(golden, "Count"))


def test_a_scheduler_that_a_short_run_sees_once(recorder: Recorder) -> None:
    """After the only epoch that another one follows."""
    golden = recorder.learn(lambda t: after_some(t, 3))
    found = [text for text in sentences(golden, "Count") if "at most once" in text]
    assert found == [f"`{STEP_LR}.step` is called at most once in every training step."], "and no clipping"
    assert not titles(recorder.judge(golden, lambda t: after_some(t, 3)), "Count")
    (title,) = titles(recorder.judge(golden, lambda t: after_some(t, 3, times=2)), "Count")
    assert title.endswith("the candidate calls it twice in step 4.")


def test_a_norm_measured_by_clipping_without_a_bound_is_no_clipping(recorder: Recorder) -> None:
    def measured(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.backward(net)
            with t.call(CLIP, type="clip", args={"max_norm": "inf", "norm_type": 2.0}, line=40):
                pass
            t.clip(optimizer)
            t.step(optimizer)

    plain = Loop(evaluate_after=(), schedule="never", loss=F + "mse_loss")
    outcome = check_run(recorder.golden(plain), recorder.tell(measured), same_spec=True)
    assert not [item for item in violations(outcome) if item.invariant.subject == CLIP]


MASKED = "A masking function (`masked_fill`, or attention with a mask) is called at least once in every training step."
ATTENTION = F + "scaled_dot_product_attention"


def masking(t: Training, function: str = "torch.Tensor.masked_fill", without: int = -1, **args: object) -> None:
    """A training whose model leaves something out of a computation, however it is spelled; no function: it does not,
    and neither in the step `without`.
    """

    def hide(step: int) -> None:
        if function and step != without:
            with t.call(function, args=args):
                pass

    Measured(forward=hide).tell(t)


OTHER_WORDS = "it may be written in other words, and no other rule shows an effect of it"


def why_held(outcome: CheckOutcome, sentence: str) -> str:
    """Why a rule that holds was not held to be broken; empty where it was not."""
    (verdict,) = [each for each in outcome.verdicts if each.invariant.sentence == sentence]
    assert verdict.verdict is Verdict.HELD
    return verdict.reason


def test_a_mask_that_is_nowhere_any_more_may_be_written_in_other_words(recorder: Recorder) -> None:
    """`torch.where`, a product, a sum or an index does the same, and nothing shows that none of them is there."""
    golden = recorder.learn(masking)
    assert MASKED in sentences(golden, "Count")
    outcome = recorder.judge(golden, lambda t: masking(t, ""))
    assert not outcome.incidents
    assert why_held(outcome, MASKED) == OTHER_WORDS


def test_a_mask_that_is_left_out_in_some_steps_is_not_written_in_other_words(recorder: Recorder) -> None:
    violation = broken(recorder.judge(recorder.learn(masking), lambda t: masking(t, without=3)), MASKED)
    assert violation.step == 3
    assert violation.title.endswith("the candidate does not call it in step 3.")


@pytest.mark.parametrize("args", [{"is_causal": True}, {"attn_mask": tensor(4, 4)}, {"key_padding_mask": tensor(4, 4)}])
def test_masks_of_another_spelling_are_masks(recorder: Recorder, args: dict[str, object]) -> None:
    golden = recorder.learn(masking)
    assert not why_held(recorder.judge(golden, lambda t: masking(t, ATTENTION, **args)), MASKED)


def test_attention_without_a_mask_masks_nothing(recorder: Recorder) -> None:
    def open_attention(t: Training) -> None:
        masking(t, ATTENTION, attn_mask=None, is_causal=False)

    assert why_held(recorder.judge(recorder.learn(masking), open_attention), MASKED) == OTHER_WORDS
    assert MASKED not in sentences(recorder.learn(open_attention))


# Models that are called part by part

FORWARD = "`torch.nn.Module.forward` of `Net` in training is called at least once in every training step."


def parts(t: Training, *, of: str = "parts", without: int = 99) -> None:
    """A model that is called whole, or by its encoder and decoder (`of`: whole, parts, both); `without`: the step in
    which it is not called whole, or not at all.
    """
    layers = (Layer("encoder", "torch.nn.Linear", F + "linear"), Layer("decoder", "torch.nn.Linear", F + "linear"))
    net = t.model(layers=layers)
    optimizer = t.adamw(list(net.parameters.values()))
    for step in range(6):
        t.zero_grad(optimizer)
        if of in ("parts", "both") and (step != without or of == "both"):
            for layer in net.layers:
                with t.call("torch.nn.Linear", type="module", module=layer.number, training=True, entry=True):
                    pass
        if of in ("whole", "both") and step != without:
            t.forward(net)
        t.loss()
        t.backward(net)
        t.step(optimizer)


def test_a_model_whose_parts_are_called_one_by_one_is_called(recorder: Recorder) -> None:
    golden = recorder.learn(parts)
    assert FORWARD in sentences(golden, "Count")
    for of in ("parts", "whole", "both"):
        assert not violations(recorder.judge(golden, lambda t, of=of: parts(t, of=of)), "Count"), of
    assert not violations(recorder.judge(recorder.learn(lambda t: parts(t, of="whole")), parts), "Count")


def test_a_step_in_which_no_part_is_called(recorder: Recorder) -> None:
    assert broken(recorder.judge(recorder.learn(parts), lambda t: parts(t, without=3)), FORWARD).step == 3


def test_a_part_beside_the_whole_model_is_no_forward_pass(recorder: Recorder) -> None:
    """A decoder that is sampled from in every step does not stand for its model."""
    golden = recorder.learn(lambda t: parts(t, of="both"))
    assert broken(recorder.judge(golden, lambda t: parts(t, of="both", without=3)), FORWARD).step == 3


# Steps that are never taken


def stepping(t: Training, *, steps: bool = True) -> None:
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))
    t.mode(net, True)
    for _ in range(6):
        t.zero_grad(optimizer)
        t.batch()
        t.forward(net)
        t.loss()
        t.backward(net)
        if steps:
            t.step(optimizer)


def test_a_training_that_takes_no_step(recorder: Recorder) -> None:
    """Windows end with steps, so that there is none in which a step could be missed."""
    outcome = recorder.judge(recorder.learn(stepping), lambda t: stepping(t, steps=False))
    (incident,) = outcome.incidents
    assert incident.cause.title == (
        "`torch.optim.AdamW.step` was called at least once in every golden run; the candidate never calls it."
    )


# Gradient scalers


def scaled(t: Training, *, steps: bool = True, scaler: bool = True) -> None:
    """A training in which a gradient scaler takes the steps, or skips them all."""
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))
    for _ in range(6):
        t.zero_grad(optimizer)
        t.forward(net)
        t.loss()
        t.backward(net)
        if scaler:
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                if steps:
                    t.step(optimizer)


def test_a_scaler_that_skips_every_step_is_named(recorder: Recorder) -> None:
    golden = recorder.learn(scaled)
    sentence = "`torch.optim.AdamW.step` is called at least once in every run."
    assert sentence in sentences(golden, "Count")
    assert broken(recorder.judge(golden, lambda t: scaled(t, steps=False)), sentence).title == (
        "`torch.optim.AdamW.step` was called at least once in every golden run; the candidate never calls it: "
        "`torch.amp.GradScaler` skips every step, as it does while scaled gradients overflow."
    )
    # Without a scaler nobody skips anything.
    title = broken(recorder.judge(golden, lambda t: scaled(t, scaler=False)), sentence).title
    assert title.endswith("golden run; the candidate never calls it.")


SCHEDULED = f"`{STEP_LR}.step` is called exactly once in every training step."


def overflows(seed: int, iteration: int) -> bool:
    return iteration in (0, 2 + seed)


@pytest.mark.parametrize("guarded", [False, True], ids=["always", "only after a step"])
def test_a_scheduler_beside_a_scaler_that_skips_is_counted_where_none_is_skipped(
    recorder: Recorder, guarded: bool
) -> None:
    usual = Scaled(overflows, guarded=guarded)
    golden = recorder.learn(usual.tell)
    assert SCHEDULED in sentences(golden, "Count")
    # What can be written in other words is looked for in the whole run: only its first steps can be compared.
    assert not [text for text in sentences(golden, "Count") if "at least once in every training step" in text]
    for fine in (usual, Scaled(lambda _seed, iteration: iteration == 5, guarded=guarded), Scaled(guarded=guarded)):
        assert not titles(recorder.judge(golden, fine.tell), "Count")
    twice = recorder.judge(golden, Scaled(overflows, lambda _iteration: 2, guarded=guarded).tell)
    assert broken(twice, SCHEDULED).candidate == "called twice"
    seldom = recorder.judge(golden, Scaled(overflows, lambda iteration: (iteration + 1) % 2, guarded=guarded).tell)
    assert broken(seldom, SCHEDULED).candidate == "not called in this step"


def test_a_guard_is_no_fault_where_golden_never_overflowed(recorder: Recorder) -> None:
    golden = recorder.learn(Scaled(guarded=True).tell)
    assert not titles(recorder.judge(golden, Scaled(overflows, guarded=True).tell), "Count")


def test_a_scheduler_beside_a_scaler_that_vanished(recorder: Recorder) -> None:
    golden = recorder.learn(Scaled(overflows).tell)
    outcome = recorder.judge(golden, Scaled(overflows, lambda _iteration: 0).tell)
    (incident,) = outcome.incidents
    assert incident.cause.title == (
        f"`{STEP_LR}.step` was called at least once in every golden run; the candidate never calls it."
    )


def test_a_step_that_nothing_came_before_is_one_incident(recorder: Recorder) -> None:
    """`optimizer.step()` stands there twice: its window has no backward pass, no batch and no forward pass."""
    outcome = recorder.judge(recorder.learn(Scaled().tell), Scaled(extra=3).tell)
    (incident,) = [item for item in outcome.incidents if item.cause.invariant.relation == "Count"]
    assert incident.cause.invariant.subject == "torch.autograd.backward"
    assert len(incident.consequences) > 2


def of_ranks(*restores: bool) -> Callable[[Training], None]:
    """A run of several ranks, some of which load a checkpoint in the end."""

    def tell(t: Training) -> None:
        Loop().tell(t)
        if restores[t.rank]:
            with t.call(RESTORED, type="mode", args={}):
                pass

    return tell


RESTORED = "torch.nn.Module.load_state_dict"
BY_ONE = f"`{RESTORED}` is called at least once in every run, by at least one rank."


def test_what_one_rank_alone_does(recorder: Recorder) -> None:
    golden = learn([recorder.tell(of_ranks(True, False), ranks=2) for _ in range(2)], pipeline="story", seeds=(0, 1))
    assert rule(golden, BY_ONE).scope is Scope.PINNED
    for fine in (of_ranks(True, False), of_ranks(False, True), of_ranks(True, True)):
        assert not violations(check_run(golden, recorder.tell(fine, ranks=2), same_spec=True))
    outcome = check_run(golden, recorder.tell(of_ranks(False, False), ranks=2), same_spec=True)
    assert broken(outcome, BY_ONE).title == (
        f"`{RESTORED}` was called at least once in every golden run; the candidate never calls it."
    )
    single = check_run(golden, recorder.tell(of_ranks(False)), same_spec=True)
    assert BY_ONE not in [item.invariant.sentence for item in single.verdicts if item.verdict is Verdict.VIOLATED]


def test_what_all_ranks_do_is_asked_of_each(recorder: Recorder) -> None:
    golden = learn([recorder.tell(of_ranks(True, True), ranks=2) for _ in range(2)], pipeline="story", seeds=(0, 1))
    assert BY_ONE not in sentences(golden)
    assert violations(check_run(golden, recorder.tell(of_ranks(True, False), ranks=2), same_spec=True))


REDUCE, GATHER = "torch.distributed.all_reduce", "torch.distributed.all_gather"


def exchanging(*, hidden: bool = False, exchanges: bool = True, gathers: bool = True) -> Callable[[Training], None]:
    """Gradients are exchanged in every step and a metric after every evaluation, perhaps in a method that is `hidden`
    below `no_grad`.
    """

    def exchange(t: Training, api: str) -> None:
        with t.context(grad=not hidden), t.call(api, type="collective", args={"group": {"tuple": [0]}}, line=13):
            pass

    def trains(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            if exchanges:
                exchange(t, REDUCE)
            t.step(optimizer)
            if step % 3 == 2:
                t.mode(net, training=False)
                with t.no_grad():
                    t.forward(net, line="evaluate")
                if gathers:
                    exchange(t, GATHER)
                t.mode(net, training=True)

    return trains


def test_a_collective_below_no_grad_is_called_as_well(recorder: Recorder) -> None:
    golden = learn([recorder.tell(exchanging(), seed=seed) for seed in range(3)], pipeline="net")
    assert rule(golden, f"`{REDUCE}` is called at least once in every training step.")
    outcome = check_run(golden, recorder.tell(exchanging(hidden=True)), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


@pytest.mark.parametrize("hidden", [False, True])
def test_gradients_that_are_no_longer_exchanged_are_missed_though_a_metric_is(recorder: Recorder, hidden: bool) -> None:
    golden = learn([recorder.tell(exchanging(hidden=hidden), seed=seed) for seed in range(3)], pipeline="net")
    outcome = check_run(golden, recorder.tell(exchanging(exchanges=False)), same_spec=True)
    assert any(f"`{REDUCE}`" in violation.title for violation in violations(outcome, "Count"))


def spread(*, exchanged_each_time: bool) -> Story:
    """Two backward passes a step over parameters of which ranks hold parts; where ranks exchange gradients in the
    second pass alone, what the first computes is kept elsewhere.
    """

    def story(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(4):
            t.zero_grad(optimizer)
            for without in (() if exchanged_each_time else tuple(net.parameters), ()):
                t.forward(net)
                for parameter in net.parameters.values() if step == 0 and not without else ():
                    t.measure("parameter.placed=Shard(0)", variable=parameter.variable)
                t.loss()
                t.backward(net, without=without)
            t.step(optimizer)

    return story


def test_a_pass_whose_gradients_are_exchanged_later_counts(recorder: Recorder) -> None:
    golden = recorder.learn(spread(exchanged_each_time=False), ranks=2)
    assert "`torch.autograd.backward` is called exactly once in every training step." not in sentences(golden)
    outcome = recorder.judge(golden, spread(exchanged_each_time=True), ranks=2)
    assert not titles(outcome, "Count")
