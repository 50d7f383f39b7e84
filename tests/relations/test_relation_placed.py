"""Placed: which parameters ranks hold parts of."""

from __future__ import annotations

from collections.abc import Mapping

from judgements import sentences, titles
from training_story import Recorder, Story, Training

from pytest_traincheck.rules.model import Kind, Scope

WHOLE = "Every rank holds all of `Net.fc2.weight`."
PARTS = "Ranks hold parts of `Net.fc1.bias`, `Net.fc1.weight`, placed as `Shard(0)`."
PLAN = {"fc1.weight": "Shard(0)", "fc1.bias": "Shard(0)"}


def placed(plan: Mapping[str, str]) -> Story:
    """Some parameters are `DTensor`s, placed as the plan says."""

    def story(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(3):
            t.zero_grad(optimizer)
            t.forward(net)
            for name, placement in plan.items() if step == 0 else ():
                t.measure(f"parameter.placed={placement}", variable=net.parameters[name].variable)
            t.backward(net)
            t.step(optimizer)

    return story


def test_what_ranks_hold_is_learned(recorder: Recorder) -> None:
    golden = recorder.learn(placed(PLAN), ranks=2)
    assert sentences(golden, "Placed") == [WHOLE, PARTS]
    assert {(item.kind, item.scope) for item in golden.invariants if item.relation == "Placed"} == {
        (Kind.CONFIG, Scope.PINNED)
    }
    assert not titles(recorder.judge(golden, placed(PLAN), ranks=2), "Placed")


def test_a_layer_that_the_plan_leaves_out(recorder: Recorder) -> None:
    golden = recorder.learn(placed(PLAN), ranks=2)
    assert titles(recorder.judge(golden, placed({"fc1.weight": "Shard(0)"}), ranks=2), "Placed") == [
        "In the golden run ranks held parts of `Net.fc1.bias`, placed as `Shard(0)`; in the candidate every rank holds "
        "all of them."
    ]


def test_a_layer_that_is_spread_otherwise(recorder: Recorder) -> None:
    golden = recorder.learn(placed(PLAN), ranks=2)
    plan = {**PLAN, "fc1.weight": "Shard(1)", "fc2.weight": "Shard(0)"}
    found = titles(recorder.judge(golden, placed(plan), ranks=2), "Placed")
    assert (
        "In the golden run ranks held parts of `Net.fc1.weight`, placed as `Shard(0)`; in the candidate they are "
        "placed as `Shard(1)`."
    ) in found
    assert (
        "In the golden run every rank held all of `Net.fc2.weight`; in the candidate they are placed as `Shard(0)`."
    ) in found


def test_what_is_replicated_is_whole(recorder: Recorder) -> None:
    golden = recorder.learn(placed(PLAN), ranks=2)
    plan = {**PLAN, "fc2.weight": "Replicate()"}
    assert not titles(recorder.judge(golden, placed(plan), ranks=2), "Placed")


def test_of_plain_tensors_nothing_is_said(recorder: Recorder) -> None:
    golden = recorder.learn(placed({}), ranks=2)
    assert not sentences(golden, "Placed")
    assert not titles(recorder.judge(golden, placed(PLAN), ranks=2), "Placed")
