"""To which stage calls belong, where derivatives are asked for beside backward passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_story import LINES, Recorder, Training

from pytest_traincheck.trace.stages import DERIVES, STAGES


def derive(t: Training) -> None:
    with t.call(DERIVES, type="autograd", line=LINES["loss"]):
        pass


@pytest.mark.parametrize("by_backward", [True, False], ids=["by backward", "by derivatives"])
@pytest.mark.parametrize("evaluates", [True, False])
def test_an_evaluation_that_derives_is_no_training(tmp_path: Path, by_backward: bool, evaluates: bool) -> None:
    """As the residual of a differential equation; what no `backward` trains is trained by derivatives."""

    def story(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(4):
            t.mode(model, True)
            t.zero_grad(optimizer)
            t.forward(model)
            derive(t)
            if by_backward:
                t.loss()
                t.backward(model)
            t.step(optimizer)
            if evaluates:
                t.mode(model, False)
                t.forward(model, line="evaluate")
                derive(t)

    (process,) = Recorder(tmp_path).tell(story).processes
    stages = [(STAGES[process.stage[row]], process.source(row)) for row in process.entry_rows.tolist()]
    of_training = {stage for stage, source in stages if source.endswith(f":{LINES['forward']}")}
    of_evaluation = {stage for stage, source in stages if source.endswith(f":{LINES['evaluate']}")}
    derived = [STAGES[process.stage[row]] for row in process.rows_of_type("autograd").tolist()]
    assert of_training == {"train"}
    if evaluates and by_backward:
        assert (of_evaluation, derived.count("eval")) == ({"eval"}, 4)
    else:
        assert "eval" not in derived


def test_what_is_only_derived_in_eval_mode_beside_a_training_is_evaluated(tmp_path: Path) -> None:
    """Here a model that an optimizer holds and that no backward pass has come to, when training has ended."""

    def story(t: Training) -> None:
        model, other = t.model(), t.model("Other")
        optimizer = t.adamw([*model.parameters.values()], [*other.parameters.values()])
        t.mode(other, False)
        for _ in range(4):
            t.zero_grad(optimizer)
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)
        t.forward(other, line="evaluate")
        derive(t)

    (process,) = Recorder(tmp_path).tell(story).processes
    stages = [STAGES[process.stage[row]] for row in process.entry_rows.tolist()]
    assert stages == ["train"] * 4 + ["eval"]
