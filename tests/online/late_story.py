"""A training of any length in which one thing goes wrong at a step that golden's runs never came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trace_builder import Model, Optimizer
from training_story import LINES, Training

from pytest_traincheck.check.result import Incident
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.online.follow import Followed, Follower

GOLDEN_STEPS = 6
PARAMETERS = {"fc1.weight": (4, 3), "fc2.weight": (5, 4), "embed.weight": (6, 4)}
FROZEN = ("embed.weight",)


@dataclass(frozen=True)
class Late:
    """The loop; `goes_wrong` says what happens at step `at`, and again at the steps of `again`."""

    steps: int = GOLDEN_STEPS
    goes_wrong: str = ""
    at: int = -1
    again: Sequence[int] = ()
    since: bool = False
    """Whether it goes on from there to the end."""
    evaluates_every: int = 3
    clips: bool = True
    resumes_at: int = -1
    """The step before which model and optimizer are made anew, and the model gets the values of the first one."""
    forgets: Sequence[str] = ()
    """Parameters that it does not get."""

    def but(self, **changes: object) -> Late:
        return replace(self, **changes)  # type: ignore[arg-type]

    def __call__(self, t: Training) -> None:
        model, optimizer = self._made(t)
        for step in range(self.steps):
            if step == self.resumes_at:
                before = model
                model, optimizer = self._made(t)
                t.load(model, before, without=self.forgets)
            wrong = step == self.at or step in self.again or (self.since and 0 <= self.at < step)
            self._step(t, model, optimizer, self.goes_wrong if wrong else "")
            if step % self.evaluates_every == self.evaluates_every - 1:
                t.mode(model, False)
                with t.context(grad=False):
                    t.batch()
                    t.forward(model, line="evaluate")
                if wrong and self.goes_wrong == "writes in evaluation":
                    t.move(model.parameters["embed.weight"])
                if wrong and self.goes_wrong == "writes into what is trained":
                    t.move(model.parameters["fc2.weight"])
                if not (wrong and self.goes_wrong == "stays in eval"):
                    t.mode(model, True)

    def _made(self, t: Training) -> tuple[Model, Optimizer]:
        model = t.model("Net", PARAMETERS, frozen=FROZEN)
        held = [parameter for name, parameter in model.parameters.items() if name not in FROZEN]
        optimizer = t.adamw(held)
        t.mode(model, True)
        return model, optimizer

    def _step(self, t: Training, model: Model, optimizer: Optimizer, wrong: str) -> None:
        if wrong != "keeps gradients":
            t.zero_grad(optimizer)
        t.batch()
        t.forward(model)
        t.loss()
        if wrong == "calls backward twice":
            t.backward(model)
            t.forward(model)
            t.loss()
        t.backward(model, synced=wrong != "ranks drift")
        if self.clips and wrong != "does not clip":
            t.clip(optimizer, 1.0)
        t.step(optimizer, without=("fc2.weight",) if wrong == "leaves one out" else ())


def follow(path: Path, golden: Golden, *, piece: int = 10_000) -> tuple[dict[str, tuple[Incident, int]], Followed]:
    """Follows a trace that is read in pieces: each incident that was told, by its title, with the number of steps that
    had been looked at; and what was found in the end.
    """
    follower = Follower(path, golden, same_spec=True, other_length=True, piece=piece)
    told: dict[str, tuple[Incident, int]] = {}
    while True:
        for incident in follower.advance():
            told.setdefault(incident.cause.title, (incident, follower.steps))
        if follower.over and not follower.behind:
            return told, follower.finish()


__all__ = ["GOLDEN_STEPS", "LINES", "Late", "follow"]
