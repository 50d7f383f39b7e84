"""Training loops told in a few lines, and written as traces.

`Training` knows what the statements of a loop do to gradients and parameters, so that a missing `zero_grad` or a
forgotten parameter leaves in the trace what it would leave in life. `Loop` is the usual loop with one switch for each
thing that may go wrong or differ; `record` runs it on every rank and reads the result back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trace_builder import (
    ABSENT,
    NAN,
    NONFINITE,
    NONZERO,
    VALUE,
    ZERO,
    Layer,
    Model,
    Optimizer,
    Parameter,
    Shape,
    TraceBuilder,
    digest_of,
    tensor,
)

from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.trace import Run, load_run

F = "torch.nn.functional."
ADAMW = "torch.optim.AdamW"
CLIP = "torch.nn.utils.clip_grad_norm_"
STEP_LR = "torch.optim.lr_scheduler.StepLR"
BACKWARD = "torch.autograd.backward"

LINEAR = Layer("fc1", "torch.nn.Linear", F + "linear")
DROPOUT = Layer("drop", "torch.nn.Dropout", F + "dropout", {"p": 0.1})
NORM = Layer("norm", "torch.nn.BatchNorm1d", F + "batch_norm", {"momentum": 0.1})

PARAMETERS: Mapping[str, Shape] = {"fc1.weight": (4, 3), "fc1.bias": (4,), "fc2.weight": (2, 4)}

# Where the statements of the imagined `train.py` stand.
LINES = {
    "optimizer": 5, "train": 8, "zero_grad": 10, "forward": 11, "loss": 12, "backward": 13, "clip": 14, "step": 15,
    "scheduler": 16, "ema": 17, "eval": 20, "evaluate": 21, "play": 9,
}  # fmt: skip


class Training(TraceBuilder):
    """One process that trains: what its statements do, and what the probe writes about them."""

    _moment = 0

    def model(self, name: str = "Net", parameters: Mapping[str, Shape] = PARAMETERS, **details: Any) -> Model:
        details.setdefault("layers", (LINEAR, DROPOUT))
        return self.root(name, parameters, **details)

    def adamw(self, *groups: Sequence[Parameter], kind: str = ADAMW, lr: float = 0.01, **hyper: Any) -> Optimizer:
        values = {
            "lr": lr,
            "betas": {"tuple": [0.9, 0.999]},
            "eps": 1e-8,
            "weight_decay": 0.01,
            "foreach": None,
            **hyper,
        }
        return self.optimizer(kind, groups, [values for _ in groups], line=LINES["optimizer"])

    def mode(self, model: Model, training: bool, *, observed: bool = True) -> None:
        """`model.train()` or `model.eval()`."""
        model.training = training
        line = LINES["train" if training else "eval"]
        if observed:
            with self.call(
                "torch.nn.Module.train", type="mode", args={"mode": training}, module=model.number, line=line
            ):
                pass

    def batch(self, within: Callable[[], None] | None = None, *, content: object = None) -> None:
        """A batch of new data, or of what `content` says."""
        self._moment += 1
        parts = ("batch", self.seed, self.rank, self._moment) if content is None else ("batch", content)
        with self.call("torch.utils.data.DataLoader.__next__", type="data", digest=digest_of(*parts)):
            if within is not None:
                within()

    def forward(
        self, model: Model, *, line: str = "forward", wrapper: str = "", within: Callable[[], None] | None = None
    ) -> None:
        """The model is called, and calls its layers; BatchNorm statistics move in training."""
        dtype = self._context["autocast"] or "float32"
        if wrapper:
            with self.call(wrapper, type="module", training=model.training, entry=True, module=model.number,
                           line=LINES[line]):  # fmt: skip
                self._forward(model, dtype, line, within, entry=False)
        else:
            self._forward(model, dtype, line, within, entry=not self.inside_module)

    def _forward(self, model: Model, dtype: str, line: str, within: Callable[[], None] | None, *, entry: bool) -> None:
        summary = tensor(8, 2, dtype=dtype, requires_grad=True)
        with self.call(f"__main__.{model.name}", type="module", args={"x": tensor(8, 3)}, returns=summary,
                       module=model.number, training=model.training, entry=entry, line=LINES[line]):  # fmt: skip
            if within is not None:
                within()
            for layer in model.layers:
                args = dict(layer.args)
                if layer.function.endswith(("dropout", "batch_norm")):
                    args["training"] = model.training
                with (
                    self.call(layer.module, type="module", module=layer.number, training=model.training),
                    self.call(layer.function, args={"input": tensor(8, 3), **args}, returns=summary),
                ):
                    pass
            for name, buffer in model.buffers.items():
                if model.training:
                    self._moment += 1
                    self.change(buffer, NONZERO, digest_of(self.seed, self.rank, name, self._moment))

    def loss(
        self, function: str = F + "cross_entropy", *, criterion: Model | None = None, value: float = 0.5,
        line: str = "loss", within: Callable[[], None] | None = None, **args: Any,
    ) -> None:  # fmt: skip
        finite = value == value and abs(value) != float("inf")

        def compute() -> None:
            arguments = {"input": tensor(8, 2), "target": tensor(8, dtype="int64"), "reduction": "mean", **args}
            result = tensor(requires_grad=self._context["grad"])
            with self.call(function, args=arguments, returns=result, value=value if finite else NAN, finite=finite,
                           line=LINES[line]):  # fmt: skip
                if within is not None:
                    within()

        if criterion is None:
            compute()
        else:
            with self.call("torch.nn.CrossEntropyLoss", type="module", module=criterion.number, entry=True,
                           training=criterion.training, line=LINES[line]):  # fmt: skip
                compute()

    def backward(
        self, *models: Model, without: Sequence[str] = (), synced: bool = True, nan: Sequence[str] = (),
        zero: Sequence[str] = (), within: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Adds to the gradient of every trainable parameter, except those that the loss does not reach; `zero` is what
        it adds to some."""
        self._moment += 1
        rank = 0 if synced else self.rank
        with self.call(BACKWARD, type="autograd", args={"tensors": tensor()}, line=LINES["backward"]):
            if within is not None:
                within()
            for model in models:
                for parameter in model.parameters.values():
                    if parameter.first is None and parameter.requires_grad and parameter.name not in without:
                        digest = digest_of(
                            self.digest(parameter.gradient), self.seed, rank, self._moment, parameter.name
                        )
                        state = NONFINITE if parameter.name in nan else NONZERO
                        if parameter.name in zero:
                            self.change(parameter.gradient, ZERO, 0, 0.0)
                        else:
                            self.change(parameter.gradient, state, digest, 1.0)

    def zero_grad(self, optimizer: Optimizer, only: Sequence[Parameter] | None = None) -> None:
        with self.call(f"{optimizer.kind}.zero_grad", type="zero_grad", optimizer=optimizer.number,
                       line=LINES["zero_grad"]):  # fmt: skip
            self._clear(optimizer.parameters if only is None else only)

    def zero_model(self, model: Model) -> None:
        """`model.zero_grad()`."""
        with self.call("torch.nn.Module.zero_grad", type="zero_grad", module=model.number, line=LINES["zero_grad"]):
            self._clear(model.parameters.values())

    def drop_gradients(self, model: Model) -> None:
        """`p.grad = None` in the user's own loop: no call, but the states show it."""
        self._clear(model.parameters.values())

    def _clear(self, parameters: Any) -> None:
        for parameter in parameters:
            if self.state(parameter.holder.gradient) not in (ABSENT, 7):
                self.change(parameter.holder.gradient, ABSENT)

    def clip(self, optimizer: Optimizer, max_norm: float = 1.0, *, api: str = CLIP) -> None:
        self.clips(optimizer.parameters, max_norm, api=api)

    def clips(
        self, parameters: Iterable[Parameter], max_norm: float = 1.0, *, api: str = CLIP, scales: bool = True
    ) -> None:
        """Clips gradients; `scales`: whether their norm is larger than `max_norm`, so that they change."""
        with self.call(api, type="clip", args={"max_norm": max_norm, "norm_type": 2.0}, line=LINES["clip"]):
            for parameter in parameters:
                gradient = parameter.holder.gradient
                if scales and self.state(gradient) == NONZERO:
                    self.change(gradient, NONZERO, digest_of(self.digest(gradient), max_norm), 0.5)

    def step(
        self, optimizer: Optimizer, *, without: Sequence[str] = (), also: Sequence[Parameter] = (),
        closure: Callable[[], None] | None = None, raised: bool = False, within: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """Changes the parameters that have a gradient; `also` change as well, those in `without` do not."""
        for rate, variable in zip(optimizer.rates, optimizer.rate_variables, strict=True):
            self.change(variable, VALUE, digest_of(rate), rate)
        with self.call(f"{optimizer.kind}.step", type="optimizer", optimizer=optimizer.number, raised=raised,
                       line=LINES["step"]):  # fmt: skip
            for happening in (within, closure):
                if happening is not None:
                    happening()
            if raised:
                return
            for rate, group in zip(optimizer.rates, optimizer.groups, strict=True):
                for parameter in group:
                    moved = self.state(parameter.holder.gradient) == NONZERO and rate != 0.0
                    if moved and parameter.name not in without:
                        self.move(parameter.holder, self.digest(parameter.holder.gradient))
            for parameter in also:
                self.move(parameter)

    def move(self, parameter: Parameter, *cause: object) -> None:
        self._moment += 1
        digest = digest_of(self.digest(parameter.variable), *(cause or (self._moment,)))
        self.change(parameter.variable, NONZERO, digest)

    def load(self, model: Model, other: Model, *, without: Sequence[str] = ()) -> None:
        """`model.load_state_dict(...)` with what another model of its class has."""
        with self.call("torch.nn.Module.load_state_dict", type="mode", module=model.number):
            for name, parameter in model.parameters.items():
                self.measure("load.given", float(name not in without), variable=parameter.variable)
                if name not in without:
                    source = other.parameters[name].holder.variable
                    self.change(parameter.holder.variable, self.state(source), self.digest(source))

    def schedule(self, optimizer: Optimizer, factor: float = 0.5, *, kind: str = STEP_LR) -> None:
        with self.call(f"{kind}.step", type="scheduler", optimizer=optimizer.number, line=LINES["scheduler"]):
            optimizer.rates[:] = [rate * factor for rate in optimizer.rates]

    def log(self, *names: str) -> None:
        """Things that people add to a loop and that mean nothing for training."""
        for name in names or ("torch.Tensor.item", "torch.norm", "torch.mean"):
            with self.call(name, args={"input": tensor()}, value=0.1):
                pass

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        with self.context(grad=False):
            yield


@dataclass(frozen=True)
class Loop:
    """The usual loop; every field is a switch. `record` writes it down."""

    steps: int = 6
    seed: int = 0
    ranks: int = 1
    name: str = "Net"
    parameters: Mapping[str, Shape] = field(default_factory=lambda: dict(PARAMETERS))
    layers: tuple[Layer, ...] = (LINEAR, DROPOUT)
    buffers: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    tied: Mapping[str, str] = field(default_factory=dict)
    held: tuple[str, ...] | None = None
    """Names of the parameters that the optimizer gets; all of them if None."""
    optimizer: str = ADAMW
    lr: float = 0.01
    hyper: Mapping[str, Any] = field(default_factory=dict)
    zero_grad: str = "top"
    """`top`, `bottom`, `model`, `assign`, or `never`."""
    microbatches: int = 1
    zero_each: bool = False
    """`zero_grad` before every micro-batch, so that only the last one counts."""
    backward: bool = True
    unreached: tuple[str, ...] = ()
    loss: str = F + "cross_entropy"
    loss_value: float = 0.5
    loss_args: Mapping[str, Any] = field(default_factory=dict)
    criterion: bool = False
    clip: float | None = 1.0
    clip_after_step: bool = False
    skip_step: tuple[int, ...] = ()
    stuck: tuple[str, ...] = ()
    """Parameters that a step leaves alone although they have a gradient."""
    schedule: str = "after"
    """`after` or `before` the step, or `never`."""
    factor: float = 0.5
    training: bool = True
    autocast: str | None = None
    wrapper: str = ""
    synced: bool = True
    clip_ranks: tuple[int, ...] | None = None
    evaluate_after: tuple[int, ...] = (2, 5)
    eval_mode: bool = True
    eval_no_grad: bool = True
    back_to_train: bool = True
    ema: bool = False
    ema_moves: bool = True
    logging: bool = False

    def but(self, **changes: Any) -> Loop:
        """The same loop with one thing changed."""
        return replace(self, **changes)

    def tell(self, t: Training) -> None:
        """One process of the loop."""
        model = t.model(self.name, self.parameters, buffers=self.buffers, frozen=self.frozen, tied=self.tied,
                        layers=self.layers)  # fmt: skip
        copy = t.model(self.name, self.parameters, frozen=tuple(self.parameters), layers=()) if self.ema else None
        criterion = t.root("CrossEntropyLoss", {}, kind="torch.nn.CrossEntropyLoss") if self.criterion else None
        held = [name for name in self.parameters if name not in self.frozen] if self.held is None else self.held
        optimizer = t.adamw([model.parameters[name] for name in held], kind=self.optimizer, lr=self.lr, **self.hyper)
        t.mode(model, self.training, observed=self.training)
        for step in range(self.steps):
            if self.zero_grad == "top":
                t.zero_grad(optimizer)
            for _ in range(self.microbatches):
                if self.zero_each:
                    t.zero_grad(optimizer)
                t.batch()
                with t.context(autocast=self.autocast):
                    t.forward(model, wrapper=self.wrapper)
                    if self.logging:
                        t.log()
                    t.loss(self.loss, criterion=criterion, value=self.loss_value, **self.loss_args)
                if self.backward:
                    t.backward(model, without=self.unreached, synced=self.synced)
            clips = self.clip is not None and (self.clip_ranks is None or t.rank in self.clip_ranks)
            if clips and not self.clip_after_step:
                t.clip(optimizer, self.clip or 0.0)
            if self.schedule == "before":
                t.schedule(optimizer, self.factor)
            if step not in self.skip_step:
                t.step(optimizer, without=self.stuck)
            if clips and self.clip_after_step:
                t.clip(optimizer, self.clip or 0.0)
            if self.schedule == "after":
                t.schedule(optimizer, self.factor)
            if copy is not None and self.ema_moves:
                for parameter in copy.parameters.values():
                    t.move(parameter)
            if self.zero_grad == "bottom":
                t.zero_grad(optimizer)
            elif self.zero_grad == "model":
                t.zero_model(model)
            elif self.zero_grad == "assign":
                t.drop_gradients(model)
            if self.logging:
                t.log("torch.Tensor.item")
            if step in self.evaluate_after:
                self._evaluate(t, model, criterion)

    def _evaluate(self, t: Training, model: Model, criterion: Model | None) -> None:
        if self.eval_mode:
            t.mode(model, False)
        with t.context(grad=not self.eval_no_grad):
            for _ in range(2):
                t.batch()
                with t.context(autocast=self.autocast):
                    t.forward(model, line="evaluate", wrapper=self.wrapper)
                    t.loss(self.loss, criterion=criterion, line="evaluate", **self.loss_args)
        if self.back_to_train and self.training:
            t.mode(model, True)


At = Callable[[int], None]
"""What else happens in an event of the loop, given the number of the step: measures, as a rule."""


def nothing(_step: int) -> None:
    """Nothing else happens."""


@dataclass(frozen=True)
class Measured:
    """The usual loop with measures: each field is called inside the event of its name, for each step."""

    batch: At = nothing
    forward: At = nothing
    loss: At = nothing
    backward: At = nothing
    step: At = nothing
    losses: Sequence[str] = (F + "cross_entropy",)
    value: float = 0.5
    microbatches: int = 1
    steps: int = 6
    model: Model | None = None
    loss_args: Mapping[str, Any] = field(default_factory=dict)

    def tell(self, t: Training) -> Model:
        """The loop in the process `t`; returns its model."""
        model = self.model or t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        t.mode(model, True)
        for step in range(self.steps):
            t.zero_grad(optimizer)
            for _ in range(self.microbatches):
                t.batch(partial(self.batch, step))
                t.forward(model, within=partial(self.forward, step))
                for function in self.losses:
                    t.loss(function, value=self.value, within=partial(self.loss, step), **self.loss_args)
                t.backward(model, within=partial(self.backward, step))
            t.step(optimizer, within=partial(self.step, step))
        return model


Story = Callable[["Training"], object]


class Recorder:
    """Writes runs below a directory, and learns from and checks them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._runs = 0

    def path(self) -> Path:
        self._runs += 1
        return self.directory / f"run{self._runs}"

    def tell(self, story: Story, *, seed: int = 0, ranks: int = 1) -> Run:
        """A run in which every rank does what `story` says."""
        path = self.path()
        for rank in range(ranks):
            training = Training(path, rank=rank, world_size=ranks, seed=seed)
            story(training)
            training.write()
        return load_run(path)

    def record(self, loop: Loop) -> Run:
        return self.tell(loop.tell, seed=loop.seed, ranks=loop.ranks)

    def golden(self, loop: Loop, *, seeds: Sequence[int] = (0, 1)) -> Golden:
        """What is learned from the loop under several seeds."""
        return _learned([self.record(loop.but(seed=seed)) for seed in seeds], seeds)

    def learn(self, story: Story, *, seeds: Sequence[int] = (0, 1), ranks: int = 1) -> Golden:
        """What is learned from a story under several seeds."""
        runs = [self.tell(story, seed=seed, ranks=ranks) for seed in seeds]
        return _learned(runs, seeds)

    def judge(self, golden: Golden, story: Story, *, seed: int = 5, ranks: int = 1) -> CheckOutcome:
        """A story as a candidate of the same spec."""
        return check_run(golden, self.tell(story, seed=seed, ranks=ranks), same_spec=True)

    def check(self, golden: Golden, loop: Loop, *, same_spec: bool = True) -> CheckOutcome:
        return check_run(golden, self.record(loop), same_spec=same_spec)


def _learned(runs: Sequence[Run], seeds: Sequence[int]) -> Golden:
    golden = learn(runs, pipeline="story", seeds=tuple(seeds))
    # Whatever is learned can be read again.
    assert all(claim_of(rule.relation, to_json(rule.claim)) == rule.claim for rule in golden.invariants)
    return golden
