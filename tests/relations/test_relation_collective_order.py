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
    assert outcome.incidents[0].cause.step == 2


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


def test_a_list_that_only_one_rank_gives_is_no_other_size(recorder: Recorder) -> None:
    """The rank that gathers has a list of tensors for what it is sent."""
    gather = "torch.distributed.gather"

    def gathering(t: Training, _step: int) -> None:
        lists = {"gather_list": {"list": [tensor(12), tensor(12)]}} if t.rank == 0 else {}
        given = {"tensor": tensor(12), "group": {"tuple": [0, 1]}, **lists}
        with t.call(gather, type="collective", args=given, line=13):
            pass

    known = sentences(recorder.learn(told(gathering), ranks=2), "CollectiveOrder")
    assert NUMBER.replace(REDUCE, gather) in known


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


SUMMED = f"`{REDUCE}` leaves the sum of what all ranks put in on every rank."
COPIED = f"`{BROADCAST}` leaves a copy of what was put in on every rank."
FILLED = f"What ranks put into `{REDUCE}` is not all zero."


def put_in(rank: int, step: int) -> list[float]:
    return [1.0 + rank, 0.5 * (step + 1), -2.0 * rank - 1, 3.0]


def exchanging(
    left: Callable[[int, list[list[float]]], list[float]], given: Callable[[int, int], list[float]] = put_in,
    api: str = REDUCE, **args: Any,
) -> Callable[[Training], None]:  # fmt: skip
    """A training in which something is exchanged before each step; `left` says what a rank has afterwards."""

    def each_step(t: Training, step: int) -> None:
        ranks = range(t.world_size)
        arguments = {"tensor": tensor(4), "group": {"tuple": list(ranks)}, **args}
        with t.call(api, type="collective", args=arguments, line=13):
            t.sketch("in.tensor", given(t.rank, step))
            t.sketch("left", left(t.rank, [given(rank, step) for rank in ranks]))

    return told(each_step)


def total(_rank: int, given: list[list[float]]) -> list[float]:
    return [sum(numbers) for numbers in zip(*given, strict=True)]


def test_what_an_exchange_makes_of_what_ranks_put_in_is_learned(recorder: Recorder) -> None:
    golden = recorder.learn(exchanging(total), ranks=2)
    assert {SUMMED, FILLED} <= set(sentences(golden, "CollectiveOrder"))
    assert not titles(recorder.judge(golden, exchanging(total), ranks=3), "CollectiveOrder")
    first = recorder.learn(exchanging(lambda _rank, given: given[1], api=BROADCAST, src=1), ranks=2)
    assert COPIED in sentences(first, "CollectiveOrder")
    average = recorder.learn(exchanging(lambda rank, given: [number / 2 for number in total(rank, given)]), ranks=2)
    assert SUMMED.replace("sum", "mean") in sentences(average, "CollectiveOrder")


def test_where_ranks_put_in_the_same_it_is_not_taken_for_a_mean(recorder: Recorder) -> None:
    def alike(_rank: int, step: int) -> list[float]:
        return put_in(0, step)

    def largest(_rank: int, given: list[list[float]]) -> list[float]:
        return [max(numbers) for numbers in zip(*given, strict=True)]

    golden = recorder.learn(exchanging(largest, alike), ranks=2)
    assert not [text for text in sentences(golden, "CollectiveOrder") if "mean" in text or "copy" in text]
    assert not titles(recorder.judge(golden, exchanging(largest), ranks=2), "CollectiveOrder")
    sent = recorder.learn(exchanging(lambda _rank, given: given[0], alike, BROADCAST, src=0), ranks=2)
    assert COPIED in sentences(sent, "CollectiveOrder")
    kept = recorder.judge(sent, exchanging(lambda rank, given: given[rank], api=BROADCAST, src=0), ranks=2)
    assert titles(kept, "CollectiveOrder") == [
        f"`{BROADCAST}` left a copy of what was put in on every rank in the golden run; in the candidate rank 1 has "
        "something else."
    ]


def test_an_exchange_that_leaves_something_else_is_named_with_its_rank(recorder: Recorder) -> None:
    golden = recorder.learn(exchanging(total), ranks=2)
    was = f"`{REDUCE}` left the sum of what all ranks put in on every rank in the golden run; in the candidate"

    def own(rank: int, given: list[list[float]]) -> list[float]:
        return total(rank, given) if rank == 0 else given[rank]

    def nothing(rank: int, given: list[list[float]]) -> list[float]:
        return total(rank, given) if rank == 0 else [0.0] * 4

    def half(rank: int, given: list[list[float]]) -> list[float]:
        return [number / 2 for number in total(rank, given)]

    def triple(rank: int, given: list[list[float]]) -> list[float]:
        """A whole number, which is no rank."""
        return [number * 3 for number in total(rank, given)]

    for left, says in (
        (triple, "rank 0 has 3 times that."),
        (own, "rank 1 has something else."),
        (nothing, "rank 1 has zero."),
        (half, "rank 0 has 0.5 times that."),
    ):
        outcome = recorder.judge(golden, exchanging(left), ranks=2)
        assert titles(outcome, "CollectiveOrder") == [f"{was} {says}"]
        assert outcome.incidents[0].cause.step == 0


def test_a_rank_that_puts_in_nothing_is_named(recorder: Recorder) -> None:
    golden = recorder.learn(exchanging(total), ranks=2)

    def empty(rank: int, step: int) -> list[float]:
        return [0.0] * 4 if rank == 1 else put_in(rank, step)

    assert titles(recorder.judge(golden, exchanging(total, empty), ranks=2), "CollectiveOrder") == [
        f"Every rank put numbers other than zero into `{REDUCE}` in the golden run; in the candidate rank 1 puts in "
        "nothing but zeros."
    ]
    all_zero = recorder.judge(golden, exchanging(total, lambda _rank, _step: [0.0] * 4), ranks=2)
    assert not titles(all_zero, "CollectiveOrder")


def test_rounding_of_a_sum_is_no_other_sum(recorder: Recorder) -> None:
    golden = recorder.learn(exchanging(total), ranks=2)

    def rounded(rank: int, given: list[list[float]]) -> list[float]:
        return [number * (1 + 2.0**-23) for number in total(rank, given)]

    assert not titles(recorder.judge(golden, exchanging(rounded), ranks=2), "CollectiveOrder")
