"""Band: numbers stay where other seeds put them; not on another platform, and not where chance decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from judgements import describe, sentences, violations
from trace_builder import NONFINITE, NONZERO, ZERO, digest_of, tensor
from training_story import ADAMW, BACKWARD, CLIP, LINES, Recorder, Training

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.rules.model import Kind, Scope
from pytest_traincheck.trace import Run, load_run

SHAPES = {
    "conv.weight": (32, 16, 3, 3), "conv.bias": (32,), "norm.weight": (32,), "norm.bias": (32,),
    "fc.weight": (10, 512), "fc.bias": (10,), "scale": (1,),
}  # fmt: skip
GRADIENTS = "The norm of each parameter's gradient at the first step of `CNN` is within the band of the golden runs."
ALL_GRADIENTS = "The scale of all gradients of `CNN` together at the first step is within the band of the golden runs."
INITIAL = "The root mean square of each parameter of `CNN` after initialisation is within the band of the golden runs."
MEANS = (
    "The mean of each parameter of `CNN` after initialisation, where it is more than chance around zero, "
    "is within the band of the golden runs."
)
INPUTS = "The root mean square of each input of `CNN` in its first training step is within the band of the golden runs."
OUTPUTS = (
    "The root mean square of each module's output in the first training step of `CNN` "
    "is within the band of the golden runs."
)
LOSSES = "The loss of the first training step is within the band of the golden runs."
UPDATES = (
    "The size of each parameter's first update in `CNN`, relative to the parameter, "
    "is within the band of the golden runs."
)
ALL_UPDATES = (
    "The scale of the first updates of all parameters of `CNN` together is within the band of the golden runs."
)


@dataclass(frozen=True)
class Numeric:
    """A training run told by its numbers. Each number is what it usually is, times a chance that the seed decides."""

    seed: int = 0
    ranks: int = 1
    name: str = "CNN"
    platform: str = "linux-x86_64-cpu"
    random: bool = True
    init: dict[str, float] = field(default_factory=dict)
    """Factors on the initial values of single parameters; likewise below."""
    zeroed: tuple[str, ...] = ("norm.bias",)
    ones: float = 1.0
    gradient: dict[str, float] = field(default_factory=dict)
    loss_scale: float = 1.0
    spread: float = 0.1
    loss_spread: float = 0.02
    later: float = 1.0
    """A factor on the loss after the first step."""
    update: float = 1.0
    given: float = 1.0
    views: tuple[float, ...] = (1.0,)
    """Factors on what the model is given and gives, one for each time it is called in a step."""
    activation: float = 1.0
    nonfinite: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    clipped: bool = False
    noise: float = 1e-8
    """Norm of the gradient of the bias in front of the normalisation, which is zero but for rounding."""
    microbatches: int = 1
    criterion: bool = False
    renamed: dict[str, str] = field(default_factory=dict)

    def but(self, **changes: object) -> Numeric:
        return replace(self, **changes)  # type: ignore[arg-type]

    def tell(self, t: Training) -> None:
        chance = np.random.default_rng(self.seed if self.random else 0)

        def around(usual: float, spread: float = self.spread) -> float:
            return float(usual * np.exp(spread * chance.standard_normal()))

        model = t.model(self.name, {self.renamed.get(name, name): shape for name, shape in SHAPES.items()})
        criterion = t.root("CrossEntropyLoss", {}, kind="torch.nn.CrossEntropyLoss") if self.criterion else None
        optimizer = t.adamw(list(model.parameters.values()))
        t.mode(model, True)
        for name, shape in SHAPES.items():
            parameter = model.parameters[self.renamed.get(name, name)]
            rms, mean = self._initial(name, shape, chance)
            t.measure("parameter.rms", rms, variable=parameter.variable)
            t.measure("parameter.mean", mean, variable=parameter.variable)
        common = around(1.0, 0.03) * self.loss_scale
        norms = {name: around(0.1 * (number + 1)) * common for number, name in enumerate(SHAPES)}
        norms["conv.bias"] = self.noise * around(1.0, 1.0)
        updates = {name: around(0.01 * (number + 1)) * self.update for number, name in enumerate(SHAPES)}
        outputs = {layer.number: around(1.0, 0.03) * self.activation for layer in model.layers}
        loss = around(2.3, self.loss_spread) * self.loss_scale
        inputs = around(1.0, 0.03) * self.given
        for step in range(3):
            loss *= self.later if step == 1 else 1
            t.zero_grad(optimizer)
            for _ in range(self.microbatches):
                for view in self.views:
                    with t.call("__main__.CNN", type="module", module=model.number, training=True, entry=True,
                                line=LINES["forward"]):  # fmt: skip
                        if step < 2:
                            t.measure("input.rms.images", view * inputs)
                        for number, rms in outputs.items():
                            with t.call("torch.nn.Linear", type="module", module=number, training=True):
                                if step < 2:
                                    t.measure("activation.rms", view * rms)
                t.loss(value=loss, criterion=criterion)
                with t.call(BACKWARD, type="autograd", args={"tensors": tensor()}, line=LINES["backward"]):
                    t.measure("backward.root", loss / self.microbatches)
                    for name, norm in norms.items():
                        if name in self.absent:
                            continue
                        gradient = model.parameters[self.renamed.get(name, name)].gradient
                        size = norm * self.gradient.get(name, 1.0)
                        state = NONFINITE if name in self.nonfinite else NONZERO if size else ZERO
                        t.change(gradient, state, digest_of(self.seed, step, name, len(t.rows)), size)
            if self.clipped:
                with t.call(CLIP, type="clip", args={"max_norm": 1.0, "norm_type": 2.0}, line=LINES["clip"]):
                    for parameter in model.parameters.values():
                        t.change(parameter.gradient, NONZERO, digest_of(self.seed, step, len(t.rows)), 0.3)
            with t.call(f"{ADAMW}.step", type="optimizer", optimizer=optimizer.number, line=LINES["step"]):
                for parameter in model.parameters.values():
                    t.move(parameter)
            for name, ratio in updates.items():
                parameter = model.parameters[self.renamed.get(name, name)]
                t.measure("parameter.update", ratio, variable=parameter.variable, optimizer=optimizer.number)

    def _initial(self, name: str, shape: Sequence[int], chance: np.random.Generator) -> tuple[float, float]:
        if name in self.zeroed:
            return 0.0, 0.0
        if name.startswith("norm"):
            return abs(self.ones), self.ones
        values = 0.05 * self.init.get(name, 1.0) * chance.standard_normal(int(np.prod(shape)))
        return float(np.sqrt((values**2).mean())), float(values.mean())


class Numbers:
    """Records such runs, and learns from and checks them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def record(self, story: Numeric) -> Run:
        path = self._recorder.path()
        for rank in range(story.ranks):
            training = Training(path, rank=rank, world_size=story.ranks, seed=story.seed)
            story.tell(training)
            training.write(platform=story.platform)
        return load_run(path)

    def golden(self, story: Numeric, seeds: Sequence[int] = (0, 1, 2)) -> Golden:
        return learn([self.record(story.but(seed=seed)) for seed in seeds], pipeline="story", seeds=tuple(seeds))

    def check(self, golden: Golden, story: Numeric, *, same_spec: bool = True) -> CheckOutcome:
        return check_run(golden, self.record(story), same_spec=same_spec)


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    return Numbers(Recorder(tmp_path))


