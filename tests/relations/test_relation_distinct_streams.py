"""Distinct: other random numbers in every step, on every rank, in every worker and epoch."""

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
from pytest_traincheck.relations.distinct import BetweenRanks, Differs, Distinct
from pytest_traincheck.relations.meaning import Change
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.trace import Run, load_run

SAME_STREAM = "Torch's random state is the same on all ranks."
OTHER_STREAM = "Torch's random state differs between ranks."
WORKERS = "Numpy's random state differs between the workers of a DataLoader."
EPOCHS = "Numpy's random state differs between epochs of a DataLoader worker."


# Steps

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


def test_a_stream_does_not_come_of_the_order_of_the_data() -> None:
    """The epoch of a sampler that stays explains batches that come again, and no random numbers that do."""

    def explained(claim: Differs | BetweenRanks) -> bool:
        rule = Invariant("Distinct", "anything", claim, (), Scope.PINNED, Kind.BEHAVIOUR, "")
        return Change.ORDER in Distinct().meaning(rule).comes_with

    assert explained(Differs("loaded", "steps"))
    assert explained(Differs("batch.examples", "steps"))
    assert not explained(Differs("rng.torch", "steps"))
    assert not explained(Differs("rng.numpy", "epochs"))
    assert not explained(BetweenRanks("model.input"))


# Ranks


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
