"""Layers that begin to train late: held by the optimizer from then on, or from the start where nothing shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from judgements import describe, violations

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.online.follow import Follower
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import Run, load_run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

STEPS, THAWS = 12, 4


@dataclass(frozen=True)
class Program:
    """Trains a head, and from step `THAWS` on the layer before it too, both with an annealed rate."""

    seed: int = 0
    from_the_start: bool = False
    """Whether the optimizer holds the frozen layer before it is trained."""
    rate: float = 0.05
    """Of the layer that is trained late."""
    thaws: int = THAWS
    first: str = "out"
    """The first layer, which is never trained, is in no optimizer, or it is `held` by it."""
    first_rate: float = 0.05

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        first, late, head = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        net = nn.Sequential(first, nn.Tanh(), late, nn.Tanh(), head)
        first.requires_grad_(False)
        late.requires_grad_(False)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
        bases = [0.1]

        def hold(layer: nn.Linear, rate: float) -> None:
            optimizer.add_param_group({"params": [*layer.parameters()], "lr": rate})
            bases.append(rate)

        if self.from_the_start:
            hold(late, self.rate)
        if self.first == "held":
            hold(first, self.first_rate)
        x, y = torch.randn(STEPS, 8, 5), torch.randint(3, (STEPS, 8))
        for step in range(STEPS):
            if step == self.thaws:
                late.requires_grad_(True)
                if not self.from_the_start:
                    hold(late, self.rate)
            for group, base in zip(optimizer.param_groups, bases, strict=True):
                group["lr"] = base * 0.5 * (1 + math.cos(math.pi * step / STEPS))
            optimizer.zero_grad()
            F.cross_entropy(net(x[step]), y[step]).backward()
            optimizer.step()


Teach = Callable[[Program], Golden]


def record(directory: Path, program: Program) -> Run:
    with observe(directory, seed=program.seed):
        program()
    return load_run(directory)


@pytest.fixture
def teach(tmp_path: Path) -> Teach:
    def learned(program: Program) -> Golden:
        runs = [record(tmp_path / f"golden {seed}", replace(program, seed=seed)) for seed in range(3)]
        again = [record(tmp_path / "again", program)]
        return learn(runs, pipeline="late", seeds=(0, 1, 2), repeated=again)

    return learned


@pytest.mark.parametrize("from_the_start", [False, True])
def test_since_when_a_frozen_layer_is_held_does_not_matter(teach: Teach, tmp_path: Path, from_the_start: bool) -> None:
    golden = teach(Program(from_the_start=from_the_start))
    outcome = check_run(golden, record(tmp_path / "run", Program(from_the_start=not from_the_start)), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


@pytest.mark.parametrize("from_the_start", [False, True])
def test_nothing_is_told_before_its_steps_show_that(teach: Teach, tmp_path: Path, from_the_start: bool) -> None:
    """A training that is watched is looked at long before all of golden's steps were taken."""
    golden = teach(Program(from_the_start=from_the_start))
    run = record(tmp_path / "run", Program(from_the_start=not from_the_start))
    follower = Follower(run.path, golden, same_spec=True, piece=40)
    looks = 0
    while not follower.over:
        looks += 1
        incidents = follower.advance()
        assert not incidents, describe(incidents)
    assert looks > STEPS


BUGS = {
    "another rate": (Program(from_the_start=True, rate=0.02), "lr"),
    "it begins too early": (Program(from_the_start=True, thaws=2), ""),
    "it never begins": (Program(from_the_start=True, thaws=STEPS), ""),
}


@pytest.mark.parametrize("what", BUGS)
def test_what_shows_is_found(teach: Teach, tmp_path: Path, what: str) -> None:
    program, said = BUGS[what]
    outcome = check_run(teach(Program()), record(tmp_path / "run", program), same_spec=True)
    assert any(said in violation.title for violation in violations(outcome)), describe(outcome.incidents)


def test_the_rate_of_what_never_moves_keeps_its_rule(teach: Teach, tmp_path: Path) -> None:
    """No value of the run depends on it, so that its values show nothing: it may begin to train after them."""
    golden = teach(Program(first="held"))
    outcome = check_run(golden, record(tmp_path / "run", Program(first="held", first_rate=0.5)), same_spec=True)
    assert any("lr" in violation.title for violation in violations(outcome)), describe(outcome.incidents)
