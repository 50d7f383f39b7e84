"""CollectiveOrder: ranks issue the same collectives in the same order, and hold the same afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judgements import sentences, titles
from trace_builder import digest_of, tensor
from training_story import Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope

REDUCE, BROADCAST, BARRIER = (f"torch.distributed.{name}" for name in ("all_reduce", "broadcast", "barrier"))
TOGETHER = f"If one rank calls `{REDUCE}`, all ranks of its process group do, in the same order."
DTYPE = f"All ranks of a process group call `{REDUCE}` with the same dtype."
NUMBER = f"All ranks of a process group call `{REDUCE}` with the same number of elements."
SHARED = f"After `{REDUCE}` all ranks of the process group have the same values."


def collective(
    t: Training, api: str = REDUCE, *, size: int = 12, dtype: str = "float32", content: object = None,
    group: list[int] | None = None, **details: Any,
) -> None:  # fmt: skip
    """One call of a collective; its result is measured where `content` says what it is."""
    ranks = {"tuple": list(range(t.world_size)) if group is None else group}
    given = {} if api == BARRIER else {"tensor": tensor(size, dtype=dtype)}
    with t.call(api, type="collective", args={**given, "group": ranks}, line=13, **details):
        if content is not None:
            t.measure("collective.result", digest=digest_of(content))


def told(each_step: Callable[[Training, int], None]) -> Callable[[Training], None]:
    """A training in which these collectives are called before each optimizer step."""

    def story(t: Training) -> None:
        Measured(backward=lambda step: each_step(t, step)).tell(t)

    return story


def reducing(t: Training, step: int) -> None:
    collective(t, content=(t.seed, step))


GOOD = told(reducing)


def test_every_rank_does_the_same(recorder: Recorder) -> None:
    golden = recorder.learn(GOOD, ranks=2)
    assert {TOGETHER, DTYPE, NUMBER, SHARED} <= set(sentences(golden, "CollectiveOrder"))
    assert {item.scope for item in golden.invariants if item.relation == "CollectiveOrder"} == {Scope.TRANSFERABLE}
    assert not titles(recorder.judge(golden, GOOD, ranks=3), "CollectiveOrder")


def test_one_process_has_no_order_to_keep(recorder: Recorder) -> None:
    golden = recorder.learn(GOOD, ranks=2)
    assert not titles(recorder.judge(golden, GOOD), "CollectiveOrder")
    assert not sentences(recorder.learn(GOOD), "CollectiveOrder")


def test_ranks_that_call_different_things_at_the_same_place(recorder: Recorder) -> None:
    """A condition that depends on the rank's own data."""

    def confused(t: Training, step: int) -> None:
        collective(t, BROADCAST if step == 2 and t.rank == 1 else REDUCE)

    outcome = recorder.judge(recorder.learn(told(lambda t, _s: collective(t)), ranks=2), told(confused), ranks=2)
    assert titles(outcome, "CollectiveOrder") == [
        f"In the golden run all ranks called `{REDUCE}` together; in the candidate they call different things: "
        f"{REDUCE} on rank 0, {BROADCAST} on rank 1."
    ]
    assert outcome.incidents[0].root.step == 2


def test_a_rank_that_calls_less(recorder: Recorder) -> None:
    def lazy(t: Training, step: int) -> None:
        if t.rank == 0 or step < 4:
            collective(t)

    outcome = recorder.judge(recorder.learn(told(lambda t, _s: collective(t)), ranks=2), told(lazy), ranks=2)
    (title,) = titles(outcome, "CollectiveOrder")
    assert f"they call different things: {REDUCE} on rank 0, nothing on rank 1." in title