def found(outcome: CheckOutcome) -> list[str]:
    return [violation.title for violation in violations(outcome, "Band")]


def test_rules_are_one_per_quantity_and_model(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    assert sorted(sentences(golden, "Band")) == sorted(
        [GRADIENTS, ALL_GRADIENTS, INITIAL, MEANS, INPUTS, OUTPUTS, LOSSES, UPDATES, ALL_UPDATES]
    )
    for invariant in golden.invariants:
        if invariant.relation == "Band":
            assert (invariant.kind, invariant.scope) == (Kind.NUMERIC, Scope.PINNED)
            assert set(to_json(invariant.claim)) <= {"quantity", "root", "pooled"}
            assert invariant.id in golden.numbers
    assert golden.platform == "linux-x86_64-cpu"


def test_other_seeds_and_the_same_seed_hold(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    for seed in (0, 1, *range(100, 110)):
        outcome = numbers.check(golden, Numeric(seed=seed))
        assert not violations(outcome), describe(outcome.incidents)
        band = [item.verdict for item in outcome.verdicts if item.invariant.relation == "Band"]
        assert band == [Verdict.HELD] * 9


def test_another_seed_claims_the_same_with_other_numbers(numbers: Numbers) -> None:
    first, second = numbers.golden(Numeric()), numbers.golden(Numeric(), seeds=(5, 6, 7))
    assert [item.id for item in first.invariants] == [item.id for item in second.invariants]
    assert first.numbers.keys() == second.numbers.keys()
    assert first.numbers != second.numbers


@pytest.mark.parametrize("factor", [4.0, 0.25])
def test_a_scaled_loss_is_seen_in_all_gradients_together(numbers: Numbers, factor: float) -> None:
    golden = numbers.golden(Numeric(spread=0.15))
    outcome = numbers.check(golden, Numeric(seed=9, spread=0.15, loss_scale=factor))
    assert len(outcome.incidents) == 1, describe(outcome.incidents)
    titles = found(outcome)
    way = "larger" if factor > 1 else "smaller"
    assert titles[0].startswith("The loss that backward starts from is ")
    assert way in titles[0]
    pooled = next(title for title in titles if title.startswith("All gradients of `CNN` together are "))
    assert pooled.endswith(
        "times as large as in the golden runs at step 0."
        if factor > 1
        else "times smaller than in the golden runs at step 0."
    )
    # Each parameter by itself scatters too much to tell.
    assert not [title for title in titles if title.startswith("The gradient of ")]


@pytest.mark.parametrize(("spread", "loud"), [(0.02, True), (0.6, False)])
def test_gradients_differ_at_least_as_the_root_of_the_loss(numbers: Numbers, spread: float, loud: bool) -> None:
    """Golden runs whose gradients are as large by chance, and whose losses are not, say little of the next."""
    golden = numbers.golden(Numeric(loss_spread=spread))
    assert ALL_GRADIENTS in sentences(golden)
    outcome = numbers.check(golden, Numeric(seed=9, loss_spread=spread, gradient=dict.fromkeys(SHAPES, 3.0)))
    assert any(title.startswith("All gradients of `CNN` together are ") for title in found(outcome)) is loud


def test_a_criterion_that_is_a_module_is_the_cause_as_well(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric(criterion=True))
    outcome = numbers.check(golden, Numeric(seed=9, criterion=True, loss_scale=4.0))
    assert len(outcome.incidents) == 1, describe(outcome.incidents)
    assert outcome.incidents[0].cause.invariant.sentence == LOSSES


def test_a_loss_twice_as_large_is_seen_where_seeds_agree(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric(spread=0.03)), Numeric(seed=9, spread=0.03, loss_scale=2.0))
    assert any(title.startswith("All gradients of `CNN` together are ") for title in found(outcome))


def test_a_loss_that_turns_negative_later_has_a_random_sign_and_no_band(numbers: Numbers) -> None:
    """As that of a policy gradient, which was positive in the first step of three seeds by chance."""
    golden = numbers.golden(Numeric(later=-1.0))
    assert LOSSES not in sentences(golden)
    assert ALL_GRADIENTS in sentences(golden)
    for scale in (-1.0, 0.01):
        outcome = numbers.check(golden, Numeric(seed=9, later=-1.0, loss_scale=scale))
        assert not [title for title in found(outcome) if "loss" in title], found(outcome)


def test_a_loss_that_seeds_place_orders_of_magnitude_apart_has_no_band(numbers: Numbers) -> None:
    """Its band would reach so far that of the rule nothing but the sign were left."""
    assert LOSSES not in sentences(numbers.golden(Numeric(loss_spread=1.0)))
    assert LOSSES in sentences(numbers.golden(Numeric(loss_spread=0.1)))


def test_one_gradient_that_is_off_is_named_with_its_factor(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    outcome = numbers.check(golden, Numeric(seed=9, gradient={"fc.weight": 0.01, "conv.weight": 0.1}))
    (violation,) = violations(outcome, "Band")
    assert violation.title.startswith("The gradient of `CNN.fc.weight` has a norm of 0.00")
    assert " at step 0, " in violation.title
    assert " times smaller than in the golden runs (0." in violation.title
    assert violation.title.endswith("; 1 more is outside its band.")
    assert violation.variables == ("CNN.fc.weight", "CNN.conv.weight")
    assert violation.candidate.startswith("`CNN.fc.weight` 0.00")
    assert violation.source == f"train.py:{LINES['backward']}"


def test_a_gradient_that_is_not_finite_is_outside(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, nonfinite=("fc.bias",)))
    assert any("`CNN.fc.bias` has a norm of NaN or infinity at step 0" in title for title in found(outcome))


def test_another_initialisation_is_found(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, init={"fc.weight": 2.0}))
    (title,) = found(outcome)
    assert title.startswith("`CNN.fc.weight` is initialised with a root mean square of 0.0")
    assert ", 2.0 times larger than in the golden runs (0.05" in title


