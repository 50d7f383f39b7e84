"""APIArg in compiled regions: what functions are given in the graphs of `torch.compile`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from judgements import broken, rule, sentences, titles
from training_story import F, Loop, Measured, Recorder, Training

from pytest_traincheck.rules.model import Kind, Scope

NORM = f"{F}layer_norm(eps)="
RULE = f"`{F}layer_norm` is called with eps=1e-05 in compiled regions."


def compiled(t: Training, *found: str, called: Sequence[float] = ()) -> None:
    """A training whose first forward pass compiles graphs with these constants, and calls norms outside of them."""

    def compile_(step: int) -> None:
        for name in found if step == 0 else ():
            t.measure(f"constant:{name}")
        for eps in called:
            with t.call(f"{F}layer_norm", args={"eps": eps}):
                pass

    Measured(forward=compile_, model=t.model(layers=())).tell(t)


def rules(recorder: Recorder, *found: str, called: Sequence[float] = ()) -> list[str]:
    golden = recorder.learn(lambda t: compiled(t, *found, called=called))
    return [line for line in sentences(golden, "APIArg") if "layer_norm" in line or "compiled" in line]


def test_constants_in_compiled_regions(recorder: Recorder) -> None:
    def story(t: Training) -> None:
        compiled(t, NORM + "1e-05", NORM + "1e-05", f"{F}cross_entropy(ignore_index)=-100")

    golden = recorder.learn(story)
    assert [line for line in sentences(golden, "APIArg") if "compiled" in line] == [
        f"`{F}cross_entropy` is called with ignore_index=-100 in compiled regions.",
        RULE,
    ]
    found = rule(golden, RULE)
    assert (found.scope, found.kind, found.examples) == (Scope.PINNED, Kind.BEHAVIOUR, 4)
    assert not titles(recorder.judge(golden, story), "APIArg")


def test_a_constant_that_changed(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: compiled(t, NORM + "1e-05", NORM + "1e-05"))
    outcome = recorder.judge(golden, lambda t: compiled(t, NORM + "1e-05", NORM + "0.01"))
    violation = broken(outcome, RULE)
    assert violation.title == (
        f"`{F}layer_norm(eps)` was 1e-05 in the golden run and is 0.01 in the candidate, in a compiled region."
    )
    assert (violation.golden, violation.candidate, violation.count) == ("eps = 1e-05", "eps = 0.01", 1)


@pytest.mark.parametrize(
    ("value", "words"),
    [("true", "True"), ("null", "None"), ('"mean"', "mean"), ("Infinity", "inf"), ('"a=b"', "a=b"), ("1.0", "1")],
)
def test_values_in_the_words_of_calls(recorder: Recorder, value: str, words: str) -> None:
    golden = recorder.learn(lambda t: compiled(t, f"{F}huber_loss(delta)={value}"))
    assert f"`{F}huber_loss` is called with delta={words} in compiled regions." in sentences(golden)


@pytest.mark.parametrize(
    "name",
    [
        f"{F}dropout(training)=true",
        f"{F}scaled_dot_product_attention(dropout_p)=0.1",
        f"{F}dropout(inplace)=false",
        "torch.matmul(p)=1",
    ],
)
def test_modes_and_what_says_nothing_are_no_rule(recorder: Recorder, name: str) -> None:
    assert not rules(recorder, name)


def test_compilation_that_is_turned_on_or_off(recorder: Recorder) -> None:
    inside = recorder.learn(lambda t: compiled(t, NORM + "1e-05"))
    outside = recorder.learn(lambda t: compiled(t, called=[1e-5]))
    assert not titles(recorder.judge(inside, lambda t: compiled(t, called=[1e-5])), "APIArg")
    assert not titles(recorder.judge(inside, compiled), "APIArg")
    assert not titles(recorder.judge(outside, lambda t: compiled(t, NORM + "1e-05")), "APIArg")


def test_more_or_less_that_is_compiled(recorder: Recorder) -> None:
    """Two norms differ, and only one is compiled: which of them it is is nothing that either rule may rest on."""
    part = recorder.learn(lambda t: compiled(t, NORM + "1e-05", called=[1e-6]))
    for story in (
        lambda t: compiled(t, NORM + "1e-05", NORM + "1e-06"),
        lambda t: compiled(t, called=[1e-5, 1e-6]),
        lambda t: compiled(t, NORM + "1e-06", called=[1e-5]),
    ):
        assert not titles(recorder.judge(part, story), "APIArg")
    assert rules(recorder, NORM + "1e-05", called=[1e-5]) == [
        RULE,
        f"`{F}layer_norm` is called with eps=1e-05, in training.",
    ]


def test_a_loss_that_golden_also_measures_otherwise(recorder: Recorder) -> None:
    """The loop's own loss is a mean: what a compiled one is, the candidate may do in either place."""
    golden = recorder.learn(lambda t: compiled(t, f'{F}cross_entropy(reduction)="sum"'))
    assert not [line for line in sentences(golden) if "reduction" in line]


def test_two_values_in_golden_are_no_rule(recorder: Recorder) -> None:
    assert not rules(recorder, NORM + "1e-05", NORM + "0.01")


def test_an_evaluation_that_is_compiled_for_itself(recorder: Recorder) -> None:
    """Where gradients are recorded in evaluation, its graphs are not judged by those of training."""

    def story(t: Training, evaluated: str) -> None:
        def training(step: int) -> None:
            if step == 0:
                t.measure(f"constant:{NORM}1e-05")

        model = Measured(model=t.model(layers=()), forward=training).tell(t)
        t.mode(model, False)
        t.forward(model, line="evaluate", within=lambda: t.measure(f"constant:{NORM}{evaluated}"))

    golden = recorder.learn(lambda t: story(t, "1e-05"))
    assert rule(golden, RULE).examples == 2
    assert not titles(recorder.judge(golden, lambda t: story(t, "0.01")), "APIArg")


def test_a_program_without_compilation_has_no_such_rule(recorder: Recorder) -> None:
    assert not [line for line in sentences(recorder.golden(Loop())) if "compiled" in line]
