"""Distinct: new data in every step, other data on every rank, other random streams in every worker and epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from judgements import rule, sentences, titles, violations
from trace_builder import digest_of
from training_story import Measured, Recorder, Training

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace import Run, load_run
from pytest_traincheck.trace.format import NO_CONTENT

INPUTS = "The inputs of the model differ between training steps."
LOADED = "The batches of the DataLoader differ between training steps."
EXAMPLES = "The examples that are drawn for a batch differ between training steps."
INPUTS_BY_RANK = "The inputs of the model differ between ranks."
SAME_STREAM = "Torch's random state is the same on all ranks."
OTHER_STREAM = "Torch's random state differs between ranks."
WORKERS = "Numpy's random state differs between the workers of a DataLoader."
EPOCHS = "Numpy's random state differs between epochs of a DataLoader worker."


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


# Random generators

GENERATOR = "Torch's random state differs between training steps."
AGAIN = (
    "In the golden run torch's random state differs between training steps; in the candidate it is the same as in "
    "step 1: the same numbers are drawn again, or none."
)


def dropping(
    after: Callable[[int, int], int], *, sketched: int = 2, within: Callable[[int], Sequence[int]] = lambda _step: ()
) -> Callable[[Training], None]:
    """A loop whose forward pass draws from torch's generator: the number of its state before each optimizer step, by
    seed and step. In the sketched steps the states within are looked at.
    """

    def story(t: Training) -> None:
        def forward(step: int) -> None:
            for state in (*within(step), after(t.seed, step)) if step < sketched else ():
                t.generator("torch", digest_of(state))

        def stepping(step: int) -> None:
            t.measure("rng.torch", digest=digest_of(after(t.seed, step)))

        Measured(forward=forward, step=stepping).tell(t)

    return story


def counting(seed: int, step: int) -> int:
    return 100 * seed + step


def test_a_generator_that_is_set_back(recorder: Recorder) -> None:
    """`torch.set_rng_state(begin)` at the end of each step: dropout leaves out the same units for ever."""
    golden = recorder.learn(dropping(counting))
    assert rule(golden, GENERATOR).scope is Scope.PINNED
    assert not titles(recorder.judge(golden, dropping(counting)), "Distinct")
    outcome = recorder.judge(golden, dropping(lambda seed, step: counting(seed, min(step, 1))))
    assert titles(outcome, "Distinct") == [AGAIN]
    (violation,) = violations(outcome, "Distinct")
    assert (violation.step, violation.count) == (2, 4)


def test_a_generator_that_is_set_back_between_two_optimizers(recorder: Recorder) -> None:
    """It is set back after each step of either: the second finds it as the last iteration left it."""

    def story(t: Training, *, back: bool = False) -> None:
        net = t.model()
        parameters = list(net.parameters.values())
        first, second = t.adamw(parameters[:1]), t.adamw(parameters[1:])
        t.mode(net, True)
        for iteration in range(6):
            drawn = digest_of(counting(t.seed, min(iteration, 1) if back else iteration))
            left = digest_of(counting(t.seed, 0)) if back else drawn
            t.batch()
            t.forward(net)
            if iteration < 2:
                t.generator("torch", drawn)
            t.backward(net)
            t.step(first, within=partial(t.measure, "rng.torch", digest=drawn))
            t.step(second, within=partial(t.measure, "rng.torch", digest=left))

    golden = recorder.learn(story)
    assert GENERATOR in sentences(golden)
    assert not titles(recorder.judge(golden, story), "Distinct")
    assert titles(recorder.judge(golden, lambda t: story(t, back=True)), "Distinct") == [
        AGAIN.replace("step 1", "step 0")
    ]


def test_a_generator_that_is_seeded_in_every_step(recorder: Recorder) -> None:
    """`torch.manual_seed(0)` stands in the loop, so that a step takes the states of the one before."""
    seeded = dropping(lambda _seed, _step: 1, within=lambda _step: (0,))
    assert titles(recorder.judge(recorder.learn(dropping(counting)), seeded), "Distinct") == [
        AGAIN.replace("step 1", "step 0")
    ]


def test_a_generator_that_nobody_draws_from(recorder: Recorder) -> None:
    """Its state is always the same, so that golden learns nothing; a candidate may have a generator of its own."""
    still = dropping(lambda _seed, _step: 1, sketched=0)
    assert GENERATOR not in sentences(recorder.learn(still))
    assert not titles(recorder.judge(recorder.learn(dropping(counting)), still), "Distinct")


def test_a_generator_that_is_set_aside(recorder: Recorder) -> None:
    """Under `torch.random.fork_rng` each step has a seed of its own, and afterwards the state is what it was."""
    forked = dropping(lambda _seed, _step: 1, within=lambda step: (10 + step, 20 + step))
    assert not titles(recorder.judge(recorder.learn(dropping(counting)), forked), "Distinct")


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


def drawing(state: Callable[[Training, int], object]) -> Callable[[Training], None]:
    """A loop in which torch's generator is as `state` says."""

    def story(t: Training) -> None:
        Measured(step=lambda step: t.measure("rng.torch", digest=digest_of(state(t, step)))).tell(t)

    return story