def test_a_few_elements_say_nothing_about_their_scale(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, init={"fc.bias": 2.0, "scale": 0.01}))
    assert not found(outcome)


def test_constants_stay_constants(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    assert any("`CNN.norm.weight`" in title for title in found(numbers.check(golden, Numeric(seed=9, ones=1.02))))
    (title,) = found(numbers.check(golden, Numeric(seed=9, ones=-1.0)))
    assert title.startswith("`CNN.norm.weight` is initialised with a mean of -1, where the golden runs have 1, ")
    (title,) = found(numbers.check(golden, Numeric(seed=9, zeroed=("conv.weight",)).but(ones=1.0)))[:1]
    assert "is initialised with a root mean square of" in title


def test_zero_stays_zero(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, zeroed=()))
    assert any(
        title.startswith("`CNN.norm.bias` is initialised with a root mean square of 1, where the golden runs have zero")
        for title in found(outcome)
    )


def test_a_gradient_that_is_rounding_noise_may_be_any_noise(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric(noise=1e-8))
    assert not found(numbers.check(golden, Numeric(seed=9, noise=1e-12)))
    golden = numbers.golden(Numeric(noise=0.0))
    assert not found(numbers.check(golden, Numeric(seed=9, noise=1e-8)))
    assert any("`CNN.conv.bias`" in title for title in found(numbers.check(golden, Numeric(seed=9, noise=0.5))))