def test_another_dtype_or_size_on_one_rank(recorder: Recorder) -> None:
    golden = recorder.learn(told(lambda t, _step: collective(t)), ranks=2)
    half = told(lambda t, _step: collective(t, dtype="float16" if t.rank else "float32"))
    assert titles(recorder.judge(golden, half, ranks=2), "CollectiveOrder") == [
        f"In the golden run all ranks called `{REDUCE}` with the same dtype; in the candidate it differs: float32 "
        "on rank 0, float16 on rank 1."
    ]
    ragged = told(lambda t, _step: collective(t, size=12 + t.rank))
    assert titles(recorder.judge(golden, ragged, ranks=2), "CollectiveOrder") == [
        f"In the golden run all ranks called `{REDUCE}` with the same number of elements; in the candidate it "
        "differs: 12 on rank 0, 13 on rank 1."
    ]


def test_sizes_and_dtypes_that_are_the_ranks_own_in_golden(recorder: Recorder) -> None:
    """The last rank's shard is smaller."""
    ragged = told(lambda t, _step: collective(t, size=12 + t.rank, dtype=("float32", "float16")[t.rank]))
    known = set(sentences(recorder.learn(ragged, ranks=2), "CollectiveOrder"))
    assert TOGETHER in known
    assert not {DTYPE, NUMBER} & known


def test_a_result_that_is_not_the_same_everywhere(recorder: Recorder) -> None:
    outcome = recorder.judge(
        recorder.learn(GOOD, ranks=2), told(lambda t, step: collective(t, content=(t.rank, step))), ranks=2
    )
    assert titles(outcome, "CollectiveOrder") == [
        f"After `{REDUCE}` all ranks had the same values in the golden run; in the candidate they differ between ranks."
    ]


def test_results_that_were_not_measured(recorder: Recorder) -> None:
    """An asynchronous collective has no result yet when it returns."""
    golden = recorder.learn(GOOD, ranks=2)
    unmeasured = told(lambda t, _step: collective(t))
    assert not titles(recorder.judge(golden, unmeasured, ranks=2), "CollectiveOrder")
    assert SHARED not in sentences(recorder.learn(unmeasured, ranks=2))


def test_groups_are_told_apart(recorder: Recorder) -> None:
    """Two pairs of ranks reduce among themselves: what the others do is not their business."""

    def pairs(t: Training, step: int, *, lost: bool = False) -> None:
        mine = [0, 1] if t.rank < 2 else [2, 3]
        for number in range(1 if t.rank < 2 else 2):
            collective(t, group=mine, size=4 + mine[0], content=(mine[0], t.rank if lost else 0, step, number))

    golden = recorder.learn(told(pairs), ranks=4)
    assert {TOGETHER, NUMBER, SHARED} <= set(sentences(golden, "CollectiveOrder"))
    assert not titles(recorder.judge(golden, told(pairs), ranks=4), "CollectiveOrder")
    outcome = recorder.judge(golden, told(lambda t, step: pairs(t, step, lost=True)), ranks=4)
    assert len(titles(outcome, "CollectiveOrder")) == 1


def test_a_barrier_has_no_tensor(recorder: Recorder) -> None:
    golden = recorder.learn(told(lambda t, _step: collective(t, BARRIER)), ranks=2)
    assert TOGETHER.replace(REDUCE, BARRIER) in sentences(golden)
    outcome = recorder.judge(golden, told(lambda t, _step: collective(t, BARRIER if t.rank else REDUCE)), ranks=2)
    assert titles(outcome, "CollectiveOrder")


def test_what_a_collective_calls_inside_and_what_raised_do_not_count(recorder: Recorder) -> None:
    def nested(t: Training, _step: int) -> None:
        with t.call(REDUCE, type="collective", args={"tensor": tensor(12), "group": {"tuple": [0, 1]}}):
            if t.rank:
                collective(t, BROADCAST)
        if not t.rank:
            collective(t, BROADCAST, raised=True)

    golden = recorder.learn(told(nested), ranks=2)
    assert TOGETHER in sentences(golden)
    assert not [line for line in sentences(golden, "CollectiveOrder") if BROADCAST in line]
