"""The steps behind the recorded ones: compared as wholes, as long as all that they are given is golden's to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from replays import Judge, replayed  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from pytest_traincheck.check.coverage import behind_incidents  # noqa: E402
from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.check.result import Coverage, LaterSteps  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.golden.recording import Recording  # noqa: E402
from pytest_traincheck.golden.step_log import StepLog  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.replay.later import later  # noqa: E402
from pytest_traincheck.trace import Run  # noqa: E402

ROWS, SIZE, STEPS, LATE = 48, 6, 14, 9
OWN = torch.Generator().manual_seed(5)
DATA = torch.randn(ROWS, SIZE, generator=OWN)
TARGETS = torch.randn(ROWS, SIZE, generator=OWN)


class Coded(nn.Module):
    """A network beside a codebook that is a buffer and follows what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(SIZE, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, SIZE))
        self.register_buffer("code", torch.zeros(SIZE))
        self.decay, self.scales = 0.9, 1.0

    def forward(self, x: Any) -> Any:
        x = x * self.scales
        with torch.no_grad():
            self.code.mul_(self.decay).add_((1 - self.decay) * x.mean(0))
        return self.net(x) + self.code


@dataclass(frozen=True)
class Training:
    """A training loop with dropout that does something else from a late step on."""

    loads: bool = False
    weight: float = 0.1
    power: int = 2
    decay: float = 0.9
    gradients: float = 1.0
    clamp: float = 10.0
    scale: float = 1.0
    targets: float = 1.0
    rate: float = 0.05
    rounds: bool = False
    draws: bool = False
    steps: int = STEPS
    nudge: float = 1.0
    """What every parameter is multiplied by behind a late step."""
    inside: float = 1.0
    """By how much the model, and not the loop, multiplies its input, in every step."""
    closure: bool = False
    """Whether the optimizer calls for the gradients itself."""
    clears: bool = False
    """Whether no gradients are left behind a step."""
    loud: bool = False
    """From the first step on instead."""

    def __call__(self, seed: int) -> None:
        torch.manual_seed(seed)
        model = Coded()
        model.scales = self.inside
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for step, (batch, targets) in zip(range(self.steps), self._batches(seed), strict=False):
            late = self.loud or step >= LATE
            model.decay = self.decay if late else 0.9
            optimizer.param_groups[0]["lr"] = self.rate if late else 0.05
            if self.draws and late:
                torch.rand(1)

            def closure(late: bool = late, batch: Any = batch, targets: Any = targets) -> Any:
                out = model(batch * (self.scale if late else 1.0) / self.inside)
                fit = nn.functional.mse_loss(out, targets * (self.targets if late else 1.0))
                size = out.abs().pow(self.power if late else 2).mean() * (self.weight if late else 0.1)
                loss = (fit + size + fit) - fit if self.rounds and late else fit + size
                optimizer.zero_grad()
                loss.backward(torch.tensor(self.gradients if late else 1.0))
                return loss

            if self.closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
            if self.clears:
                optimizer.zero_grad()
            if late:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.clamp_(-self.clamp, self.clamp).mul_(self.nudge)

    def _batches(self, seed: int) -> Iterator[Any]:
        order = torch.Generator().manual_seed(seed)
        loader = DataLoader(TensorDataset(DATA, TARGETS), 8, shuffle=True, generator=order)
        while True:
            if self.loads:
                yield from loader
            else:
                chosen = torch.randperm(ROWS, generator=order)[:8]
                yield DATA[chosen], TARGETS[chosen]


def steps(golden: Golden, run: Run) -> LaterSteps:
    found = check_run(golden, run, same_spec=True).coverage
    assert found is not None
    return found.later


KNOWN = STEPS - 2

BREAKS = {
    "another weight of a term": (
        Training(weight=0.5),
        "`backward` starts from a different loss",
        "; a term of it is multiplied by 0.5 instead of 0.1",
    ),
    "another power of a term": (
        Training(power=3),
        "different loss",
        "; `torch.nn.functional.mse_loss` returned the same: a weight of a term, or another term, is different",
    ),
    "another codebook": (Training(decay=0.2), "different loss", "; `Coded.code` has other values from step 9 on"),
    "other gradients": (
        Training(gradients=2.0),
        "`SGD[Coded]` is given different gradients of",
        "the loss is the same",
    ),
    "other values after the step": (Training(clamp=0.2), "`SGD[Coded]` leaves other values of", "to the last bit"),
    "another input": (Training(scale=2.0), "`Coded` is given something else", "and the same random numbers"),
    "other targets": (
        Training(targets=2.0),
        "different loss",
        "; the first number that differs is what `torch.nn.functional.mse_loss` returns",
    ),
}


