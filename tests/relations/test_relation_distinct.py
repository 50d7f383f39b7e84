"""Distinct: new data in every step, and other data on every rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from judgements import rule, sentences, titles, violations
from trace_builder import digest_of
from training_story import Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace.format import NO_CONTENT

INPUTS = "The inputs of the model differ between training steps."
LOADED = "The batches of the DataLoader differ between training steps."
EXAMPLES = "The examples that are drawn for a batch differ between training steps."
INPUTS_BY_RANK = "The inputs of the model differ between ranks."


def feeding(content: Callable[[Training, int], object]) -> Callable[[Training], None]:
    """A loop whose model gets what `content` says, by process and step."""

    def story(t: Training) -> None:
        Measured(forward=lambda step: t.measure("model.input", digest=digest_of(content(t, step)))).tell(t)

    return story


NEW = feeding(lambda t, step: (t.seed, t.rank, step))


# Steps


def test_new_data_in_every_step(recorder: Recorder) -> None:
    golden = recorder.learn(NEW)
    assert {INPUTS, LOADED} <= set(sentences(golden, "Distinct"))
    assert not titles(recorder.judge(golden, NEW), "Distinct")


def test_one_batch_over_and_over(recorder: Recorder) -> None:
    """The iterator was made anew in every step, or `next(iter(loader))` stands in the loop."""
    outcome = recorder.judge(recorder.learn(NEW), feeding(lambda t, _step: t.seed))
    assert titles(outcome, "Distinct") == [
        "In the golden run the inputs of the model differ between training steps; in the candidate they are the "
        "same as in step 0."
    ]
    (violation,) = outcome.incidents[0].violations
    assert violation.step == 1


def test_a_loader_that_repeats_its_batches(recorder: Recorder) -> None:
    def repeats(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(6):
            t.zero_grad(optimizer)
            t.batch(content=(t.seed, step % 2))
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)

    outcome = recorder.judge(recorder.learn(Measured().tell), repeats)
    assert titles(outcome, "Distinct") == [
        "In the golden run the batches of the DataLoader differ between training steps; in the candidate they are "
        "the same as in step 0."
    ]


def choosing(examples: Callable[[int], object], once: float = 1.0) -> Callable[[Training], None]:
    """A loop whose batches are made of these examples in each step, and are another thing each time."""

    def story(t: Training) -> None:
        Measured(batch=lambda step: t.measure("batch.examples", once, digest=digest_of(t.seed, examples(step)))).tell(t)

    return story


def test_examples_that_come_again(recorder: Recorder) -> None:
    """What is made of them is drawn too: the batches all differ."""
    golden = recorder.learn(choosing(int))
    assert EXAMPLES in sentences(golden, "Distinct")
    assert not titles(recorder.judge(golden, choosing(int)), "Distinct")
    outcome = recorder.judge(golden, choosing(lambda step: step % 3))
    assert titles(outcome, "Distinct") == [
        "In the golden run the examples that are drawn for a batch differ between training steps; in the candidate "
        "they are the same as in step 0."
    ]
    assert outcome.incidents[0].cause.step == 3


def test_examples_that_may_come_again_by_chance_say_nothing(recorder: Recorder) -> None:
    assert EXAMPLES not in sentences(recorder.learn(choosing(int, once=0.0)), "Distinct")
    golden = recorder.learn(choosing(int))
    assert not titles(recorder.judge(golden, choosing(lambda _: 0, once=0.0)), "Distinct")


@pytest.mark.parametrize(
    ("sampler", "hint"),
    [
        (lambda t: t.measure("batch.shuffled", 1.0), "is a generator seeded again?"),
        (lambda t: t.measure("batch.epoch", 0.0, digest=1), "see `set_epoch`"),
        (lambda _: None, "see `set_epoch`"),
    ],
)
def test_what_shuffles_says_where_to_look(recorder: Recorder, sampler: Callable[[Training], None], hint: str) -> None:
    def epochs(order: Callable[[int], int]) -> Callable[[Training], None]:
        def story(t: Training) -> None:
            model = t.model()
            optimizer = t.adamw(list(model.parameters.values()))
            for step in range(6):
                epoch, place = divmod(step, 3)
                if step and not place:
                    with t.call("torch.utils.data.DataLoader.__next__", type="data", raised=True):
                        pass
                t.zero_grad(optimizer)
                t.batch(lambda: sampler(t), content=(t.seed, order(epoch), place))
                t.forward(model)
                t.loss()
                t.backward(model)
                t.step(optimizer)

        return story

    (title,) = titles(recorder.judge(recorder.learn(epochs(int)), epochs(lambda _: 0)), "Distinct")
    assert title.endswith(f"the same as in step 0, an epoch earlier: the data is not shuffled again ({hint}).")


def test_epochs_that_come_round_are_no_fault(recorder: Recorder) -> None:
    """Without shuffling golden sees each batch once an epoch, so it never learns that batches differ."""
    golden = recorder.learn(feeding(lambda t, step: (t.seed, step % 3)))
    assert INPUTS not in sentences(golden)


def followed(content: Callable[[int], object]) -> Callable[[Training], None]:
    """Twelve steps, of which the first four are measured."""

    def tell(t: Training) -> None:
        def forward(step: int) -> None:
            t.measure("model.input" if step < 4 else "later.input", digest=digest_of(t.seed, content(step)))

        Measured(forward=forward, steps=12).tell(t)

    return tell


def test_a_batch_that_stays_behind_the_measured_steps(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(followed(lambda step: step)), followed(lambda step: min(step, 7)))
    assert titles(outcome, "Distinct") == [
        "In the golden run the inputs of the model differ between training steps; in the candidate they are the same "
        "as in step 7."
    ]


@pytest.mark.parametrize("steps", [4, 6, 9])
def test_a_second_pass_behind_the_measured_steps_is_no_fault(recorder: Recorder, steps: int) -> None:
    passes = followed(lambda step: step % steps)
    assert not titles(recorder.judge(recorder.learn(followed(lambda step: step)), passes), "Distinct")
    assert INPUTS in sentences(recorder.learn(passes), "Distinct")


def test_the_same_batch_twice_within_a_step(recorder: Recorder) -> None:
    """A discriminator sees a fake batch, and the generator's pass shows it the same batch again."""

    def adversarial(t: Training, *, stale: bool = False) -> None:
        generator, critic = t.model("Generator"), t.model("Critic")
        first, second = t.adamw(list(critic.parameters.values())), t.adamw(list(generator.parameters.values()))
        for step in range(6):
            noise = digest_of(t.seed, 0 if stale else step)
            for optimizer, trained in ((first, critic), (second, generator)):
                t.zero_grad(optimizer)
                t.forward(generator, within=lambda noise=noise: t.measure("model.input", digest=noise))
                t.forward(critic, within=lambda noise=noise: t.measure("model.input", digest=noise + 1))
                t.loss()
                t.backward(trained)
                t.step(optimizer)

    golden = recorder.learn(adversarial)
    assert INPUTS in sentences(golden)
    assert not titles(recorder.judge(golden, adversarial), "Distinct")
    assert titles(recorder.judge(golden, lambda t: adversarial(t, stale=True)), "Distinct")


