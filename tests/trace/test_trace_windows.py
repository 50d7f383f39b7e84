"""Windows, steps and stages: what an iteration is, whatever the loop looks like."""

from __future__ import annotations

import numpy as np
import pytest
from training_story import Loop, Recorder, Training

from pytest_traincheck.trace import Process, Run


def process_of(run: Run) -> Process:
    (process,) = run.processes
    return process


def windows_of(process: Process, api: str) -> list[int]:
    rows = np.flatnonzero(process.api.isin([api]))
    return [int(number) for number in process.window[rows]]


def stages_of(process: Process) -> list[str]:
    return [process.stage_name(int(row)) for row in process.entry_rows]


def test_every_step_of_one_optimizer_ends_a_window(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=5)))
    assert process.windows == 5
    assert [step.number for step in process.steps] == [0, 1, 2, 3, 4]
    assert windows_of(process, "torch.autograd.backward") == [0, 1, 2, 3, 4]
    assert windows_of(process, "torch.optim.AdamW.step") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("place", ["top", "bottom"])
def test_zero_grad_belongs_to_one_window_each_at_the_top_or_the_bottom(recorder: Recorder, place: str) -> None:
    process = process_of(recorder.record(Loop(steps=5, zero_grad=place)))
    windows = windows_of(process, "torch.optim.AdamW.zero_grad")
    assert windows == ([0, 1, 2, 3, 4] if place == "top" else [1, 2, 3, 4, 5])


def test_accumulated_backward_passes_share_a_window(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=3, microbatches=4)))
    assert windows_of(process, "torch.autograd.backward") == [0] * 4 + [1] * 4 + [2] * 4


def _gan(t: Training) -> None:
    generator = t.model("Generator", {"g.weight": (3, 3)}, layers=())
    judge = t.model("Discriminator", {"d.weight": (5, 5)}, layers=())
    first, second = t.adamw(list(judge.parameters.values())), t.adamw(list(generator.parameters.values()))
    for step in range(4):
        for optimizer in (first, second):
            if optimizer is first or step % 2:
                t.zero_grad(optimizer)
                t.forward(generator)
                t.forward(judge)
                t.backward(generator, judge)
                t.step(optimizer)


def test_of_two_optimizers_the_last_in_an_iteration_counts_the_windows(recorder: Recorder) -> None:
    process = process_of(recorder.tell(_gan))
    names = process.names.optimizers
    assert names[process.lead_optimizer] == "AdamW[Generator]"
    assert [names[step.optimizer] for step in process.steps].count("AdamW[Discriminator]") == 4
    # Steps are numbered for each optimizer, and each starts where its own last one ended.
    own = [step for step in process.steps if names[step.optimizer] == "AdamW[Discriminator]"]
    assert [step.number for step in own] == [0, 1, 2, 3]
    assert [step.previous_end for step in own[1:]] == [step.end for step in own[:-1]]


@pytest.mark.parametrize("further", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_optimizers_that_are_made_anew_take_turns_from_their_first_step_on(
    recorder: Recorder, steps: int, further: bool
) -> None:
    """A resume that has gone so many steps, and perhaps one more of the first of two optimizers."""

    def resumed(t: Training) -> None:
        generator = t.model("Generator", {"g.weight": (3, 3)}, layers=())
        judge = t.model("Discriminator", {"d.weight": (5, 5)}, layers=())
        for count in (4, steps):
            first, second = (t.adamw(list(model.parameters.values())) for model in (judge, generator))
            for _ in range(count):
                for optimizer in (first, second):
                    t.forward(generator)
                    t.forward(judge)
                    t.backward(generator, judge)
                    t.step(optimizer)
        if further:
            t.step(first)

    as_in_golden = {f"AdamW[{name}]#1": f"AdamW[{name}]" for name in ("Generator", "Discriminator")}
    process = process_of(recorder.tell(resumed)).renamed({}, as_in_golden, "AdamW[Generator]", {})
    names = process.names.optimizers
    assert {names[step.optimizer] for step in process.lead_steps} == {"AdamW[Generator]"}
    assert process.windows == 4 + steps


def test_an_optimizer_that_goes_on_alone_counts_its_own_steps(recorder: Recorder) -> None:
    def in_phases(t: Training) -> None:
        models = [t.model(name, {f"{name}.weight": (3, 3)}, layers=()) for name in ("First", "Second")]
        both = [t.adamw(list(model.parameters.values())) for model in models]
        alone = t.adamw(list(models[0].parameters.values()))
        for optimizer in [*both * 3, alone, alone]:
            for model in models:
                t.forward(model)
            t.backward(*models)
            t.step(optimizer)

    assert process_of(recorder.tell(in_phases)).windows == 5


def test_a_step_within_a_step_is_no_step_of_its_own(recorder: Recorder) -> None:
    def wrapped(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for _ in range(3):
            t.forward(net)
            t.backward(net)
            with t.call("wrapper.Optimizer.step", type="optimizer", optimizer=optimizer.number):
                t.step(optimizer)

    assert process_of(recorder.tell(wrapped)).windows == 3


def test_a_step_that_raised_ends_no_window(recorder: Recorder) -> None:
    def fails_once(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(4):
            t.backward(net)
            t.step(optimizer, raised=step == 1)

    assert process_of(recorder.tell(fails_once)).windows == 3


def test_stages_of_the_usual_loop(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=3, evaluate_after=(1,))))
    assert stages_of(process) == ["train", "train", "eval", "eval", "train"]
    construct = process.rows_of_type("construct")
    assert process.stage_name(int(construct[0])) == "init"


def test_an_evaluation_that_records_gradients_is_still_an_evaluation(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=3, evaluate_after=(1,), eval_no_grad=False)))
    assert stages_of(process) == ["train", "train", "eval", "eval", "train"]