def test_streams_of_the_ranks_are_one_or_several_on_purpose(recorder: Recorder) -> None:
    together, apart = drawing(lambda t, step: (t.seed, step)), drawing(lambda t, step: (t.seed, t.rank, step))
    shared, own = recorder.learn(together, ranks=2), recorder.learn(apart, ranks=2)
    assert (SAME_STREAM in sentences(shared), OTHER_STREAM in sentences(shared)) == (True, False)
    assert (SAME_STREAM in sentences(own), OTHER_STREAM in sentences(own)) == (False, True)
    assert not titles(recorder.judge(shared, together, ranks=2), "Distinct")
    assert titles(recorder.judge(shared, apart, ranks=2), "Distinct") == [
        "In the golden run torch's random state is the same on all ranks; in the candidate it differs between ranks."
    ]
    assert titles(recorder.judge(own, together, ranks=2), "Distinct") == [
        "In the golden run torch's random state differs between ranks; in the candidate it is the same."
    ]


def test_a_candidate_in_which_nothing_was_measured(recorder: Recorder) -> None:
    golden = recorder.learn(NEW, ranks=2)
    assert not titles(recorder.judge(golden, Measured().tell, ranks=2), "Distinct")


# Workers


class Loading:
    """Runs of a training with DataLoader workers, two epochs of two workers each."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def run(self, state: Callable[[int, int, int], object], *, seed: int = 0, measured: str = "rng.numpy") -> Run:
        """`state` says what a stream is by seed, epoch and worker."""
        path: Path = self._recorder.path()
        trainer = Training(path, seed=seed)
        Measured().tell(trainer)
        trainer.write()
        for epoch in range(2):
            for number in range(2):
                worker = Training(path, seed=seed, started=2.0 + 2 * epoch + number)
                with worker.call("torch.utils.data.DataLoader.worker", type="worker"):
                    worker.measure("worker", float(number), digest=digest_of("iterator", seed, epoch))
                    worker.measure(measured, digest=digest_of(state(seed, epoch, number)))
                worker.write(pid=200 + 2 * epoch + number, ppid=100)
        return load_run(path)

    def golden(self, state: Callable[[int, int, int], object], seeds: Sequence[int] = (0, 1)) -> Golden:
        return learn([self.run(state, seed=seed) for seed in seeds], pipeline="loading", seeds=tuple(seeds))

    def check(self, golden: Golden, state: Callable[[int, int, int], object], **how: str) -> CheckOutcome:
        return check_run(golden, self.run(state, seed=7, **how), same_spec=True)  # type: ignore[arg-type]


@pytest.fixture
def loading(recorder: Recorder) -> Loading:
    return Loading(recorder)


def seeded(seed: int, epoch: int, worker: int) -> object:
    return seed, epoch, worker


def test_every_worker_has_a_stream_of_its_own_in_every_epoch(loading: Loading) -> None:
    golden = loading.golden(seeded)
    assert {WORKERS, EPOCHS} <= set(sentences(golden, "Distinct"))
    assert all(item.scope is Scope.TRANSFERABLE for item in golden.invariants if item.sentence in (WORKERS, EPOCHS))
    assert not titles(loading.check(golden, seeded), "Distinct")


def test_workers_that_inherit_one_stream(loading: Loading) -> None:
    """Augmentation with numpy and without a `worker_init_fn`: every worker draws the same numbers."""
    outcome = loading.check(loading.golden(seeded), lambda seed, epoch, _worker: (seed, epoch))
    assert titles(outcome, "Distinct") == [
        "In the golden run numpy's random state differs between the workers of a DataLoader; in the candidate it "
        "is the same."
    ]


def test_workers_that_begin_every_epoch_alike(loading: Loading) -> None:
    outcome = loading.check(loading.golden(seeded), lambda seed, _epoch, worker: (seed, worker))
    assert titles(outcome, "Distinct") == [
        "In the golden run numpy's random state differs between epochs of a DataLoader worker; in the candidate it "
        "is the same."
    ]


def test_streams_that_were_alike_in_golden_are_no_rule(loading: Loading) -> None:
    golden = loading.golden(lambda seed, _epoch, _worker: seed)
    assert not {WORKERS, EPOCHS} & set(sentences(golden))


def test_workers_that_are_gone_or_use_other_generators(recorder: Recorder, loading: Loading) -> None:
    golden = loading.golden(seeded)
    assert not titles(recorder.judge(golden, Measured().tell), "Distinct")
    alike = loading.check(golden, lambda seed, _epoch, _worker: seed, measured="rng.python")
    assert not titles(alike, "Distinct")