def test_what_is_called_without_inputs_is_not_compared(recorder: Recorder) -> None:
    """A learnt temperature in a module of its own: it is given nothing, in every step."""

    def tempered(t: Training, *, temperature: bool, stale: bool = False) -> None:
        model, warmth = t.model("Net"), t.model("Temperature")
        optimizer = t.adamw([*model.parameters.values(), *warmth.parameters.values()])
        for step in range(6):
            t.zero_grad(optimizer)
            seen = digest_of(t.seed, 0 if stale else step)
            t.forward(model, within=lambda seen=seen: t.measure("model.input", digest=seen))
            if temperature:
                t.forward(warmth, within=lambda: t.measure("model.input", digest=NO_CONTENT))
            t.loss()
            t.backward(model)
            t.step(optimizer)

    for as_module in (False, True):
        golden = recorder.learn(partial(tempered, temperature=as_module))
        assert INPUTS in sentences(golden)
        assert not titles(recorder.judge(golden, partial(tempered, temperature=not as_module)), "Distinct")
        assert titles(recorder.judge(golden, partial(tempered, temperature=True, stale=True)), "Distinct")


def test_the_hash_of_nothing_is_what_the_probe_writes() -> None:
    pytest.importorskip("torch")
    from pytest_traincheck.probe.digest import digest_nested

    assert digest_nested(((), {})) == NO_CONTENT
    assert digest_nested(((None,), {})) != NO_CONTENT


def test_evaluation_may_see_the_same_data_again(recorder: Recorder) -> None:
    def evaluated(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for step in range(6):
            t.mode(model, True)
            t.zero_grad(optimizer)
            t.batch()
            t.forward(model, within=lambda step=step: t.measure("model.input", digest=digest_of(t.seed, step)))
            t.loss()
            t.backward(model)
            t.step(optimizer)
            t.mode(model, False)
            with t.no_grad():
                t.batch(content="validation")
                t.forward(model, line="evaluate")

    golden = recorder.learn(evaluated)
    assert {INPUTS, LOADED} <= set(sentences(golden, "Distinct"))
    assert not titles(recorder.judge(golden, evaluated), "Distinct")


# Epochs


def in_epochs(t: Training, order: Callable[[int, int], object], *, ends: bool = True) -> None:
    """Two epochs of four batches; `order` says what is in a batch of an epoch, and `ends` whether the loader ends."""
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for epoch in range(2):
        for number in range(4):
            t.zero_grad(optimizer)
            t.batch(content=(t.seed, order(epoch, number)))
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)
        if ends:
            with t.call("torch.utils.data.DataLoader.__next__", type="data", raised=True):
                pass