def test_an_evaluation_in_training_mode_is_still_an_evaluation(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=3, evaluate_after=(1,), eval_mode=False)))
    assert stages_of(process) == ["train", "train", "eval", "eval", "train"]


def test_a_model_left_in_eval_mode_is_still_seen_to_train(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=3, evaluate_after=(1,), back_to_train=False)))
    assert stages_of(process) == ["train", "train", "eval", "eval", "train"]
    process = process_of(recorder.record(Loop(steps=3, evaluate_after=(), training=False)))
    assert stages_of(process) == ["train"] * 3


def _shown_first(t: Training) -> None:
    """A model is called before its optimizer is made, after it, and in a loop."""
    net = t.model()
    net.training = False
    t.forward(net)
    net.training = True
    t.forward(net)
    optimizer = t.adamw(list(net.parameters.values()))
    for _ in range(2):
        t.forward(net)
        t.backward(net)
        t.step(optimizer)


def _made_anew(t: Training) -> None:
    """The optimizer is made after the first backward pass, and again in every step."""
    net = t.model()
    for _ in range(2):
        t.forward(net)
        t.backward(net)
        t.step(t.adamw(list(net.parameters.values())))


def test_a_forward_pass_before_the_optimizers_are_made_belongs_to_set_up(recorder: Recorder) -> None:
    process = process_of(recorder.tell(_shown_first))
    assert stages_of(process) == ["init", "init", "train", "train"]
    construct = process.rows_of_type("construct")
    assert process.stage_name(int(construct[0])) == "init"


def test_a_forward_pass_that_is_trained_on_before_an_optimizer_is_made_is_training(recorder: Recorder) -> None:
    assert stages_of(process_of(recorder.tell(_made_anew))) == ["train", "train"]


def test_a_criterion_without_parameters_is_no_model(recorder: Recorder) -> None:
    plain = process_of(recorder.record(Loop(steps=3, evaluate_after=(1,))))
    with_criterion = process_of(recorder.record(Loop(steps=3, evaluate_after=(1,), criterion=True)))
    assert stages_of(with_criterion) == stages_of(plain)


def test_zero_grad_after_an_evaluation_belongs_to_training(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=4, evaluate_after=(1,))))
    rows = np.flatnonzero(process.api.isin(["torch.optim.AdamW.zero_grad"]))
    assert {process.stage_name(int(row)) for row in rows} == {"train"}


def test_nesting_is_known_from_any_depth(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(steps=2)))
    dropout = np.flatnonzero(process.api.isin(["torch.nn.functional.dropout"]))
    assert process.inside("module")[dropout].all()
    assert not process.inside("optimizer")[dropout].any()
    assert process.source(int(dropout[0])) == "train.py:11", "the nearest caller that the user wrote"
    assert process.module_name(int(dropout[0])) == "Net.drop"


def test_names_of_two_models_of_one_class_follow_their_creation(recorder: Recorder) -> None:
    process = process_of(recorder.record(Loop(ema=True)))
    assert [name for name in process.names.roots if name] == ["Net", "Net#1"]
    assert "AdamW[Net]" in process.names.optimizers


def test_ranks_are_sorted_and_train_together(recorder: Recorder) -> None:
    run = recorder.record(Loop(ranks=3))
    assert [process.rank for process in run.processes] == [0, 1, 2]
    assert run.peers == ((0, 1, 2),)
    assert recorder.record(Loop()).peers == ()


@pytest.mark.parametrize("first", ["teacher", "student"])
@pytest.mark.parametrize("grad", [True, False])
def test_a_teacher_is_evaluated_whoever_trains_on_its_output(recorder: Recorder, first: str, grad: bool) -> None:
    def distil(t: Training) -> None:
        teacher = t.model("Teacher", {"t.weight": (3, 3)}, layers=())
        student = t.model("Student", {"s.weight": (5, 5)}, layers=())
        t.mode(teacher, False)
        optimizer = t.adamw(list(student.parameters.values()))
        for _ in range(3):
            t.zero_grad(optimizer)
            for name in (first, "student" if first == "teacher" else "teacher"):
                with t.context(grad=grad or name == "student"):
                    t.forward(teacher if name == "teacher" else student)
            t.backward(student)
            t.step(optimizer)

    expected = ["eval", "train"] if first == "teacher" else ["train", "eval"]
    assert stages_of(process_of(recorder.tell(distil))) == expected * 3
