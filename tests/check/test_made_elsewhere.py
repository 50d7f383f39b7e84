"""Numbers that are drawn, and buffers that are moved, at another place than golden's, with every value of training
golden's: real training in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, violations

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import Run, load_run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

STEPS, ROWS = 6, 4


class Centred(nn.Module):
    """Subtracts a running mean, which is moved behind a call: by the model itself, or from outside."""

    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.out = nn.Linear(5, 3)
        self.follow = self.move if inside else lambda _: None
        self.register_buffer("mean", torch.zeros(5))

    def move(self, x: Any) -> None:
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.1)

    def forward(self, x: Any) -> Any:
        result = self.out(x - self.mean)
        self.follow(x)
        return result


class Jittered(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Examples for which numbers are drawn that nothing is made of, or which are not drawn."""

    def __init__(self, rows: Any, draws: bool) -> None:
        self._rows, self._draws = rows, draws

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Any:
        if self._draws:
            torch.rand(2)
        return self._rows[index]


@dataclass(frozen=True)
class Program:
    """Trains on noisy rows."""

    seed: int = 0
    moved: str = "inside"
    """The buffer is moved `inside` the model, `behind` its call, or `never` (a bug)."""
    noise: str = "in each step"
    """Drawn `in each step`, `once` for all, or `never` (a bug)."""
    by_workers: str = ""
    """Workers load the rows; what they draw for a row is `drawn`, or `left out`."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = Centred(self.moved == "inside")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rows, y = torch.rand(STEPS * ROWS, 5), torch.rand(STEPS, ROWS, 3)
        for x, target, noise in zip(self._batches(rows), y, self._noise(), strict=False):
            noisy = x + noise
            optimizer.zero_grad()
            loss = F.mse_loss(model(noisy), target)
            if self.moved == "behind":
                model.move(noisy)
            loss.backward()
            optimizer.step()

    def _batches(self, rows: Any) -> Any:
        if not self.by_workers:
            return rows.split(ROWS)
        return torch.utils.data.DataLoader(Jittered(rows, self.by_workers == "drawn"), ROWS, num_workers=1)

    def _noise(self) -> Iterator[Any]:
        if self.noise == "once":
            yield from torch.rand(STEPS, ROWS, 5)
        for _ in range(STEPS):
            yield torch.zeros(()) if self.noise == "never" else torch.rand(ROWS, 5)


def record(directory: Path, program: Program) -> Run:
    with observe(directory, seed=program.seed):
        program()
    return load_run(directory)


Teach = Callable[[Program], Golden]


@pytest.fixture
def teach(tmp_path: Path) -> Teach:
    def learned(program: Program) -> Golden:
        runs = [record(tmp_path / f"golden {seed}", replace(program, seed=seed)) for seed in range(3)]
        return learn(runs, pipeline="made", seeds=(0, 1, 2), repeated=[record(tmp_path / "again", program)])

    return learned


ELSEWHERE = {
    "the buffer is moved behind the call": Program(moved="behind"),
    "noise is drawn once": Program(noise="once"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_what_is_made_elsewhere_breaks_no_rule(teach: Teach, tmp_path: Path, what: str) -> None:
    outcome = check_run(teach(Program()), record(tmp_path / "run", ELSEWHERE[what]), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


BUGS = {
    "the buffer is never moved": (Program(moved="never"), "Centred.mean"),
    "no noise is drawn": (Program(noise="never"), "drew"),
}


@pytest.mark.parametrize("what", BUGS)
def test_what_is_not_made_at_all_is_found(teach: Teach, tmp_path: Path, what: str) -> None:
    program, said = BUGS[what]
    outcome = check_run(teach(Program()), record(tmp_path / "run", program), same_spec=True)
    assert any(said in violation.title for violation in violations(outcome)), describe(outcome.incidents)


def test_what_workers_draw_shows_in_no_step(teach: Teach, tmp_path: Path) -> None:
    golden = teach(Program(by_workers="drawn"))
    outcome = check_run(golden, record(tmp_path / "run", Program(by_workers="left out")), same_spec=True)
    assert any(violation.invariant.relation == "Drawn" for violation in violations(outcome)), describe(
        outcome.incidents
    )