def test_an_epoch_in_the_same_order_as_the_one_before(recorder: Recorder) -> None:
    """`sampler.set_epoch(epoch)` is missing."""
    golden = recorder.learn(lambda t: in_epochs(t, lambda epoch, number: (epoch, number)))
    assert LOADED in sentences(golden)
    outcome = recorder.judge(golden, lambda t: in_epochs(t, lambda _epoch, number: number))
    assert titles(outcome, "Distinct") == [
        "In the golden run the batches of the DataLoader differ between training steps; in the candidate they are "
        "the same as in step 0, an epoch earlier: the data is not shuffled again (see `set_epoch`)."
    ]
    (violation,) = outcome.incidents[0].violations
    assert (violation.step, violation.count) == (4, 4)


def test_batches_that_repeat_within_an_epoch_have_nothing_to_do_with_epochs(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: in_epochs(t, lambda epoch, number: (epoch, number)))
    within = recorder.judge(golden, lambda t: in_epochs(t, lambda epoch, number: (epoch, number % 2)))
    endless = recorder.judge(golden, lambda t: in_epochs(t, lambda _epoch, number: number, ends=False))
    for outcome in (within, endless):
        assert titles(outcome, "Distinct") == [
            "In the golden run the batches of the DataLoader differ between training steps; in the candidate they "
            "are the same as in step 0."
        ]


# Tensors of a batch

TENSORS = "No two tensors of a batch have the same content."


def paired(t: Training, repeated: Callable[[int], int] = lambda _step: 0) -> None:
    """Batches in which so many tensors have the content of another one."""
    Measured(batch=lambda step: t.measure("batch.repeated", float(repeated(step)))).tell(t)


def test_two_views_of_an_example(recorder: Recorder) -> None:
    golden = recorder.learn(paired)
    assert rule(golden, TENSORS).scope is Scope.PINNED
    assert not titles(recorder.judge(golden, paired), "Distinct")


def test_one_view_twice(recorder: Recorder) -> None:
    """`view = augment(image); return view, view` has nothing to contrast."""
    outcome = recorder.judge(recorder.learn(paired), lambda t: paired(t, lambda step: int(step > 1)))
    assert titles(outcome, "Distinct") == [
        "In the golden run no two tensors of a batch had the same content; in the candidate some do: two views, or "
        "inputs and targets, are the same."
    ]
    (violation,) = violations(outcome, "Distinct")
    assert (violation.step, violation.count) == (2, 4)


def test_tensors_that_are_the_same_on_purpose(recorder: Recorder) -> None:
    """An autoencoder's targets are its inputs; and a batch may have two tensors of zeros by chance."""
    for repeats in (lambda _step: 1, lambda step: int(step == 3)):
        assert TENSORS not in sentences(recorder.learn(lambda t, repeats=repeats: paired(t, repeats)))  # type: ignore[misc]


def test_batches_in_which_nothing_was_compared(recorder: Recorder) -> None:
    assert TENSORS not in sentences(recorder.learn(Measured().tell))
    assert not titles(recorder.judge(recorder.learn(paired), Measured().tell), "Distinct")


# Ranks


def test_every_rank_has_its_share(recorder: Recorder) -> None:
    golden = recorder.learn(NEW, ranks=2)
    assert INPUTS_BY_RANK in sentences(golden)
    assert not titles(recorder.judge(golden, NEW, ranks=3), "Distinct")


def test_ranks_that_see_the_same_data(recorder: Recorder) -> None:
    """A `DistributedSampler` is missing."""
    outcome = recorder.judge(recorder.learn(NEW, ranks=2), feeding(lambda t, step: (t.seed, step)), ranks=2)
    assert titles(outcome, "Distinct") == [
        "In the golden run the inputs of the model differ between ranks; in the candidate they are the same."
    ]


def test_one_rank_has_nothing_to_differ_from(recorder: Recorder) -> None:
    golden = recorder.learn(NEW, ranks=2)
    assert not titles(recorder.judge(golden, NEW), "Distinct")
    assert INPUTS_BY_RANK not in sentences(recorder.learn(NEW))


def test_a_candidate_in_which_nothing_was_measured(recorder: Recorder) -> None:
    golden = recorder.learn(NEW, ranks=2)
    assert not titles(recorder.judge(golden, Measured().tell, ranks=2), "Distinct")