KINDS = {
    "by hand": Training(),
    "with a loader": Training(loads=True),
    "with a closure": Training(closure=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BREAKS)
def test_a_late_break_is_found_in_its_step(name: str, kind: str, judge: Judge) -> None:
    broken, title, reason = BREAKS[name]
    if KINDS[kind].closure and name == "another codebook":
        reason = "what `torch.nn.functional.mse_loss` returns"  # The buffer moves within the step here, not before it.
    golden = judge.golden(KINDS[kind])
    run = judge.run(replace(broken, loads=KINDS[kind].loads, closure=KINDS[kind].closure))
    found = [item for item in replayed(golden, run) if item.step == LATE]
    assert len(found) == 1
    assert title in found[0].title
    assert reason in found[0].title
    assert f"tep {LATE}" in found[0].title


def test_the_same_training_is_compared_to_its_end(judge: Judge) -> None:
    golden = judge.golden(Training())
    run = judge.run(Training())
    assert not replayed(golden, run)
    assert steps(golden, run) == LaterSteps(KNOWN, KNOWN)


@pytest.mark.parametrize("closure", [False, True])
def test_gradients_that_no_step_uses_may_be_left_behind(closure: bool, judge: Judge) -> None:
    golden = judge.golden(Training(closure=closure))
    run = judge.run(Training(closure=closure, clears=True))
    assert not replayed(golden, run)
    assert steps(golden, run) == LaterSteps(KNOWN, KNOWN)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (Training(rounds=True), "round otherwise"),
        (Training(draws=True), "drew other random numbers"),
        (Training(rate=0.01), "have other learning rates"),
        (Training(steps=LATE), "were not made"),
    ],
    ids=["rounding", "draws", "another rate", "fewer steps"],
)
def test_what_is_not_golden_s_owes_nothing(other: Training, why: str, judge: Judge) -> None:
    golden = judge.golden(Training())
    run = judge.run(other)
    assert not [item for item in replayed(golden, run) if "to the last bit" in item.title]
    assert steps(golden, run) == LaterSteps(KNOWN, LATE - 2, why)


def test_values_that_are_off_by_rounding_owe_nothing(judge: Judge) -> None:
    golden = judge.golden(Training())
    run = judge.run(Training(nudge=1 + 2**-22))
    assert not replayed(golden, run)
    assert steps(golden, run) == LaterSteps(KNOWN, LATE - 2, "differ"), "that something is written there is an incident"


def test_what_is_off_by_little_behind_an_incident_is_no_rounding() -> None:
    lost = [LaterSteps(8, 2, "round otherwise"), LaterSteps(8, 2, "drew other random numbers")]
    told = [behind_incidents(Coverage(later=later_steps)).later for later_steps in lost]
    assert told == [LaterSteps(8, 2, "differ"), lost[1]]


@pytest.mark.parametrize(
    ("values", "why"), [((12, 11), "name their parameters otherwise"), ((12, 13), "train other parameters")]
)
def test_parameters_under_other_names_are_no_other_parameters(values: tuple[int, int], why: str) -> None:
    """What begins with the same values is the same, though nobody can say which is which."""

    def log(names: tuple[str, ...], first: tuple[int, int]) -> StepLog:
        return StepLog((), names, (), np.array([first], dtype=np.uint64), np.empty((0, 2), dtype=np.uint64))

    assert later(log(("a", "b"), (11, 12)), log(("c", "d"), values), 0).lost == why


def test_a_model_that_begins_elsewhere_owes_nothing(judge: Judge) -> None:
    """What the loop did with a batch its model does now: the same is computed of it, to the last bit."""
    golden = judge.golden(Training())
    run = judge.run(Training(inside=2.0))
    assert not [item for item in replayed(golden, run) if "to the last bit" in item.title]
    assert steps(golden, run) == LaterSteps(KNOWN, 0, "call models that begin elsewhere")


def test_another_seed_owes_nothing(judge: Judge) -> None:
    golden = judge.golden(Training())
    run = judge.run(Training(), seed=7)
    assert not replayed(golden, run)
    assert steps(golden, run).compared == 0


def test_what_breaks_from_the_start_is_no_matter_of_later_steps(judge: Judge) -> None:
    golden = judge.golden(Training())
    found = replayed(golden, judge.run(Training(weight=0.5, loud=True)))
    assert [item.title for item in found if item.title.endswith("; a term of it is multiplied by 0.5 instead of 0.1.")]
    assert not [item for item in found if "to the last bit" in item.title]


def test_golden_runs_that_part_claim_nothing_from_there_on(judge: Judge) -> None:
    """A clock, a race, files that a run leaves behind: what a second run with the seed does otherwise is no rule."""
    golden = judge.golden(Training(), again=Training(weight=0.3))
    run = judge.run(Training(weight=0.5))
    assert not [item for item in replayed(golden, run) if "to the last bit" in item.title]
    assert steps(golden, run) == LaterSteps(LATE - 2, LATE - 2)


def test_nothing_is_known_without_a_second_run(judge: Judge) -> None:
    golden = learn([judge.run(Training(), seed) for seed in (0, 1)], pipeline="later", seeds=(0, 1))
    assert steps(golden, judge.run(Training(weight=0.5))) == LaterSteps()


def test_a_run_without_later_steps_has_lost_none(judge: Judge) -> None:
    golden = judge.golden(Training(steps=2))
    assert steps(golden, judge.run(Training(steps=2), seed=7)) == LaterSteps()


def test_a_log_survives_its_file(judge: Judge) -> None:
    recording = judge.golden(Training()).recording
    assert recording is not None
    assert len(recording.logs[0].steps) == STEPS
    again = Recording.from_arrays(*recording.to_arrays())
    assert again == recording
    assert again is not None
    assert (again.logs[0].values == recording.logs[0].values).all()