def test_clipping_does_not_hide_the_scale_of_gradients(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric(clipped=True))
    outcome = numbers.check(golden, Numeric(seed=9, clipped=True, loss_scale=4.0))
    assert any(title.startswith("All gradients of `CNN` together are ") for title in found(outcome))


def test_updates_and_activations(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric(spread=0.05))
    (title,) = found(numbers.check(golden, Numeric(seed=9, spread=0.05, activation=4.0)))
    assert title.startswith("The output of `CNN.")
    assert "times larger than in the golden runs" in title
    titles = found(numbers.check(golden, Numeric(seed=9, spread=0.05, update=0.1)))
    assert any(title.startswith("The first updates of all parameters of `CNN` together are ") for title in titles)
    assert any(title.startswith("The first update of `CNN.") for title in titles)


def test_inputs_of_another_scale(numbers: Numbers) -> None:
    """Ten times as large, as where a division by the deviation of the data is gone. Half as large may be other data."""
    golden = numbers.golden(Numeric(spread=0.05))
    (title,) = found(numbers.check(golden, Numeric(seed=9, spread=0.05, given=10.0)))
    assert title.startswith("The input `CNN(images)` has a root mean square of ")
    assert "times larger than in the golden runs" in title
    assert not found(numbers.check(golden, Numeric(seed=9, spread=0.05, given=0.55)))


