"""Where the terms of a loss send gradients, in a process that goes on when more is trained than in the beginning."""

from __future__ import annotations

import pytest
from continued_story import Values, load, save
from judgements import sentences
from late_story import GOLDEN_STEPS, follow
from trace_builder import TRUE, Model
from training_story import Recorder, Training

STEM, BODY, HEAD, HINT = "stem.weight", "body.weight", "head.weight", "hint.weight"
PARAMETERS = {STEM: (4, 6), BODY: (4, 4), HEAD: (5, 4), HINT: (10, 4)}
SIZES = {name: rows * columns for name, (rows, columns) in PARAMETERS.items()}
TASK, DISTANCE = (STEM, BODY, HEAD), (STEM, BODY, HINT)
Terms = tuple[tuple[str, ...], ...]
MEASURED = 2
"""Steps of a process in which it is measured."""


def free_stem(t: Training, model: Model) -> None:
    t.change(model.parameters[STEM].flag, TRUE, 1)
    model.parameters[STEM].requires_grad = True


def train(
    t: Training, begin: int, end: int, left: Values, *, thaws: int, freed: bool = True, terms: Terms = (TASK, DISTANCE)
) -> None:
    """Steps of a model whose stem is set free before the step `thaws`; `freed`: and by a resume behind it; `terms`: the
    layers that each term comes from.
    """
    model = t.model("Net", PARAMETERS, frozen=(STEM,))
    optimizer = t.adamw([*model.parameters.values()])
    if begin:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left[begin], ())
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
        if freed and begin > thaws >= 0:
            free_stem(t, model)
    t.mode(model, True)
    for step in range(begin, end):
        if step == thaws:
            free_stem(t, model)
        free = [name for name, parameter in model.parameters.items() if parameter.requires_grad]
        reached = [[name for name in term if name in free] for term in terms]
        sets = sorted({(len(names), sum(SIZES[name] for name in names)) for names in reached if names})

        def measure(
            step: int = step, sets: str = "; ".join(f"{number} ({size} elements)" for number, size in sets)
        ) -> None:
            if step < begin + MEASURED:
                t.measure("loss.terms", 2.0)
                t.measure("loss.terms.fine", 2.0)
                t.measure(f"loss.reach={sets}")

        t.zero_grad(optimizer)
        t.batch()
        t.forward(model)
        t.loss()
        t.backward(model, within=measure)
        t.step(optimizer)
    left[end] = {name: (t.state(one.variable), t.digest(one.variable)) for name, one in model.parameters.items()}
    save(t, model, exchanges=False)


def told(recorder: Recorder, *, thaws: int, golden_thaws: int, **second: object) -> dict[str, int]:
    """The first step of each incident about sets of parameters, by its title, of a training of 60 steps that another
    process goes on with.
    """
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}, thaws=golden_thaws))
    assert "The terms of the loss send gradients to sets of parameters with 36 and 56 elements." in sentences(golden)
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 60), (60, 90)]):
        t = Training(path, seed=7, started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, thaws=thaws, **(second if begin else {}))  # type: ignore[arg-type]
        t.write(finished=True, ended=1.5 + number)
    return {title: incident.cause.step for title, (incident, _) in follow(path, golden)[0].items() if "sets" in title}


WITHIN = {"thaws": 3, "golden_thaws": 3}
LATER = {"thaws": 30, "golden_thaws": -1}
NEVER = {"thaws": -1, "golden_thaws": -1}
PHASES = pytest.mark.parametrize("phases", [WITHIN, LATER, NEVER], ids=["within golden", "behind golden", "never"])


@PHASES
def test_sets_grow_by_what_was_set_free_before_the_resume(recorder: Recorder, phases: dict[str, int]) -> None:
    assert told(recorder, **phases) == {}


@PHASES
def test_a_term_that_is_detached_at_a_resume_is_told(recorder: Recorder, phases: dict[str, int]) -> None:
    found = told(recorder, **phases, terms=(TASK, (HINT,)))
    assert list(found.values()) == [60], found
    assert "`detach` is missing or misplaced" in next(iter(found))


@PHASES
def test_a_term_that_is_lost_at_a_resume_is_told(recorder: Recorder, phases: dict[str, int]) -> None:
    found = told(recorder, **phases, terms=(TASK, TASK))
    assert list(found.values()) == [60], found
