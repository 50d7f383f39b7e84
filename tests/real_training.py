"""A small training that really runs, with one switch for each thing that may go wrong in it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.looks import NOTHING, Looks
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import Run, load_run

ROWS, INPUTS, HIDDEN, CLASSES = 64, 6, 8, 6


class Net(nn.Module):
    """Two layers, a normalisation and dropout, and a way back that shares the weight of the first layer."""

    def __init__(
        self,
        drop: float = 0.1,
        tied: bool = True,
        initialised: int = 1,
        act: Any = torch.tanh,
        heat: float = 1.0,
        head: Any = None,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, HIDDEN, bias=False)
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.drop = nn.Dropout(drop)
        self.head = nn.Linear(HIDDEN, CLASSES)
        self.back = nn.Linear(INPUTS, HIDDEN, bias=False)
        self.act = act
        self.heat = heat
        for _ in range(initialised):
            nn.init.xavier_uniform_(self.first.weight)
            nn.init.xavier_uniform_(self.head.weight)
        if tied:
            self.back.weight = self.first.weight
        if head is not None:
            self.head.weight = nn.Parameter(head(CLASSES, HIDDEN))

    def forward(self, inputs: Any) -> Any:
        logits = self.head(self.drop(self.act(self.norm(self.first(inputs)))))
        return logits if self.heat == 1 else logits / self.heat


@dataclass(frozen=True)
class Real:
    """The usual loop, under torch."""

    seed: int = 0
    epochs: int = 2
    batch_size: int = 8
    shuffle: bool = True
    same_batch: bool = False
    draw: Callable[..., Any] = torch.randn
    net: Mapping[str, Any] = field(default_factory=dict)
    lr: float = 0.01
    momentum: float = 0.9
    optimizer: Any = torch.optim.SGD
    held: Callable[[Net], Any] = lambda net: net.parameters()
    zero_grad: bool = True
    loss: Callable[[Any, Any], Any] = F.cross_entropy
    scale: float = 1.0
    loss_inputs: Callable[[Any], Any] = lambda logits: logits
    second_term: Callable[[Any], Any] | None = None
    noise: Callable[[Any], Any] | None = None
    """What is added to the inputs of training, drawn in their likeness."""
    after_backward: Callable[[Net], None] = lambda _net: None
    clip: str = "before the step"
    """`before the step`, `after the step` or `never`."""
    clipped: Callable[[Net], Any] = lambda net: net.parameters()
    skips: tuple[int, ...] = ()
    """Iterations without a step of the optimizer."""
    gamma: float = 0.5
    schedules: bool = True
    average_moves: bool = True
    decay: float = 0.9
    evaluates_in: str = "eval mode"
    """`eval mode`, `train mode`, or empty: never."""
    between: Callable[[Any], None] = lambda _optimizer: None
    """What is done with the optimizer between two steps."""
    before: Callable[[Any, Net], None] = lambda _optimizer, _net: None
    """What is done with the optimizer before the first step."""
    dataset: Any = TensorDataset
    follows: int = 0
    """After how many steps each a copy of the model takes its weights; 0: there is no such copy."""
    after_step: Callable[[Net], None] = lambda _net: None
    state: Callable[[Net], Any] = lambda net: net.state_dict()
    """What the average is loaded with."""
    saved: Callable[[Net], Any] = lambda net: net.state_dict()
    """What is saved at the end of each epoch."""
    stop_after: int = -1

    def but(self, **changes: Any) -> Real:
        """The same training with something changed."""
        return replace(self, **changes)

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        data = self.dataset(self.draw(ROWS, INPUTS), torch.randint(CLASSES, (ROWS,)))
        loader = DataLoader(data, batch_size=self.batch_size, shuffle=self.shuffle)
        net = Net(**self.net)
        average = Net(**self.net)
        average.load_state_dict(self.state(net), strict=False)
        target = copy.deepcopy(net) if self.follows else None
        optimizer = self.optimizer(self.held(net), lr=self.lr, momentum=self.momentum)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, self.gamma)
        self.before(optimizer, net)
        steps = 0
        for _ in range(self.epochs):
            net.train()
            kept = None
            for batch in loader:
                kept = batch if kept is None or not self.same_batch else kept
                self._train(steps, net, average, optimizer, kept)
                if self.schedules:
                    scheduler.step()
                steps += 1
                self.after_step(net)
                if target is not None and steps % self.follows == 0:
                    target.load_state_dict(net.state_dict())
                if steps == self.stop_after:
                    return
                self.between(optimizer)
            torch.save(self.saved(net), io.BytesIO())
            if not self.evaluates_in:
                continue
            net.train(self.evaluates_in == "train mode")
            with torch.no_grad():
                for inputs, targets in loader:
                    F.cross_entropy(net(inputs), targets)

    def _train(self, number: int, net: Net, average: Net, optimizer: Any, batch: Any) -> None:
        inputs, targets = batch
        if self.zero_grad:
            optimizer.zero_grad()
        if self.noise is not None:
            inputs = inputs + 0.1 * self.noise(inputs)
        logits = net(inputs)
        value = self.loss(self.loss_inputs(logits), targets) * self.scale
        if self.second_term is not None:
            value = value + self.second_term(logits)
        value.backward()
        self.after_backward(net)
        if self.clip == "before the step":
            nn.utils.clip_grad_norm_(self.clipped(net), 1.0)
        if number not in self.skips:
            optimizer.step()
        if self.clip == "after the step":
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if self.average_moves:
            with torch.no_grad():
                for mean, parameter in zip(average.parameters(), net.parameters(), strict=True):
                    mean.lerp_(parameter, 1 - self.decay)


def recorded(training: Callable[[], None], folder: Path, not_needed: Looks = NOTHING) -> Run:
    """Runs something under the probe, in this process, and reads the run."""
    with observe(folder, not_needed=not_needed):
        training()
    return load_run(folder)


def golden_of(training: Real, folder: Path, *, seeds: tuple[int, ...] = (0, 1)) -> Golden:
    """What several seeds of a training have in common."""
    runs = [recorded(training.but(seed=seed), folder / f"golden{seed}") for seed in seeds]
    return learn(runs, pipeline="real", seeds=seeds)


def check(golden: Golden, training: Real, folder: Path) -> CheckOutcome:
    """Runs a training and checks it, as golden's own command."""
    return check_run(golden, recorded(training, folder), same_spec=True)
