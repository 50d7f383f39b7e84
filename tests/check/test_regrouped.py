"""Programs that were cut into other pieces and train as before, bit by bit: real training, observed in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, violations

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.probe import observe
from pytest_traincheck.report import wording
from pytest_traincheck.report.terminal import render_result
from pytest_traincheck.trace import Run, load_run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

STEPS, RATE, GAMMA, DECAY, LIMIT = 9, 0.1, 0.5, 0.75, 0.5


def encoder() -> list[Any]:
    return [nn.Linear(6, 10), nn.BatchNorm1d(10), nn.Tanh(), nn.Dropout(0.2), nn.Linear(10, 8), nn.Tanh()]


class Net(nn.Module):
    """The program's own cut: one model, whose first layer is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*encoder())
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x))


class Features(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, norm, act, drop, second, last = encoder()
        self.enter = nn.ModuleDict({"project": first, "norm": norm})
        self.leave = nn.Sequential(act, drop, second, last)

    def forward(self, x: Any) -> Any:
        return self.leave(self.enter["norm"](self.enter["project"](x)))


class LossHead(nn.Module):
    """The last layer and the loss in one."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 4)

    def forward(self, features: Any, targets: Any) -> Any:
        return F.cross_entropy(self.scores(features), targets)


class Classifier(nn.Module):
    """Another name, other attributes, one level more."""

    def __init__(self) -> None:
        super().__init__()
        self.body = Features()
        self.classify = nn.ModuleList([nn.Linear(8, 4)])

    def forward(self, x: Any) -> Any:
        return self.classify[0](self.body(x))


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Any, targets: Any) -> Any:
        return F.cross_entropy(self.net(x), targets)


@dataclass
class Batch:
    inputs: Any
    targets: Any


class TakesBatch(Net):
    def forward(self, x: Any) -> Any:
        return super().forward(x.inputs)


@dataclass
class Parts:
    """A model in whatever pieces: how it is trained, how it is evaluated, and its modules."""

    modules: list[Any]
    loss: Callable[[Any, Any], Any]
    scores: Callable[[Any], Any]

    def parameters(self) -> Iterator[Any]:
        for module in self.modules:
            yield from module.parameters()

    @property
    def trained(self) -> list[Any]:
        return [module for module in self.modules if next(module.parameters(), None) is not None]

    def train(self, mode: bool) -> None:
        for module in self.modules:
            module.train(mode)


def whole(net: Any) -> Parts:
    return Parts([net], lambda x, y: F.cross_entropy(net(x), y), net)


def evaluated_in_parts(net: Any) -> Parts:
    return replace(whole(net), scores=lambda x: net.head(net.encoder(x)))


def encoder_and_head() -> Parts:
    body, head = Features(), LossHead()
    return Parts([body, head], lambda x, y: head(body(x), y), lambda x: head.scores(body(x)))


def list_of_layers() -> Parts:
    layers = [*encoder(), nn.Linear(8, 4)]

    def scores(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    return Parts(layers, lambda x, y: F.cross_entropy(scores(x), y), scores)


def with_loss() -> Parts:
    both = WithLoss()
    return Parts([both], both, both.net)


def batches_of_a_class() -> Parts:
    net = TakesBatch()
    return Parts([net], lambda x, y: F.cross_entropy(net(Batch(x, y)), y), lambda x: net(Batch(x, None)))


@dataclass(frozen=True)
class Program:
    """A training; every field but the bugs is a way to write the same."""

    seed: int = 0
    parts: Callable[[], Parts] = lambda: whole(Net())
    schedule: str = "class"
    """Of torch's `class`, by `hand`, or `none` at all (a bug)."""
    gamma: float = GAMMA
    average: str = "class"
    decay: float = DECAY
    clip: str = "function"
    """torch's `function`, by `hand`, or `none` at all (a bug, where it would have cut)."""
    limit: float = LIMIT
    cleared: str = "optimizer"
    frozen_held: bool = False
    groups: str = "one"
    forgotten: bool = False
    """A bug: the optimizer does not get the last layer."""
    evaluates: bool = True

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        parts = self.parts()
        parameters = list(parts.parameters())
        for parameter in parameters[:2]:
            parameter.requires_grad_(False)
        optimizer = torch.optim.SGD(self._held(parameters), lr=RATE, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, self.gamma) if self.schedule == "class" else None
        averages = self._averages(parts)
        x, y = torch.randn(STEPS, 8, 6), torch.randint(4, (STEPS, 8))
        for step in range(STEPS):
            parts.train(True)
            self._clear(optimizer, parameters)
            parts.loss(x[step], y[step]).backward()
            self._clip([parameter for parameter in parameters if parameter.requires_grad])
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
            elif self.schedule == "hand" and step % 3 == 2:
                for group in optimizer.param_groups:
                    group["lr"] *= self.gamma
            self._follow(averages, parts, step)
            if self.evaluates and step % 4 == 3:
                parts.train(False)
                with torch.no_grad():
                    F.cross_entropy(parts.scores(x[0]), y[0])

    def _held(self, parameters: list[Any]) -> list[Any]:
        held = [parameter for parameter in parameters if parameter.requires_grad or self.frozen_held]
        held = held[:-2] if self.forgotten else held
        if self.groups == "one":
            return held
        return [{"params": [each for each in held if each.ndim == ndim]} for ndim in (2, 1)]

    def _averages(self, parts: Parts) -> list[Any]:
        if self.average == "class":
            averaging = torch.optim.swa_utils.get_ema_multi_avg_fn(self.decay)
            return [torch.optim.swa_utils.AveragedModel(each, multi_avg_fn=averaging) for each in parts.trained]
        return [copy.deepcopy(each) for each in parts.trained]

    def _follow(self, averages: list[Any], parts: Parts, step: int) -> None:
        for average, module in zip(averages, parts.trained, strict=True):
            if self.average == "class":
                average.update_parameters(module)
                continue
            with torch.no_grad():
                for mine, new in zip(average.parameters(), module.parameters(), strict=True):
                    mine.lerp_(new, 1.0 if step == 0 else 1 - self.decay)
                for mine, new in zip(average.buffers(), module.buffers(), strict=True):
                    mine.copy_(new)

    def _clear(self, optimizer: Any, parameters: list[Any]) -> None:
        if self.cleared == "optimizer":
            optimizer.zero_grad()
        else:
            for parameter in parameters:
                parameter.grad = None

    def _clip(self, parameters: list[Any]) -> None:
        if self.clip == "function":
            nn.utils.clip_grad_norm_(parameters, self.limit)
        elif self.clip == "hand":
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in gradients]))
            for gradient in gradients:
                gradient.mul_(torch.clamp(self.limit / (norm + 1e-6), max=1.0))


