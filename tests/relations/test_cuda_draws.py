"""What is drawn on a GPU, as rules see it: whether it is drawn, by which calls, and whether ranks draw alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from judgements import sentences, titles, violations
from trace_builder import digest_of
from training_story import Measured, Recorder, Training

torch = pytest.importorskip("torch")

from counted_device import Counter, devices  # noqa: E402
from law_verdict import verdict  # noqa: E402
from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.relations.fixed import _drawn_otherwise  # noqa: E402
from pytest_traincheck.relations.laws.law import Always  # noqa: E402
from pytest_traincheck.relations.laws.ranks import RanksDrawOtherNumbers  # noqa: E402
from pytest_traincheck.trace import Run  # noqa: E402

EVERY_STEP = (
    "Each of the first training steps draws random numbers from the GPU's generator where the golden runs did, and "
    "nowhere else."
)
EVALUATION = (
    "Models that are called without gradients after the last step draw random numbers from the GPU's generator where "
    "the golden runs did, and nowhere else."
)


# Drawn, of traces


@dataclass(frozen=True)
class Drawing:
    """A training whose steps, and the evaluation behind them, move the GPU's generator so far."""

    steps: Callable[[int], float] = lambda _step: 8.0
    evaluation: float = 0.0

    def __call__(self, t: Training) -> None:
        def step(number: int) -> None:
            for name, moved in (("torch", 0.0), ("cuda", self.steps(number))):
                t.measure(f"rng.{name}", moved, digest=digest_of(name, t.seed, number))

        model = Measured(step=step).tell(t)
        t.mode(model, False)
        with t.no_grad():
            t.forward(model, line="evaluate", within=lambda: self._evaluated(t))

    def _evaluated(self, t: Training) -> None:
        t.measure("evaluated.torch", 0.0)
        if self.evaluation:
            t.measure("evaluated.cuda", self.evaluation)


def test_how_much_kernels_draw_is_their_own_matter(recorder: Recorder) -> None:
    """Fused attention takes other offsets than a product and dropout; all of them draw."""
    golden = recorder.learn(Drawing(), seeds=(0, 1))
    assert {EVERY_STEP, EVALUATION} <= set(sentences(golden, "Drawn"))
    for moved in (8.0, 4.0, 1024.0):
        assert not titles(recorder.judge(golden, Drawing(lambda _step, moved=moved: moved)), "Drawn")  # type: ignore[misc]


def test_golden_runs_of_other_batches_draw_all_the_same(recorder: Recorder) -> None:
    """Which seed decides how large its batches are."""
    golden = recorder.learn(lambda t: Drawing(lambda step: 4.0 + 4 * ((step + t.seed) % 2))(t))
    assert EVERY_STEP in sentences(golden, "Drawn")


def test_a_step_that_draws_nothing_any_more(recorder: Recorder) -> None:
    golden = recorder.learn(Drawing())
    outcome = recorder.judge(golden, Drawing(lambda step: 8.0 if step != 2 else 0.0))
    assert titles(outcome, "Drawn") == [
        "In the golden run step 2 drew random numbers from the GPU's generator; in the candidate none."
    ]
    (found,) = violations(outcome, "Drawn")
    assert (found.invariant.subject, found.step) == ("torch.cuda.random", 2)


def test_steps_that_draw_on_a_gpu_where_golden_s_do_not(recorder: Recorder) -> None:
    golden = recorder.learn(Drawing(lambda _step: 0.0))
    assert titles(recorder.judge(golden, Drawing()), "Drawn")[0] == (
        "In the golden run step 0 drew no random number from the GPU's generator; in the candidate some."
    )


def test_an_evaluation_in_train_mode(recorder: Recorder) -> None:
    """Dropout is drawn where golden draws nothing, or the other way round."""
    golden = recorder.learn(Drawing())
    assert titles(recorder.judge(golden, Drawing(evaluation=4.0)), "Drawn") == [
        "In the golden run models that were called without gradients after 6 steps drew no random number from the "
        "GPU's generator; in the candidate some."
    ]
    golden = recorder.learn(Drawing(evaluation=4.0))
    assert not titles(recorder.judge(golden, Drawing(evaluation=64.0)), "Drawn")
    assert titles(recorder.judge(golden, Drawing()), "Drawn") == [
        "In the golden run models that were called without gradients after 6 steps drew random numbers from the GPU's "
        "generator; in the candidate none."
    ]


def test_where_nobody_knows_nothing_is_said(recorder: Recorder) -> None:
    """A graph was being captured, or a seed was set."""
    golden = recorder.learn(Drawing())
    for unknown in (float("inf"), float("nan")):
        assert not titles(recorder.judge(golden, Drawing(lambda _step, unknown=unknown: unknown)), "Drawn")  # type: ignore[misc]


def test_a_candidate_without_a_gpu(recorder: Recorder) -> None:
    golden = recorder.learn(Drawing())
    assert not titles(recorder.judge(golden, Measured().tell), "Drawn")
    assert not [text for text in sentences(recorder.learn(Measured().tell)) if "GPU" in text]


# Drawn, of calls


@dataclass(frozen=True)
class Regression:
    """A training with dropout on a device, or on the CPU."""

    seed: int = 0
    drop: float = 0.5
    on_device: bool = True
    steps: int = 4
    counter: Counter = field(default_factory=Counter)

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        self.counter.manual_seed(self.seed)
        if not self.on_device:
            return self._train()
        with devices(self.counter):
            return self._train()

    def _train(self) -> None:
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(self.drop), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(self.steps):
            optimizer.zero_grad()
            model(torch.full((16, 4), step + 1.0)).pow(2).mean().backward()
            optimizer.step()


