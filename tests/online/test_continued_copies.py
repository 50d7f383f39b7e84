"""A process that goes on with a training knows which of two models of one class is trained, and which is its copy."""

from __future__ import annotations

import pytest
from continued_story import load, save, take
from judgements import sentences
from late_story import FROZEN, GOLDEN_STEPS, PARAMETERS, follow
from trace_builder import Model
from training_story import Recorder, Training

Values = dict[str, dict[str, tuple[int, int]]]


def values_of(t: Training, model: Model) -> dict[str, tuple[int, int]]:
    return {name: (t.state(one.variable), t.digest(one.variable)) for name, one in model.parameters.items()}


def train(
    t: Training, begin: int, end: int, left: Values, *, swaps: bool = False, loads: str = "copy", changes: bool = True,
    saves: bool = False,
) -> None:  # fmt: skip
    """Steps of a model whose copy follows it and is evaluated after each; what both are in the end is left.

    `swaps`: a resume makes the copy first, and the model of it. `loads`: what a resume gives the copy: what it had,
    what it was made with, what the model has by another way than `load_state_dict`, or nothing. The copy
    `changes`, or stays as it was made; where it `saves`, that is saved as the model is.
    """
    made = [(PARAMETERS, FROZEN), (PARAMETERS, tuple(PARAMETERS))][:: -1 if swaps else 1]
    model, copy = [t.model("Net", each, frozen=frozen) for each, frozen in made][:: -1 if swaps else 1]
    optimizer = t.adamw([one for name, one in model.parameters.items() if name not in FROZEN])
    t.mode(copy, False)
    left.setdefault("made", values_of(t, copy))
    if begin:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left["model"], ())
        if loads in ("copy", "made"):
            load(t, copy, left[loads], ())
        elif loads == "model":
            for name, one in copy.parameters.items():
                t.change(one.variable, *left["model"][name])
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
    t.mode(model, True)
    for step in range(begin, end):
        take(t, model, optimizer, load=t.batch, clears=True, begins=step == begin, kept=begin > 0)
        for one in copy.parameters.values() if changes else ():
            t.move(one, step)
        with t.context(grad=False):
            t.forward(copy, line="evaluate")
    left.update(model=values_of(t, model), copy=values_of(t, copy))
    save(t, model, exchanges=False)
    if saves:
        with t.call("torch.save", type="io"):
            for one in copy.parameters.values():
                t.measure("save.content", variable=one.variable, digest=t.digest(one.variable))


@pytest.mark.parametrize("swaps", [False, True])
def test_a_copy_takes_the_place_of_the_copy(recorder: Recorder, swaps: bool) -> None:
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}))
    assert sentences(golden, "Modes")
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 30), (30, 70)]):
        t = Training(path, seed=7, started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, swaps=swaps and begin > 0)
        t.write(finished=True, ended=1.5 + number)
    told, found = follow(path, golden)
    assert not told
    assert found.steps == 70


@pytest.mark.parametrize(
    ("loads", "changes", "seeds", "told"),
    [
        ("nothing", True, (7, 7), True),
        ("nothing", True, (7, 8), True),
        ("model", True, (7, 8), False),
        ("copy", True, (7, 8), False),
        ("made", True, (7, 7), False),  # it was saved before it ever changed
        ("nothing", False, (7, 8), False),
    ],
)
def test_a_copy_that_is_saved_in_a_way_of_its_own_and_not_loaded(
    recorder: Recorder, loads: str, changes: bool, seeds: tuple[int, int], told: bool
) -> None:
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}, changes=changes))
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 30), (30, 70)]):
        t = Training(path, seed=seeds[number], started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, loads=loads, changes=changes)
        t.write(finished=True, ended=1.5 + number)
    found = [title for title in follow(path, golden)[0] if "were carried from each step to the next" in title]
    assert ["goes on at step 30 without what `Net#1.fc1.weight`, " in title for title in found] == [True] * told


@pytest.mark.parametrize("loads", ["model", "copy"])
@pytest.mark.parametrize("changes", [True, False])
def test_a_copy_that_is_saved_and_gets_what_the_model_has(recorder: Recorder, loads: str, changes: bool) -> None:
    """A reference that training never changes is another one then, as an average is that follows the model."""
    golden = recorder.learn(lambda t: train(t, 0, GOLDEN_STEPS, {}, changes=changes, saves=True))
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 30), (30, 70)]):
        t = Training(path, seed=7, started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, loads=loads, changes=changes, saves=True)
        t.write(finished=True, ended=1.5 + number)
    sort = "averages or target networks" if changes else "frozen weights"
    found = [title for title in follow(path, golden)[0] if f"{sort} were carried from each step to the next" in title]
    assert ["goes on at step 30 without what `Net#1.fc1.weight`, " in title for title in found] == [True] * (
        loads == "model"
    )


STATISTICS = "norm.running_mean"


def normalise(t: Training, begin: int, end: int, left: Values, *, restores: bool = True) -> None:
    """Steps of a model with running statistics, of which the first rank saves everything."""
    model = t.model("Net", PARAMETERS, frozen=FROZEN, buffers=(STATISTICS,))
    optimizer = t.adamw([one for name, one in model.parameters.items() if name not in FROZEN])
    mean = model.buffers[STATISTICS]
    if begin:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left["model"], ())
        if restores:
            with t.call("torch.nn.Module.load_state_dict", type="mode", module=model.number):
                t.measure("load.given", 1.0, variable=mean)
                t.change(mean, *left["statistics"][STATISTICS])
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
    t.mode(model, True)
    for step in range(begin, end):
        take(t, model, optimizer, load=t.batch, clears=True, begins=step == begin, kept=begin > 0)
    if t.rank == 0:
        left.update(model=values_of(t, model), statistics={STATISTICS: (t.state(mean), t.digest(mean))})
        save(t, model, exchanges=False)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("restores", [True, False])
def test_statistics_that_a_resume_lost_are_called_buffers(recorder: Recorder, ranks: int, restores: bool) -> None:
    """The trained parameters were restored, and nothing is said of them. Other ranks get what the first had."""
    golden = recorder.learn(lambda t: normalise(t, 0, GOLDEN_STEPS, {}))
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 30), (30, 70)]):
        for rank in range(ranks):
            t = Training(path, rank=rank, world_size=ranks, seed=7, started=1.0 + number)
            t._moment = 10_000 * number
            normalise(t, begin, end, left, restores=restores)
            t.write(finished=True, ended=1.5 + number, world_size=ranks)
    assert [*follow(path, golden)[0]] == ([] if restores else [
        "In the golden run the buffers of `Net` were carried from each step to the next; in the candidate training "
        "goes on at step 30 without what `Net.norm.running_mean` had: a resume restored only the others."
    ])  # fmt: skip
