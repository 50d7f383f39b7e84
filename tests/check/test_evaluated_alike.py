"""Programs that evaluate by other means and get what golden got, to the last bit: real training in this process."""

from __future__ import annotations

import copy
import sys
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

STEPS = 12


KEEPS = False


class Recurrent(nn.Module):
    """A cell with dropout on what it is given; where `KEEPS` it keeps its state itself instead of being given it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 6)
        self.kept: Any = None

    def forward(self, x: Any, state: Any = None, noisy: bool | None = None) -> Any:
        noisy = self.training if noisy is None else noisy
        before = self.kept if KEEPS and noisy else state
        after = self.cell(F.dropout(x, 0.3, noisy), before)
        if noisy:
            self.kept = after.detach()
        return after


@dataclass(frozen=True)
class Program:
    """Trains beside a target that follows every fourth step, and evaluates both then."""

    seed: int = 0
    target: str = "loads"
    """Begins by what it `loads`, or as a `copy`."""
    follows: int = 4
    by_hand: bool = False
    """Whether it follows without `load_state_dict`."""
    rows: int = 8
    """How many rows are evaluated."""
    told: str = "mode"
    """That it is evaluated a model is told by its `mode`, by an `argument`, or `never` (a bug)."""
    by: str = "target"
    """What is evaluated: the `target`, a `copy` of it, or `nothing` (a bug)."""
    forgets: bool = False
    """A bug: each step begins with no state."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model, x, y = Recurrent(), torch.randn(STEPS, 8, 5), torch.randn(STEPS, 8, 6)
        states = torch.random.get_rng_state()
        target = Recurrent() if self.target == "loads" else copy.deepcopy(model)
        torch.random.set_rng_state(states)
        if self.target == "loads":
            target.load_state_dict(model.state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        state = None
        for step in range(STEPS):
            out = model(x[step]) if KEEPS else model(x[step], None if self.forgets else state)
            state = out.detach()
            optimizer.zero_grad()
            F.mse_loss(out, y[step]).backward()
            optimizer.step()
            if step % self.follows == self.follows - 1:
                self._follow(target, model)
            if step % 4 == 3:
                self._evaluate(target, x.flatten(0, 1)[: self.rows])

    def _follow(self, target: Any, model: Any) -> None:
        if not self.by_hand:
            target.load_state_dict(model.state_dict())
            return
        with torch.no_grad():
            for mine, new in zip(target.parameters(), model.parameters(), strict=True):
                mine.copy_(new)

    def _evaluate(self, target: Any, x: Any) -> None:
        if self.by == "nothing":
            return
        judged = copy.deepcopy(target) if self.by == "copy" else target
        with torch.no_grad():
            if self.told == "mode":
                judged.eval()
            judged(x, None, False) if self.told == "argument" else judged(x)
            judged.train()


def record(directory: Path, program: Program) -> Run:
    with observe(directory, seed=program.seed):
        program()
    return load_run(directory)


def goldens(directory: Path, program: Program) -> Golden:
    runs = [record(directory / f"golden {seed}", replace(program, seed=seed)) for seed in range(3)]
    return learn(runs, pipeline="evaluated", seeds=(0, 1, 2), repeated=[record(directory / "again", program)])


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return goldens(tmp_path_factory.mktemp("golden"), Program())


WRITTEN_OTHERWISE = {
    "the target begins as a copy": Program(target="copy"),
    "an argument says that it is evaluated": Program(told="argument"),
    "a copy is evaluated": Program(by="copy"),
    "the first three at once": Program(target="copy", told="argument", by="copy"),
}


@pytest.mark.parametrize("how", WRITTEN_OTHERWISE)
def test_a_program_that_evaluates_otherwise_breaks_no_rule(golden: Golden, tmp_path: Path, how: str) -> None:
    outcome = check_run(golden, record(tmp_path, WRITTEN_OTHERWISE[how]), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_copy_that_follows_by_hand_breaks_no_rule(tmp_path: Path) -> None:
    """Whatever is evaluated, and whenever: it holds golden's values at all times."""
    golden = goldens(tmp_path, Program(follows=5))
    outcome = check_run(golden, record(tmp_path / "run", Program(follows=5, by_hand=True, rows=12)), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


def test_a_model_that_keeps_its_state_breaks_no_rule(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "KEEPS", True)
    outcome = check_run(golden, record(tmp_path, Program()), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


BUGS = {
    "evaluation with dropout": (Program(told="never"), "in eval mode; the candidate calls it in train mode"),
    "evaluation of a copy with dropout": (Program(told="never", by="copy"), "in evaluation"),
    "nothing is evaluated": (Program(by="nothing"), "in evaluation"),
    "the target follows less often": (Program(follows=6), "load_state_dict` was called after"),
    "the target follows by hand, and less often": (Program(follows=6, by_hand=True, rows=12), "averaged less often"),
    "the state is forgotten": (Program(forgets=True), "was given what it returned the call before"),
}


@pytest.mark.parametrize("what", BUGS)
def test_an_evaluation_that_comes_out_otherwise_is_found(golden: Golden, tmp_path: Path, what: str) -> None:
    program, said = BUGS[what]
    outcome = check_run(golden, record(tmp_path, program), same_spec=True)
    assert any(said in violation.title for violation in violations(outcome)), describe(outcome.incidents)


def test_another_seed_shows_nothing(golden: Golden, tmp_path: Path) -> None:
    """Without golden's seed nothing is known of what evaluation should give, and the rules are as strict as before."""
    outcome = check_run(golden, record(tmp_path, replace(Program(told="argument"), seed=6)), same_spec=True)
    assert any("in eval mode" in violation.title for violation in violations(outcome)), describe(outcome.incidents)
