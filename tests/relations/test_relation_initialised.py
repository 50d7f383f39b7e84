"""Initialised: initializers run over a parameter as often as they ever did in golden, and no more."""

from __future__ import annotations

from collections.abc import Mapping

from judgements import sentences, titles
from training_story import Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope

ONCE = "No parameter of `Net` is initialised more than once."
TWICE = "No parameter of `Net` is initialised more than twice."


def built(t: Training, counts: Mapping[str, int] | None = None, *, name: str = "Net", measured: bool = True) -> None:
    """A training of a model whose parameters were initialised so many times, once where nothing is said."""
    model = t.model(name)
    for path, parameter in model.parameters.items():
        if measured:
            t.measure("parameter.initialised", float((counts or {}).get(path, 1)), variable=parameter.variable)
    Measured(model=model).tell(t)


def test_once_by_the_layers_themselves(recorder: Recorder) -> None:
    golden = recorder.learn(built)
    assert sentences(golden, "Initialised") == [ONCE]
    assert {item.scope for item in golden.invariants if item.relation == "Initialised"} == {Scope.PINNED}
    assert not titles(recorder.judge(golden, built), "Initialised")


def test_the_rule_is_about_the_most_that_golden_did(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: built(t, {"fc1.weight": 2, "fc2.weight": 0}))
    assert sentences(golden, "Initialised") == [TWICE]
    assert not titles(recorder.judge(golden, lambda t: built(t, {"fc2.weight": 2})), "Initialised")


def test_an_initialisation_that_runs_again_and_again(recorder: Recorder) -> None:
    """`self.apply(self._init_weights)` in every block: the innermost parameters get it once for each level."""
    outcome = recorder.judge(recorder.learn(built), lambda t: built(t, {"fc1.weight": 4, "fc1.bias": 4}))
    assert titles(outcome, "Initialised") == [
        "In the golden run no parameter of `Net` was initialised more than once; in the candidate `torch.nn.init` "
        "initialises `Net.fc1.weight`, `Net.fc1.bias` 4 times."
    ]


def test_fewer_initialisations_are_no_violation(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: built(t, {"fc1.weight": 2}))
    assert not titles(recorder.judge(golden, lambda t: built(t, dict.fromkeys(("fc1.weight",), 0))), "Initialised")


def test_a_model_that_was_never_initialised_has_no_rule(recorder: Recorder) -> None:
    """Its parameters come from a checkpoint or from the user's own arithmetic."""
    golden = recorder.learn(lambda t: built(t, dict.fromkeys(("fc1.weight", "fc1.bias", "fc2.weight"), 0)))
    assert not sentences(golden, "Initialised")


def test_other_models_and_unmeasured_runs_are_not_judged(recorder: Recorder) -> None:
    golden = recorder.learn(built)
    assert not titles(recorder.judge(golden, lambda t: built(t, measured=False)), "Initialised")

    def with_teacher(t: Training) -> None:
        teacher = t.model("Teacher")
        for parameter in teacher.parameters.values():
            t.measure("parameter.initialised", 7.0, variable=parameter.variable)
        built(t)

    assert not titles(recorder.judge(golden, with_teacher), "Initialised")