def of_calls(folder: Path, **changes: Any) -> tuple[Golden, CheckOutcome]:
    runs = [recorded(Regression(seed), folder / str(seed)) for seed in (0, 1)]
    golden = learn(runs, pipeline="device", seeds=(0, 1))
    candidate = recorded(Regression(5, **changes), folder / "candidate")
    return golden, check_run(golden, candidate, same_spec=True)


def test_calls_that_draw_on_a_gpu(tmp_path: Path) -> None:
    golden, outcome = of_calls(tmp_path)
    assert {"`torch.nn.functional.dropout` draws random numbers in training.", EVERY_STEP} <= set(
        sentences(golden, "Drawn")
    )
    assert not titles(outcome, "Drawn")


def test_calls_that_draw_nothing_any_more(tmp_path: Path) -> None:
    _, outcome = of_calls(tmp_path, drop=0.0)
    assert titles(outcome, "Drawn")[0].startswith(
        "In the golden run `torch.nn.functional.dropout` drew random numbers in each training step; in the candidate "
        "it draws none"
    )


def test_a_call_may_draw_from_either_generator(tmp_path: Path) -> None:
    _, outcome = of_calls(tmp_path, on_device=False)
    assert not [title for title in titles(outcome, "Drawn") if "dropout" in title]


# Distinct


def states(of: Callable[[Training, int], object], moved: float = 4.0) -> Callable[[Training], None]:
    """A loop in which the GPU's generator is as `of` says before each step, and torch's is the same on all ranks."""

    def story(t: Training) -> None:
        def step(number: int) -> None:
            t.measure("rng.torch", 0.0, digest=digest_of("torch", t.seed))
            t.measure("rng.cuda", moved, digest=digest_of("cuda", of(t, number)))

        Measured(step=step).tell(t)

    return story


ALIKE = states(lambda t, step: (t.seed, step))
APART = states(lambda t, step: (t.seed, t.rank, step))


def test_ranks_that_draw_alike_on_their_gpus(recorder: Recorder) -> None:
    golden = recorder.learn(APART, ranks=2)
    assert "The GPU's random state differs between ranks." in sentences(golden, "Distinct")
    assert not titles(recorder.judge(golden, APART, ranks=2), "Distinct")
    outcome = recorder.judge(golden, ALIKE, ranks=2)
    assert titles(outcome, "Distinct") == [
        "In the golden run the GPU's random state differs between ranks; in the candidate it is the same."
    ]
    assert violations(outcome, "Distinct")[0].invariant.subject == "torch.cuda.manual_seed"


def test_ranks_that_are_to_draw_alike(recorder: Recorder) -> None:
    golden = recorder.learn(ALIKE, ranks=2)
    assert "The GPU's random state is the same on all ranks." in sentences(golden, "Distinct")
    assert titles(recorder.judge(golden, APART, ranks=2), "Distinct") == [
        "In the golden run the GPU's random state is the same on all ranks; in the candidate it differs between ranks."
    ]


def test_a_generator_that_is_set_back_in_every_step(recorder: Recorder) -> None:
    def dropping(back: bool) -> Callable[[Training], None]:
        def story(t: Training) -> None:
            def state(step: int) -> int:
                return digest_of(t.seed, min(step, 1) if back else step)

            Measured(
                forward=lambda step: t.generator("cuda", state(step)) if step < 2 else None,
                step=lambda step: t.measure("rng.cuda", digest=state(step)),
            ).tell(t)

        return story

    golden = recorder.learn(dropping(back=False))
    assert "The GPU's random state differs between training steps." in sentences(golden, "Distinct")
    assert titles(recorder.judge(golden, dropping(back=True)), "Distinct") == [
        "In the golden run the GPU's random state differs between training steps; in the candidate it is the same as "
        "in step 1: the same numbers are drawn again, or none."
    ]


# Laws


@pytest.mark.parametrize(
    ("story", "said"),
    [(APART, "holds"), (ALIKE, "broken"), (states(lambda t, step: (t.seed, step), moved=0.0), "silent")],
)
def test_the_law_of_ranks(story: Callable[[Training], None], said: str, recorder: Recorder) -> None:
    """The CPU's generator is the same on all of them, and nobody draws from it."""

    def on_one_model(t: Training) -> None:
        t.seed = 0
        story(t)

    run = recorder.tell(on_one_model, ranks=2)
    assert verdict("RanksDrawOtherNumbers", run) == said
    if said == "broken":
        law = RanksDrawOtherNumbers()
        examples = law.examples(Always(), run)
        broken = [position for position, holds in enumerate(examples.holds.tolist()) if not holds]
        assert law.told(run, examples, broken).title == (
            "All ranks have the same random state of their GPUs and draw the same numbers, first in step 0."
        )


# Fixed


@pytest.mark.parametrize(
    ("torch_s", "cuda_s", "otherwise"),
    [
        ((1, 2), (), True),
        ((1, 1), (), False),
        ((1, 2), (3, 4), True),
        ((1, 2), (3, 3), False),
        ((1, 1), (3, 4), False),
    ],
)
def test_parameters_are_the_same_whatever_the_seed_where_every_generator_has_another(
    torch_s: tuple[int, ...], cuda_s: tuple[int, ...], otherwise: bool, recorder: Recorder
) -> None:
    def story(t: Training) -> None:
        def step(_: int) -> None:
            for name, found in (("torch", torch_s), ("cuda", cuda_s)):
                if found:
                    t.measure(f"rng.{name}", digest=found[t.seed])

        Measured(step=step).tell(t)

    runs: list[Run] = [recorder.tell(story, seed=seed) for seed in (0, 1)]
    assert _drawn_otherwise(runs) is otherwise
