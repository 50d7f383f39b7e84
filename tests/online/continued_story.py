"""A training that several processes take part in, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from late_story import FROZEN, PARAMETERS
from trace_builder import NONZERO, Model, Optimizer, digest_of
from training_story import Recorder, Training


@dataclass(frozen=True)
class Data:
    """So many batches in an epoch. A resume loads those again that come before the step that it goes on with."""

    epoch: int
    shuffled: bool = True
    forgets: bool = False
    """Whether a resume begins with the order of the first epoch."""
    augmented: bool = False
    """Whether what batches are made of is drawn anew, so that only the examples say what their order is."""

    def load(self, t: Training, part: Part, step: int) -> None:
        for each in range(step - step % self.epoch if step == part.begin else step, step + 1):
            number = (each // self.epoch - (part.begin // self.epoch if self.forgets else 0)) if self.shuffled else 0
            examples = (t.seed, number, each % self.epoch)
            t.batch(partial(self._measured, t, examples), content=None if self.augmented else examples)

    def _measured(self, t: Training, examples: object) -> None:
        t.measure("batch.shuffled", float(self.shuffled))
        if self.augmented and self.shuffled:
            t.measure("batch.examples", 1.0, digest=digest_of(examples))


@dataclass(frozen=True)
class Part:
    """One process of a training: it takes the steps from `begin` to `end`."""

    begin: int
    end: int
    killed: bool = False
    saves: Sequence[int] = ()
    """Steps before which it saves; at its end it saves in any case, unless it is killed."""
    forgets: Sequence[str] = ()
    """Parameters that are not restored."""
    restores: bool = True
    keeps_state: bool = True
    """Whether the optimizer's state is restored."""
    wrong: int = -1
    """A step before which gradients are not cleared."""
    stays_wrong: bool = False
    """Whether they are not cleared from there on."""
    data: Data | None = None
    """What it trains with; new batches in every step where nothing is said."""
    exchanges: bool = False
    """Whether averages are evaluated in the place of the parameters before it saves: that the parameters are there
    again is seen when they are used next, and when they are saved.
    """
    saves_averages: bool = False
    """Whether these averages are saved beside the parameters."""
    copies: Sequence[int] = ()
    """Steps before which rank 0, and no other, makes a copy of the model, as to write it in another dtype."""


Values = dict[int, dict[str, tuple[int, int]]]
"""What the parameters were before each step."""


def tell(recorder: Recorder, parts: Sequence[Part], *, ranks: int = 1, seed: int = 7) -> Path:
    """The trace of processes that go on with each other."""
    path = recorder.path()
    for rank in range(ranks):
        values: Values = {}
        for number, part in enumerate(parts):
            t = Training(path, rank=rank, world_size=ranks, seed=seed, started=1.0 + number)
            t._moment = 10_000 * number
            process(t, part, values)
            t.write(finished=not part.killed, world_size=ranks, **({} if part.killed else {"ended": 1.5 + number}))
    return path


def process(t: Training, part: Part, values: Values) -> None:
    model = t.model("Net", PARAMETERS, frozen=FROZEN)
    held = [parameter for name, parameter in model.parameters.items() if name not in FROZEN]
    optimizer = t.adamw(held)
    restored = part.begin and part.restores
    if restored:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, values[part.begin], part.forgets)
        if part.keeps_state:
            with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
                pass
    t.mode(model, True)
    for step in range(part.begin, part.end):
        if step in part.copies and not t.rank:
            t.model("Net", PARAMETERS, frozen=tuple(PARAMETERS))
        if step in part.saves:
            for variable, own in save(t, model, exchanges=part.exchanges, averages=part.saves_averages).items():
                t.change(variable, *own)  # what was taken back is seen when it is used
        values[step] = {name: (t.state(p.variable), t.digest(p.variable)) for name, p in model.parameters.items()}
        take(
            t,
            model,
            optimizer,
            load=partial(part.data.load, t, part, step) if part.data is not None else t.batch,
            clears=not (step == part.wrong or (part.stays_wrong and 0 <= part.wrong < step)),
            begins=step == part.begin,
            kept=restored and part.keeps_state,
        )
    values[part.end] = {name: (t.state(p.variable), t.digest(p.variable)) for name, p in model.parameters.items()}
    if not part.killed:
        save(t, model, exchanges=part.exchanges, averages=part.saves_averages)
        if part.data is not None:
            part.data.load(t, part, part.end)  # the loop ends when it has the next batch


def save(t: Training, model: Model, *, exchanges: bool, averages: bool = False) -> dict[int, tuple[int, int]]:
    """Returns what the trained parameters are, also where their averages were seen last."""
    variables = {name: p.variable for name, p in model.parameters.items() if name not in FROZEN}
    own = {variable: (t.state(variable), t.digest(variable)) for variable in variables.values()}
    if exchanges:
        for name, variable in variables.items():
            t.change(variable, NONZERO, digest_of("average", name, t.digest(variable)))
        t.mode(model, False)
        with t.context(grad=False):
            t.forward(model, line="evaluate")
        t.mode(model, True)
    with t.call("torch.save", type="io"):
        for variable, (_, content) in own.items():
            t.measure("save.content", variable=variable, digest=content)
        for variable in own if averages else ():
            t.measure("save.content", variable=variable, digest=t.digest(variable))
    return own


def load(t: Training, model: Model, values: dict[str, tuple[int, int]], forgets: Sequence[str]) -> None:
    with t.call("torch.nn.Module.load_state_dict", type="mode", module=model.number):
        for name, parameter in model.parameters.items():
            t.measure("load.given", float(name not in forgets), variable=parameter.variable)
            if name not in forgets:
                t.change(parameter.variable, *values[name])


def take(
    t: Training,
    model: Model,
    optimizer: Optimizer,
    *,
    load: Callable[[], None],
    clears: bool,
    begins: bool,
    kept: object,
) -> None:
    """One step."""
    size = len(optimizer.parameters)
    if clears:
        t.zero_grad(optimizer)
    load()
    t.forward(model)
    t.loss()
    t.backward(model)
    t.clip(optimizer, 1.0)

    def state() -> None:
        t.measure(
            "optimizer.state" if begins else "optimizer.held",
            0.0 if begins and not kept else size,
            optimizer=optimizer.number,
        )
        t.measure("optimizer.left", size, optimizer=optimizer.number)

    t.step(optimizer, within=state)
    with t.call("torch.optim.lr_scheduler.StepLR.step", type="scheduler", optimizer=optimizer.number):
        pass
