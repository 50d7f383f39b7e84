"""How much of golden's comparisons took place, and where a run with golden's seed went another way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from replays import PAD, Record, adamw, train  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from pytest_traincheck.check.coverage import warnings_of  # noqa: E402
from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.check.result import Coverage, Parted, Verdict  # noqa: E402
from pytest_traincheck.golden.chance import chance, not_repeating  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.probe import observe  # noqa: E402
from pytest_traincheck.trace import Run, load_run  # noqa: E402

Seeded = Callable[..., Run]


@pytest.fixture
def seeded(tmp_path: Path) -> Seeded:
    """Records what is run, as with `--seed`."""
    count = 0

    def record(something: Callable[[], Any], seed: int = 0) -> Run:
        nonlocal count
        count += 1
        with observe(tmp_path / f"run{count}", seed=seed):
            something()
        return load_run(tmp_path / f"run{count}")

    return record


def small(
    seed: int = 0,
    *,
    wide: bool = True,
    drawn: int = 0,
    flipped: bool = False,
    shifted: bool = False,
    loaded: bool = False,
    chance: bool = False,
    dropout: bool = True,
    noise: int = 0,
    reseeded: int = 0,
) -> Callable[[], None]:
    """Trains a classifier from a loader; each switch is a change that leaves every call where it is."""

    def run() -> None:
        torch.manual_seed(seed)
        own = torch.Generator()
        if chance:
            own.seed()
        else:
            own.manual_seed(7)
        images = torch.randn(32, 12, generator=own)
        labels = torch.randint(0, 5, (32,), generator=own)
        if flipped:
            images, labels = images.flip(0), labels.flip(0)
        if shifted:
            labels = (labels + 1) % 5
        parts = [nn.Linear(12, 8), *([nn.Dropout(0.5)] if dropout else []), nn.Linear(8, 5)]
        nn.init.normal_(parts[0].weight if wide else parts[0].weight[:4], std=0.1)
        model = nn.Sequential(*parts)
        if loaded:
            model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})
        stepping = adamw(model.parameters())
        if drawn:
            torch.rand(drawn)
        for inputs, targets in DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True):
            stepping.zero_grad()
            if reseeded:
                np.random.seed(reseeded)
            noisy = 1 + float(np.random.uniform(size=noise).sum())
            nn.functional.cross_entropy(noisy * model(inputs), targets).backward()
            stepping.step()

    return run


def golden_of(seeded: Seeded, *, again: bool = True, **changes: Any) -> Golden:
    runs = [seeded(small(seed, **changes), seed) for seed in (0, 1)]
    repeated = [seeded(small(0, **changes))] if again else []
    return learn(runs, pipeline="small", seeds=(0, 1), repeated=repeated)


def covered(golden: Golden, run: Run) -> Coverage:
    found = check_run(golden, run, same_spec=True).coverage
    assert found is not None
    return found


def parted(coverage: Coverage) -> str:
    assert coverage.parted is not None
    return coverage.parted.what


def warned(coverage: Coverage) -> bool:
    return bool(warnings_of(coverage))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"noise": 16}, "the code before `Sequential` draws 32 numbers, in the golden run 96"),
        ({"noise": 48, "reseeded": 7}, "the generator is seeded differently"),
    ],
)
def test_numbers_drawn_in_the_loop_are_drawn_before_the_call_that_finds_them(
    seeded: Seeded, change: dict[str, Any], place: str
) -> None:
    np.random.seed(0)
    golden = golden_of(seeded, again=False, noise=48)
    np.random.seed(0)
    found = covered(golden, seeded(small(**change)))
    assert parted(found) == f"random numbers of numpy: {place}"


def test_the_same_run_again_is_compared_in_full(seeded: Seeded) -> None:
    found = covered(golden_of(seeded), seeded(small()))
    assert found.comparisons > 20
    assert (found.made, found.share, found.floor, found.repeats, found.parted) == (found.comparisons, 1, 1, True, None)
    assert not warned(found)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"wide": False}, "random numbers of torch: `normal_` draws 48 numbers, in the golden run 96"),
        ({"drawn": 3}, "random numbers of torch: `rand` draws where `random_` does in the golden run"),
        ({"flipped": True}, "first batch: the inputs (`batch[0]`) and the targets (`batch[1]`) differ"),
    ],
    ids=["an initialiser draws fewer numbers", "one more draw before the loader", "another order of the data"],
)
def test_a_run_with_goldens_seed_that_went_another_way_is_a_warning_with_the_place(
    seeded: Seeded, change: dict[str, Any], place: str
) -> None:
    outcome = check_run(golden_of(seeded), seeded(small(**change)), same_spec=True)
    assert not outcome.incidents
    assert outcome.coverage is not None
    found = outcome.coverage
    assert found.share < 0.1
    assert found.parted is not None
    assert (parted(found), found.parted.step, found.parted.reported) == (place, 0, False)
    (warning,) = warnings_of(found)
    assert warning.kind == "coverage"
    assert place in warning.title
    assert not warning.fails
    assert warning.source.partition(":")[0].endswith("test_replay_coverage.py")
    assert warnings_of(found, strict=True)[0].fails
    reasons = {item.reason for item in outcome.verdicts if item.verdict is Verdict.NOT_TRIGGERED}
    assert "no call had the inputs of the golden run: the runs first differ in step 0" in reasons
    assert not any("seed" in reason for reason in reasons)


def test_what_was_not_compared_is_counted_with_its_reason(seeded: Seeded) -> None:
    """The loader has an order of its own, so that only dropout draws otherwise."""

    def own_order(drawn: int) -> Callable[[], None]:
        def run() -> None:
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 5))
            stepping = adamw(model.parameters())
            torch.rand(drawn)
            images = torch.arange(384.0).view(32, 12) / 384
            for inputs, targets in DataLoader(TensorDataset(images, torch.arange(32) % 5), batch_size=8):
                stepping.zero_grad()
                nn.functional.cross_entropy(model(inputs), targets).backward()
                stepping.step()

        return run

    golden = learn([seeded(own_order(0))], pipeline="small", seeds=(0,), repeated=[seeded(own_order(0))])
    found = covered(golden, seeded(own_order(3)))
    reasons = dict(found.reasons)
    assert sum(reasons.values()) == found.comparisons - found.made
    assert reasons["drew other random numbers"] >= 2
    assert warned(found)
    # Without a place where the runs part the reason is said.
    (warning,) = warnings_of(replace(found, parted=None))
    assert "drew other random numbers" in warning.title


def test_what_a_rule_tells_needs_no_warning_beside_it(seeded: Seeded) -> None:
    """Weights that are not those of golden, drawn from the same numbers: the incident names them."""
    outcome = check_run(golden_of(seeded), seeded(small(loaded=True)), same_spec=True)
    assert outcome.coverage is not None
    assert "Replay" in {item.cause.invariant.relation for item in outcome.incidents}
    assert parted(outcome.coverage).startswith("initial values of")
    assert outcome.coverage.parted is not None
    assert outcome.coverage.parted.reported
    assert not warned(outcome.coverage)


def test_targets_that_do_not_belong_to_their_inputs_are_the_place(seeded: Seeded) -> None:
    found = covered(golden_of(seeded), seeded(small(shifted=True)))
    assert parted(found) == "batch: the targets (`batch[1]`) differ, the inputs (`batch[0]`) are as in the golden run"


def test_another_seed_is_called_that_and_is_no_warning(seeded: Seeded) -> None:
    outcome = check_run(golden_of(seeded), seeded(small(5), 5), same_spec=True)
    assert outcome.coverage is not None
    assert outcome.coverage.share < 0.1
    assert outcome.coverage.parted == Parted("seed 5 instead of 0")
    assert not warned(outcome.coverage)
    reasons = {item.reason for item in outcome.verdicts if item.verdict is Verdict.NOT_TRIGGERED}
    assert "no call had the inputs of the golden run: seed 5 instead of 0" in reasons


def test_another_command_is_called_that_and_is_no_warning(seeded: Seeded) -> None:
    found = check_run(golden_of(seeded), seeded(small()), same_spec=False).coverage
    assert found is not None
    assert found.parted == Parted("a different command than that of the golden run")
    assert not warned(found)


def test_golden_that_does_not_repeat_asks_for_no_more_than_it_repeats(seeded: Seeded) -> None:
    golden = golden_of(seeded, chance=True)
    found = covered(golden, seeded(small(chance=True)))
    assert found.repeats is False
    assert found.floor < 0.1
    assert not warned(found)
    (doubt,) = not_repeating(golden)
    assert "Two golden runs with the same seed differ" in doubt
    # What golden does repeat, its weights, is still expected.
    assert warned(covered(golden, seeded(small(chance=True, wide=False))))


def test_where_no_seed_was_run_twice_the_warning_says_that(seeded: Seeded) -> None:
    golden = golden_of(seeded, again=False)
    assert not warned(covered(golden, seeded(small())))
    (warning,) = warnings_of(covered(golden, seeded(small(drawn=3))))
    assert "Whether the golden run repeats itself is not known; `traincheck refresh` finds out." in warning.title


def test_two_runs_of_one_seed_are_enough_to_know(seeded: Seeded) -> None:
    golden = learn([seeded(small()), seeded(small())], pipeline="small", seeds=(0,))
    assert golden.recording is not None
    assert golden.recording.unrepeated == ()


def test_without_a_seed_nobody_can_tell(record: Record) -> None:
    """A test that gives no seed may train otherwise each time."""
    golden = learn([record(small(0))], pipeline="small")
    found = covered(golden, record(small(1)))
    assert found.excuse == "no seed is known"
    assert not warned(found)


def in_two_functions(logits: Any, labels: Any) -> Any:
    return nn.functional.nll_loss(logits.log_softmax(-1).flatten(0, 1), labels.flatten(), ignore_index=PAD)


def test_what_is_rewritten_parts_nothing(golden: Any, record: Record) -> None:
    """Other functions for the same: less is compared, and what is given stays golden's."""
    found = covered(golden, record(train(fused=True, loss=in_two_functions)))
    assert 0.5 < found.share < 1
    assert found.parted is None


