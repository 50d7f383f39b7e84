"""LossTerms: every term of the loss carries gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from judgements import rule, sentences, titles, violations
from trace_builder import Model
from training_story import PARAMETERS, Measured, Recorder, Training
from unrolled_story import Unrolled

from pytest_traincheck.rules.model import Scope

TWO = "The loss is a sum of at least 2 terms that have gradients."


def summing(t: Training, coarse: int = 2, fine: int | None = None, *, measured: bool = True) -> None:
    """A training whose loss has so many terms, and so many when sums over elements are looked through."""

    def measure(_step: int) -> None:
        if measured:
            t.measure("loss.terms", float(coarse))
            t.measure("loss.terms.fine", float(coarse if fine is None else fine))

    Measured(backward=measure).tell(t)


def test_two_terms(recorder: Recorder) -> None:
    golden = recorder.learn(summing)
    assert sentences(golden, "LossTerms") == [TWO]
    assert {item.scope for item in golden.invariants if item.relation == "LossTerms"} == {Scope.PINNED}
    assert not titles(recorder.judge(golden, summing), "LossTerms")


def test_a_detached_term(recorder: Recorder) -> None:
    """`loss = task + 0.1 * penalty.detach()` is the same number with half the gradients."""
    outcome = recorder.judge(recorder.learn(lambda t: summing(t, 3)), lambda t: summing(t, 1))
    assert titles(outcome, "LossTerms") == [
        "In the golden run the loss was a sum of at least 3 terms that have gradients; in the candidate 1 has: a "
        "term is detached or missing."
    ]
    outcome = recorder.judge(recorder.learn(lambda t: summing(t, 3)), lambda t: summing(t, 2))
    assert "in the candidate 2 have: a term" in titles(outcome, "LossTerms")[0]


def test_one_mean_over_a_sum_in_place_of_a_sum_of_means(recorder: Recorder) -> None:
    """`(a + b).mean()` is `a.mean() + b.mean()`: one number goes into `backward`, and both terms are in it."""
    golden = recorder.learn(lambda t: summing(t, 2))
    assert not titles(recorder.judge(golden, lambda t: summing(t, 1, fine=2)), "LossTerms")
    # The other way round golden knows of one term only, and claims nothing.
    assert not sentences(recorder.learn(lambda t: summing(t, 1, fine=2)), "LossTerms")


def test_more_terms_are_no_violation(recorder: Recorder) -> None:
    assert not titles(recorder.judge(recorder.learn(summing), lambda t: summing(t, 5)), "LossTerms")


def test_a_single_term_and_terms_that_come_and_go_are_no_rule(recorder: Recorder) -> None:
    assert not sentences(recorder.learn(lambda t: summing(t, 1)), "LossTerms")
    # The fewest that some golden run had are no bound for the next.
    assert not sentences(recorder.learn(lambda t: summing(t, 2 + t.seed)), "LossTerms")


def over_a_sequence(
    length: Callable[[int], int], *, more: int = 0, fed_back: bool = True
) -> Callable[[Training], None]:
    """A loss with a term for each element of a sequence, over which a model is unrolled, and so many besides."""

    def measure(t: Training, elements: int) -> None:
        measured(t, elements + more)

    return Unrolled(length, fed_back, measure, evaluations=7).tell


def test_a_term_for_each_element_of_a_sequence(recorder: Recorder) -> None:
    """How long it is, is up to the data, though all batches of all golden runs were as long."""
    golden = recorder.learn(over_a_sequence(lambda _step: 5))
    assert not sentences(golden, "LossTerms")
    golden = recorder.learn(over_a_sequence(lambda _step: 5, more=1))
    assert sentences(golden, "LossTerms") == [TWO]
    assert not titles(recorder.judge(golden, over_a_sequence(lambda step: 5 - (step > 2), more=1)), "LossTerms")
    assert titles(recorder.judge(golden, over_a_sequence(lambda _step: 1)), "LossTerms")
    # Five calls that are given nothing of one another have a term each.
    golden = recorder.learn(over_a_sequence(lambda _step: 5, fed_back=False))
    assert sentences(golden, "LossTerms") == [TWO.replace("2", "5")]


def test_two_backward_passes_in_a_step_have_losses_of_their_own(recorder: Recorder) -> None:
    """A critic's loss is the sum of two, a generator's is one."""

    def adversarial(t: Training, critic_terms: int = 2) -> None:
        generator, critic = t.model("Generator"), t.model("Critic")
        first, second = t.adamw(list(critic.parameters.values())), t.adamw(list(generator.parameters.values()))
        for _ in range(6):
            for optimizer, model, terms in ((first, critic, critic_terms), (second, generator, 1)):

                def measure(terms: int = terms) -> None:
                    t.measure("loss.terms", float(terms))
                    t.measure("loss.terms.fine", float(terms))

                t.zero_grad(optimizer)
                t.forward(model)
                t.loss()
                t.backward(model, within=measure)
                t.step(optimizer)

    golden = recorder.learn(adversarial)
    assert sentences(golden, "LossTerms") == [TWO.replace(".", ", at the first backward pass of a step.")]
    assert not titles(recorder.judge(golden, adversarial), "LossTerms")
    assert titles(recorder.judge(golden, lambda t: adversarial(t, critic_terms=1)), "LossTerms")


def passes(t: Training, *losses: tuple[int, str, str]) -> None:
    """A training that goes backward from each of these losses, their terms, reach and means, before it steps."""
    rest = [loss for _ in range(6) for loss in losses]

    def measure(_step: int) -> None:
        terms, reach, means = rest.pop(0)
        t.measure("loss.terms", float(terms))
        t.measure("loss.terms.fine", float(terms))
        t.measure(f"loss.reach={reach}")
        t.measure(f"loss.means={means}")

    Measured(backward=measure, microbatches=len(losses)).tell(t)


WHOLE = (3, "2 (16 elements); 3 (24 elements)", "8, 8, 64")
DISTANCE, PENALTY = (2, "2 (16 elements)", "8, 8"), (1, "3 (24 elements)", "64")


def test_terms_that_go_backward_one_after_the_other(recorder: Recorder) -> None:
    """The distance first, and the penalty when its graph is gone: the gradients are the same sum."""
    golden = recorder.learn(lambda t: passes(t, WHOLE))
    assert len(sentences(golden, "LossTerms")) == 3
    assert not titles(recorder.judge(golden, lambda t: passes(t, DISTANCE, PENALTY)), "LossTerms")


def test_a_term_that_goes_backward_never(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: passes(t, WHOLE))
    assert len(titles(recorder.judge(golden, lambda t: passes(t, DISTANCE)), "LossTerms")) == 2


def test_micro_batches_are_looked_at_each(recorder: Recorder) -> None:
    """One of four that lost a term does not hide among the others."""
    golden = recorder.learn(lambda t: passes(t, WHOLE, WHOLE, WHOLE, WHOLE))
    assert titles(recorder.judge(golden, lambda t: passes(t, WHOLE, WHOLE, DISTANCE, WHOLE)), "LossTerms")


def test_a_candidate_in_which_nothing_was_counted(recorder: Recorder) -> None:
    golden = recorder.learn(summing)
    assert not titles(recorder.judge(golden, lambda t: summing(t, measured=False)), "LossTerms")


# Where the terms send gradients, and over what is averaged

REACH = "loss.reach=2 (16 elements); 3 (24 elements)"
MEANS = "loss.means=8, 64"


def noting(t: Training, *names: str, late: bool = True, model: Model | None = None) -> None:
    """A training in which so much is found behind the loss; `late`: not only in the first two steps."""

    def measure(step: int) -> None:
        for name in names:
            if late or step < 2:
                t.measure(name)

    Measured(backward=measure, model=model).tell(t)


def test_where_the_terms_send_gradients(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: noting(t, REACH, late=False))
    sentence = "The terms of the loss send gradients to sets of parameters with 16 and 24 elements."
    assert sentences(golden, "LossTerms") == [sentence]
    assert rule(golden, sentence).scope is Scope.PINNED
    assert not titles(recorder.judge(golden, lambda t: noting(t, REACH, late=False)), "LossTerms")


def test_a_detach_that_is_missing(recorder: Recorder) -> None:
    """As many terms, and one of them reaches a network that it should leave alone."""
    golden = recorder.learn(lambda t: noting(t, REACH))
    outcome = recorder.judge(golden, lambda t: noting(t, "loss.reach=3 (24 elements); 5 (40 elements)"))
    assert titles(outcome, "LossTerms") == [
        "In the golden run the terms of the loss sent gradients to sets of parameters with 16 and 24 elements; in "
        "the candidate to sets of parameters with 24 and 40 elements: a `detach` is missing or misplaced, or the "
        "loss is made of different terms."
    ]
    assert violations(outcome, "LossTerms")[0].step == 0


def test_a_model_of_another_size_is_no_detach(recorder: Recorder) -> None:
    """One layer more has more elements, to which the same terms send gradients."""
    golden = recorder.learn(lambda t: noting(t, "loss.reach=3 (24 elements)"))

    def larger(t: Training) -> None:
        t.model("Frozen", {"weight": (2, 2)}, frozen=("weight",))
        noting(t, "loss.reach=5 (52 elements)", model=t.model("Net", {**PARAMETERS, "fc3.weight": (7, 4)}))

    assert titles(recorder.judge(golden, larger), "LossTerms") == [
        "In the golden run the terms of the loss sent gradients to parameters with 24 elements; in the candidate to "
        "parameters with 52 elements: `Net` has parameters with 52 elements instead of 24."
    ]


def test_projections_that_lie_in_one_matrix(recorder: Recorder) -> None:
    """`nn.MultiheadAttention` holds in one parameter what an attention of our own holds in three."""
    golden = recorder.learn(lambda t: noting(t, REACH))
    assert not titles(
        recorder.judge(golden, lambda t: noting(t, "loss.reach=1 (16 elements); 1 (24 elements)")), "LossTerms"
    )


def test_over_how_many_elements_means_go(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: noting(t, MEANS))
    assert sentences(golden, "LossTerms") == ["The means in the loss go over 8, 64 elements."]
    assert not titles(recorder.judge(golden, lambda t: noting(t, MEANS)), "LossTerms")


def test_shapes_that_were_broadcast(recorder: Recorder) -> None:
    """`(values.unsqueeze(1) - returns) ** 2` is a table in place of a column; its mean is a number all the same."""
    outcome = recorder.judge(recorder.learn(lambda t: noting(t, MEANS)), lambda t: noting(t, "loss.means=64, 64"))
    assert titles(outcome, "LossTerms") == [
        "In the golden run the means in the loss went over 8, 64 elements; in the candidate over 64, 64: batches "
        "have more or fewer rows, shapes were broadcast, or a different dimension is averaged."
    ]


@pytest.mark.parametrize("means", [("loss.means=64",), ("loss.means=8, 64, 64",), ()])
def test_another_number_of_means_says_nothing(recorder: Recorder, means: tuple[str, ...]) -> None:
    """A mean may be written as a sum and a division."""
    golden = recorder.learn(lambda t: noting(t, MEANS))
    assert not titles(recorder.judge(golden, lambda t: noting(t, *means)), "LossTerms")


def test_what_differs_between_seeds_is_no_rule(recorder: Recorder) -> None:
    def by_seed(t: Training) -> None:
        noting(t, f"loss.means={8 + t.seed}", f"loss.reach=1 ({8 + t.seed} elements)")

    assert not sentences(recorder.learn(by_seed), "LossTerms")


def test_a_candidate_whose_graph_was_not_looked_at(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: noting(t, REACH, MEANS))
    assert len(sentences(golden, "LossTerms")) == 2
    assert not titles(recorder.judge(golden, noting), "LossTerms")


ACCUMULATED = "Each optimizer step comes after backward passes over at least 3 losses."


def accumulating(
    t: Training,
    of_step: Callable[[int], Sequence[int]],
    *,
    left: int = 0,
    in_closure: int = 0,
    forwards: int = 1,
) -> None:
    """Steps before which `backward` runs as often as there are numbers, each that of the terms of a loss that comes out
    of so many forward passes (0: one for each term); and `left` times once more after the last step.
    """
    net = t.model()
    optimizer = t.adamw(list(net.parameters.values()))
    t.mode(net, True)

    def passes(counts: Sequence[int]) -> None:
        for terms in counts:
            t.batch()
            for _ in range(forwards or terms):
                t.forward(net)
            t.backward(net, within=partial(measured, t, terms))

    for step in range(6):
        t.zero_grad(optimizer)
        counts = of_step(step)
        before = len(counts) - in_closure
        passes(counts[:before])
        t.step(optimizer, closure=partial(passes, counts[before:]) if in_closure else None)
    passes([1] * left)


def measured(t: Training, terms: int) -> None:
    t.measure("loss.terms", float(terms))
    t.measure("loss.terms.fine", float(terms))


def three(t: Training) -> None:
    accumulating(t, lambda _step: (1, 1, 1))


def test_a_backward_pass_that_is_left_out_of_several(recorder: Recorder) -> None:
    golden = recorder.learn(three)
    assert rule(golden, ACCUMULATED).scope is Scope.PINNED
    outcome = recorder.judge(golden, lambda t: accumulating(t, lambda step: (1, 1) if step == 2 else (1, 1, 1)))
    (violation,) = violations(outcome, "LossTerms")
    assert (violation.step, violation.count) == (2, 1)
    assert violation.title == (
        "In the golden run each optimizer step came after backward passes over at least 3 losses; in the candidate "
        "one comes after 2: a backward pass is missing, or gradients accumulate over fewer."
    )


@pytest.mark.parametrize(
    "fine",
    [
        three,
        lambda t: accumulating(t, lambda _step: (3,)),
        lambda t: accumulating(t, lambda _step: (1, 2)),
        lambda t: accumulating(t, lambda _step: (1, 1, 1), left=2),
        lambda t: accumulating(t, lambda _step: (1, 1), in_closure=2),
        lambda t: accumulating(t, lambda _step: (1, 1, 1), in_closure=1),
    ],
    ids=["as golden", "one sum", "two of them in a sum", "a rest without a step", "a closure", "the last in a closure"],
)
def test_losses_that_are_all_there(recorder: Recorder, fine: Callable[[Training], None]) -> None:
    assert not titles(recorder.judge(recorder.learn(three), fine), "LossTerms")


@pytest.mark.parametrize(
    "story",
    [
        lambda t: accumulating(t, lambda step: (1,) * (3 + step % 2)),
        lambda t: accumulating(t, lambda _step: (1, 1, 1), in_closure=3),
        lambda t: accumulating(t, lambda _step: (1,)),
    ],
    ids=["as many as the data has", "as many as the optimizer likes", "one"],
)
def test_losses_that_nobody_counts(recorder: Recorder, story: Callable[[Training], None]) -> None:
    assert not [text for text in sentences(recorder.learn(story)) if text.startswith("Each optimizer step comes after")]


def test_a_backward_pass_before_the_closure_that_is_left_out(recorder: Recorder) -> None:
    """Lightning goes backward for the last of several batches in a closure, which AdamW calls once."""

    def one_less(t: Training) -> None:
        accumulating(t, lambda step: (1,) if step == 2 else (1, 1), in_closure=1)

    golden = recorder.learn(lambda t: accumulating(t, lambda _step: (1, 1), in_closure=1))
    (violation,) = violations(recorder.judge(golden, one_less), "LossTerms")
    assert violation.title.startswith(
        "In the golden run each optimizer step came after backward passes over at least 2 losses"
    )


ALIKE = "Every training step has the same number of losses for each forward pass of a model."


def rests(step: int) -> tuple[int, ...]:
    """Two batches a step, and the third step of an epoch has but one left."""
    return (1,) if step % 3 == 2 else (1, 1)


def test_a_backward_pass_that_is_left_out_where_epochs_end_with_a_rest(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: accumulating(t, rests))
    assert rule(golden, ALIKE).scope is Scope.PINNED

    def forgetful(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            for number, terms in enumerate(rests(step)):
                t.forward(net)
                if (step, number) != (3, 1):
                    t.backward(net, within=partial(measured, t, terms))
            t.step(optimizer)

    (violation,) = violations(recorder.judge(golden, forgetful), "LossTerms")
    assert violation.step == 3
    assert violation.title == (
        "In the golden run every training step had the same number of losses for each forward pass of a model; in "
        "the candidate there is a step with 1 loss for 2 forward passes: a backward pass is missing."
    )


@pytest.mark.parametrize(
    "fine",
    [
        lambda t: accumulating(t, rests),
        lambda t: accumulating(t, lambda _step: (1, 1, 1, 1)),
        lambda t: accumulating(t, rests, forwards=2),
        lambda t: accumulating(t, rests, left=2),
        lambda t: accumulating(t, lambda step: (len(rests(step)),), forwards=0),
        three,
    ],
    ids=["as golden", "no rest", "two calls a loss", "a rest without a step", "in one sum", "three"],
)
def test_steps_that_are_alike(recorder: Recorder, fine: Callable[[Training], None]) -> None:
    golden = recorder.learn(lambda t: accumulating(t, rests))
    outcome = recorder.judge(golden, fine)
    assert not titles(outcome, "LossTerms")


@pytest.mark.parametrize("tries", [2, 3])
def test_what_an_optimizer_tries_in_a_closure_is_not_counted(recorder: Recorder, tries: int) -> None:
    golden = recorder.learn(lambda t: accumulating(t, lambda step: (*rests(step), 1, 1), in_closure=2))
    assert ALIKE in sentences(golden)

    def searching(t: Training) -> None:
        accumulating(t, lambda step: (*rests(step), *[1] * tries), in_closure=tries)

    assert not titles(recorder.judge(golden, searching), "LossTerms")


def test_a_derivative_without_a_graph_is_the_cause_of_a_lost_term(recorder: Recorder) -> None:
    def penalised(t: Training, *, graph: bool = True) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            t.forward(model)
            with t.call("torch.autograd.grad", type="autograd", args={"create_graph": graph}):
                pass
            t.loss()
            t.backward(model, within=lambda: measured(t, 3 if graph else 2))
            t.step(optimizer)

    outcome = recorder.judge(recorder.learn(penalised), lambda t: penalised(t, graph=False))
    (incident,) = outcome.incidents
    assert incident.cause.title.startswith("`torch.autograd.grad(create_graph)` was True")
    assert [each.invariant.relation for each in incident.consequences] == ["LossTerms"]