def record(directory: Path, program: Program) -> Run:
    with observe(directory, seed=program.seed):
        program()
    return load_run(directory)


def goldens(directory: Path, program: Program) -> Golden:
    runs = [record(directory / f"golden {seed}", replace(program, seed=seed)) for seed in range(3)]
    again = [record(directory / "again", program)]
    return learn(runs, pipeline="regrouped", seeds=(0, 1, 2), repeated=again)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return goldens(tmp_path_factory.mktemp("golden"), Program())


WRITTEN_OTHERWISE = {
    "the encoder and a head with the loss are two models": Program(parts=encoder_and_head),
    "the model is a list of layers": Program(parts=list_of_layers),
    "the class has another name, other attributes and one level more": Program(parts=lambda: whole(Classifier())),
    "the loss is in the model": Program(parts=with_loss),
    "evaluation calls the parts of the model": Program(parts=lambda: evaluated_in_parts(Net())),
    "batches are a class": Program(parts=batches_of_a_class),
    "the schedule is written by hand": Program(schedule="hand"),
    "the average is written by hand": Program(average="hand"),
    "gradients are clipped by hand": Program(clip="hand"),
    "gradients are cleared by hand": Program(cleared="hand"),
    "the optimizer holds what is frozen": Program(frozen_held=True),
    "the optimizer has two groups": Program(groups="two"),
    "all at once": Program(
        parts=encoder_and_head, schedule="hand", average="hand", clip="hand", cleared="hand", frozen_held=True
    ),
}


@pytest.mark.parametrize("how", WRITTEN_OTHERWISE)
def test_a_program_that_is_written_otherwise_breaks_no_rule(golden: Golden, tmp_path: Path, how: str) -> None:
    outcome = check_run(golden, record(tmp_path, WRITTEN_OTHERWISE[how]), same_spec=True)
    assert not outcome.incidents, describe(outcome.incidents)


BUGS = {
    "the schedule is gone": (Program(schedule="none"), "StepLR.step"),
    "gradients are not clipped": (Program(clip="none"), "clip_grad_norm_"),
    "the last layer is in no optimizer": (Program(forgotten=True), "in no optimizer"),
    "nothing is evaluated, in other pieces": (Program(parts=encoder_and_head, evaluates=False), "in evaluation"),
    "the average never follows, in other pieces": (
        Program(parts=encoder_and_head, average="hand", decay=1.0),
        "AveragedModel.update_parameters",
    ),
    "the schedule is gone, in other pieces": (Program(parts=list_of_layers, schedule="none"), "StepLR.step"),
}


@pytest.mark.parametrize("what", BUGS)
def test_a_bug_is_found_in_a_program_that_was_cut_otherwise_as_well(golden: Golden, tmp_path: Path, what: str) -> None:
    program, said = BUGS[what]
    outcome = check_run(golden, record(tmp_path, program), same_spec=True)
    assert any(said in violation.title for violation in violations(outcome)), describe(outcome.incidents)


DOES_NOTHING_YET = {
    "a schedule that begins after the run": (Program(gamma=1.0), Program(gamma=1.0, schedule="none"), "StepLR.step"),
    "clipping that did not bite": (Program(limit=1e4), Program(limit=1e4, clip="none"), "clip_grad_norm_"),
}


@pytest.mark.parametrize("what", DOES_NOTHING_YET)
def test_what_did_nothing_in_golden_is_missed_all_the_same(tmp_path: Path, what: str) -> None:
    # Every value of the run is golden's with it and without it, so that they are evidence of nothing.
    usual, without, said = DOES_NOTHING_YET[what]
    outcome = check_run(goldens(tmp_path, usual), record(tmp_path / "candidate", without), same_spec=True)
    assert any(said in violation.title for violation in violations(outcome)), describe(outcome.incidents)


def test_the_report_says_what_was_excused_and_by_what(golden: Golden, tmp_path: Path) -> None:
    outcome = check_run(golden, record(tmp_path, Program(schedule="hand")), same_spec=True)
    result = CheckResult("net", outcome.verdicts, outcome.incidents)
    (line,) = [line for line in wording.excused(result) if "StepLR" in line]
    assert line.startswith("1 rule broken without effect, since all learning rates were golden's in all 9 steps, and ")
    assert [item["evidence"] for item in result.to_json()["excused"] if "StepLR" in item["sentence"]]
    assert "excused:" in render_result(result).plain


def test_another_seed_shows_nothing(golden: Golden, tmp_path: Path) -> None:
    outcome = check_run(golden, record(tmp_path, Program(seed=5, schedule="hand")), same_spec=True)
    assert any("StepLR.step" in violation.title for violation in violations(outcome))
