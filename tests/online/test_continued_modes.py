"""What a process does behind its last step belongs to no step of the process that goes on with its training."""

from __future__ import annotations

from continued_story import load, save, take
from judgements import sentences
from late_story import FROZEN, PARAMETERS
from training_story import Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.trace import Run, load_run

Values = dict[str, tuple[int, int]]


def train(t: Training, begin: int, end: int, left: Values, *, trains: bool = True) -> None:
    """Steps of a model that is evaluated in eval mode at the end; what it is then is left. `trains`: in train mode."""
    model = t.model("Net", PARAMETERS, frozen=FROZEN)
    optimizer = t.adamw([one for name, one in model.parameters.items() if name not in FROZEN])
    if begin:
        with t.call("torch.load", type="io"):
            pass
        load(t, model, left, ())
        with t.call("torch.optim.AdamW.load_state_dict", type="mode", optimizer=optimizer.number):
            pass
    t.mode(model, trains)
    for step in range(begin, end):
        take(t, model, optimizer, load=t.batch, clears=True, begins=step == begin, kept=begin > 0)
    t.mode(model, False)
    with t.context(grad=False):
        t.batch()
        t.forward(model, line="evaluate")
    left.update({name: (t.state(one.variable), t.digest(one.variable)) for name, one in model.parameters.items()})
    save(t, model, exchanges=False)


def resumed(recorder: Recorder, seed: int, *, trains: bool = True) -> Run:
    path, left = recorder.path(), Values()
    for number, (begin, end) in enumerate([(0, 4), (4, 8)]):
        t = Training(path, seed=seed, started=1.0 + number)
        t._moment = 10_000 * number
        train(t, begin, end, left, trains=trains or begin == 0)
        t.write(finished=True, ended=1.5 + number)
    return load_run(path)


def test_an_evaluation_at_the_end_is_held_against_no_step(recorder: Recorder) -> None:
    golden = learn([resumed(recorder, seed) for seed in (0, 1)], pipeline="story", seeds=(0, 1))
    assert any("train mode" in sentence for sentence in sentences(golden, "Modes"))
    assert not check_run(golden, resumed(recorder, 7), same_spec=True).incidents
    (incident,) = check_run(golden, resumed(recorder, 7, trains=False), same_spec=True).incidents
    assert "eval mode" in incident.cause.title
    assert incident.cause.step == 4