def test_an_evaluation_that_draws_is_no_parting_where_the_training_goes_on_as_before(seeded: Seeded) -> None:
    """Without dropout nothing is drawn after the shuffling, so one more draw then changes nothing."""
    golden = golden_of(seeded, dropout=False)

    def later() -> None:
        small(dropout=False)()
        torch.rand(3)

    assert covered(golden, seeded(later)).share == 1


def test_a_command_that_ignores_its_seed_is_noticed(seeded: Seeded) -> None:
    golden = learn([seeded(small(), seed) for seed in (0, 1, 2)], pipeline="small", seeds=(0, 1, 2))
    assert golden.ignores_seed
    (doubt,) = chance(replace(golden, runs=3))
    assert "the command ignores its seed" in doubt
    assert not golden_of(seeded).ignores_seed


def test_a_golden_of_one_seed_is_said_to_be_one(seeded: Seeded) -> None:
    (doubt,) = chance(learn([seeded(small())], pipeline="small", seeds=(0,)))
    assert "learned from one seed" in doubt
    assert not chance(golden_of(seeded))


def test_nothing_is_compared_on_another_platform(seeded: Seeded) -> None:
    golden = replace(golden_of(seeded), platform="elsewhere")
    outcome: CheckOutcome = check_run(golden, seeded(small()), same_spec=True)
    assert outcome.coverage == Coverage()
    assert not warnings_of(outcome.coverage)


def test_runs_that_differ_where_nothing_is_compared_are_a_warning() -> None:
    """All one comparison of a program took place, and its parameters are others in the second step."""
    parted = Parted("parameters: `Net` has a different `Net.weight`", 1, "train.py:7")
    found = Coverage(comparisons=1, made=1, floor=1.0, repeats=True, parted=parted)
    (warned,) = warnings_of(found, strict=True)
    assert warned.fails
    assert warned.title.endswith(
        "but the runs differ in step 1: parameters: `Net` has a different `Net.weight`. Nothing that leads there is "
        "compared."
    )
    assert not warnings_of(replace(found, parted=replace(parted, reported=True)))
    assert not warnings_of(replace(found, parted=None))