def test_views_in_another_order(numbers: Numbers) -> None:
    """`critic(fake).mean() - critic(real).mean()` calls the critic with what is real last, and is no other loss."""
    golden = numbers.golden(Numeric(spread=0.05, views=(0.1, 1.0)))
    assert not found(numbers.check(golden, Numeric(seed=9, spread=0.05, views=(1.0, 0.1))))
    assert found(numbers.check(golden, Numeric(seed=9, spread=0.05, views=(10.0, 0.1))))


def test_the_same_loss_in_two_parts_is_the_same_loss(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, microbatches=2))
    assert not found(outcome)


def test_ranks_are_judged_together(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric(ranks=2))
    assert not found(numbers.check(golden, Numeric(seed=9, ranks=2)))
    (violation,) = violations(numbers.check(golden, Numeric(seed=9, ranks=2, gradient={"fc.weight": 100.0})), "Band")
    assert violation.ranks == (0, 1)


# Where it must not speak


def test_one_golden_run_claims_nothing(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric(), seeds=(0,))
    assert not sentences(golden, "Band")
    assert not golden.numbers


def test_runs_that_do_not_differ_claim_nothing_but_the_initialisation(numbers: Numbers) -> None:
    """A script that fixes its own seed: its golden runs say nothing about another order of random draws."""
    golden = numbers.golden(Numeric(random=False))
    assert sorted(sentences(golden, "Band")) == sorted([INITIAL, MEANS])
    for seed in range(50, 60):
        assert not found(numbers.check(golden, Numeric(seed=seed)))


def test_another_platform_is_not_observable(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    outcome = numbers.check(golden, Numeric(seed=9, platform="linux-x86_64-cuda-h100", loss_scale=100.0))
    verdicts = [item for item in outcome.verdicts if item.invariant.relation == "Band"]
    assert {item.verdict for item in verdicts} == {Verdict.NOT_OBSERVABLE}
    assert {item.reason for item in verdicts} == {"no numbers for `linux-x86_64-cuda-h100`"}
    assert not outcome.incidents


def test_a_golden_without_numbers_is_not_observable(numbers: Numbers) -> None:
    golden = replace(numbers.golden(Numeric()), numbers={}, platform="")
    outcome = numbers.check(golden, Numeric(seed=9, platform=""))
    reasons = {item.reason for item in outcome.verdicts if item.invariant.relation == "Band"}
    assert reasons == {"no numbers for `an unknown platform`"}


def test_another_command_is_not_measured(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, loss_scale=100.0), same_spec=False)
    assert not found(outcome)


def test_a_renamed_class_and_a_renamed_parameter_are_no_change(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    assert not found(numbers.check(golden, Numeric(seed=9, name="Network")))
    assert not found(numbers.check(golden, Numeric(seed=9, renamed={"fc.weight": "head.weight"})))
    outcome = numbers.check(golden, Numeric(seed=9, name="Network", loss_scale=4.0))
    assert any(title.startswith("All gradients of `CNN` together") for title in found(outcome))


def test_a_model_of_which_most_is_renamed_has_no_common_scale(numbers: Numbers) -> None:
    golden = numbers.golden(Numeric())
    names = [name for name in SHAPES if name != "fc.weight"]
    story = Numeric(seed=9, renamed={name: f"body.{name}" for name in names}, loss_scale=4.0)
    titles = found(numbers.check(golden, story))
    assert titles
    assert not [title for title in titles if title.startswith("All ")]


def test_a_gradient_that_never_comes_is_the_subject_of_other_rules(numbers: Numbers) -> None:
    outcome = numbers.check(numbers.golden(Numeric()), Numeric(seed=9, absent=("fc.weight",)))
    assert violations(outcome)
    assert not found(outcome)
