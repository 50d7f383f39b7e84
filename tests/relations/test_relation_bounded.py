"""Bounded: as many rows as examples in a batch, no more new tokens than asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from judgements import sentences, titles, violations
from trace_builder import Model, digest_of, tensor
from training_story import Measured, Recorder, Training

from pytest_traincheck.rules.model import Kind, Scope

ROWS = "All tensors of a batch have the same number of rows, at most the batch size."
TOKENS = "`__main__.Decoder.generate` returns no more new tokens than `max_new_tokens`."
SIZE = 8


def loaded(t: Training, lead: int = SIZE, last: int = SIZE, size: int = SIZE) -> Model:
    """Batches of `lead` rows, and a last one of `last`."""

    def measure(step: int) -> None:
        t.measure("batch.size", float(size))
        t.measure("batch.lead", float(last if step == 5 else lead))

    return Measured(batch=measure).tell(t)


def generating(t: Training, new: Sequence[int] = (12, 12, 9), limit: object = 12) -> None:
    """A training after which text is generated."""
    model = Measured().tell(t)
    t.mode(model, False)
    arguments = {} if limit is None else {"max_new_tokens": limit}
    with t.no_grad():
        for tokens in new:
            with t.call("__main__.Decoder.generate", type="generate", args=arguments, module=model.number):
                t.forward(model, line="evaluate")
                t.measure("generate.new", float(tokens))


def asked(
    t: Training,
    calls: Sequence[int] = (6, 6),
    prompt: int = 4,
    limit: int = 6,
    contexts: Sequence[int] | None = None,
) -> None:
    """A training after which text is generated, by so many calls of the model in each text; `contexts` are the tokens
    that each of them is given, as numbers.
    """
    model = Measured().tell(t)
    t.mode(model, False)
    arguments = {"max_new_tokens": limit, "tokens": tensor(1, prompt, dtype="int64")}
    with t.no_grad():
        for count in calls:
            with t.call("__main__.Decoder.generate", type="generate", args=arguments, module=model.number):
                for number in range(count):
                    with t.call("__main__.Decoder", type="module", module=model.number, entry=True):
                        context = number if contexts is None else contexts[min(number, len(contexts) - 1)]
                        t.measure("generate.context", digest=digest_of("context", context))
                t.measure("generate.new", float(limit))


CALLS = "`__main__.Decoder.generate` calls the model as often as its `max_new_tokens` says, in evaluation."
CONTEXT = "`__main__.Decoder.generate` gives the model other tokens in each call than in the one before."


def test_the_model_is_called_as_often_as_was_asked(recorder: Recorder) -> None:
    golden = recorder.learn(asked)
    assert {CALLS, CONTEXT} <= set(sentences(golden, "Bounded"))
    assert titles(recorder.judge(golden, lambda t: asked(t, calls=(2, 2))), "Bounded") == [
        "`__main__.Decoder.generate` called the model as often as its `max_new_tokens` says in the golden run; in the "
        "candidate it makes 2 calls where 6 were asked for."
    ]
    only = recorder.judge(golden, lambda t: asked(t, calls=(2,)))
    assert titles(only, "Bounded"), "the prompt has four tokens, which explains it"


@pytest.mark.parametrize(
    "calls", [(6, 3), (3, 5), (3,), (6, 6, 6)], ids=["one ends early", "all end early", "a single one", "one more"]
)
def test_a_text_that_ends_early_breaks_nothing(recorder: Recorder, calls: tuple[int, ...]) -> None:
    assert not titles(recorder.judge(recorder.learn(asked), lambda t: asked(t, calls=calls)), "Bounded")


def test_texts_that_end_early_in_golden_are_no_rule(recorder: Recorder) -> None:
    assert CALLS not in sentences(recorder.learn(lambda t: asked(t, calls=(6, 4))))


def written(t: Training, calls: Sequence[int] = (6, 6), rows: int = 6, columns: Sequence[int] = (5, 5)) -> None:
    """A training after which a function is asked for a number of calls, of rows and of columns."""
    model = Measured().tell(t)
    t.mode(model, False)
    arguments = {"limit": 6, "width": 5, "tokens": tensor(1, 4, dtype="int64")}
    with t.no_grad():
        t.forward(model, line="evaluate")
        for count, width in zip(calls, columns, strict=True):
            with t.call("__main__.write", type="asked", args=arguments, returns=tensor(rows, width)):
                t.measure("asked.calls", float(count))


OFTEN = "`__main__.write` calls the model as often as its `limit` says, in evaluation."


def test_functions_that_are_asked_for_a_number(recorder: Recorder) -> None:
    golden = recorder.learn(written)
    assert [text for text in sentences(golden, "Bounded") if "write" in text] == [
        OFTEN,
        "`__main__.write` returns as many columns as its `width` says, in evaluation.",
        "`__main__.write` returns as many rows as its `limit` says, in evaluation.",
    ]
    assert not titles(recorder.judge(golden, written), "Bounded")
    assert titles(recorder.judge(golden, lambda t: written(t, rows=4)), "Bounded") == [
        "`__main__.write` returned as many rows as its `limit` says in the golden run; in the candidate it returns 4 "
        "where 6 were asked for."
    ]
    ends_early = recorder.judge(golden, lambda t: written(t, calls=(6, 3), columns=(5, 2)))
    assert not titles(ends_early, "Bounded")
    always = recorder.judge(golden, lambda t: written(t, calls=(5, 3, 4, 3), columns=(4, 2, 3, 2)))
    assert titles(always, "Bounded") == [
        "`__main__.write` called the model as often as its `limit` says in the golden run; in the candidate it makes 5 "
        "calls where 6 were asked for.",
        "`__main__.write` returned as many columns as its `width` says in the golden run; in the candidate it "
        "returns 4 where 5 were asked for.",
    ]


def test_what_is_asked_for_and_not_always_done_is_no_rule(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: written(t, calls=(6, 4)))
    assert OFTEN not in sentences(golden)


def test_a_context_that_stays_is_named(recorder: Recorder) -> None:
    golden = recorder.learn(asked)
    (title,) = titles(recorder.judge(golden, lambda t: asked(t, contexts=(0, 1, 2))), "Bounded")
    assert title.startswith(
        "`__main__.Decoder.generate` gave the model other tokens in each call in the golden run; in the candidate the "
        "input is the same as in the call before"
    )
    assert CONTEXT not in sentences(recorder.learn(lambda t: asked(t, contexts=(0, 0, 1, 1, 2, 2))))


def test_a_batch_has_a_row_for_each_example(recorder: Recorder) -> None:
    golden = recorder.learn(loaded)
    assert [item.scope for item in golden.invariants if item.sentence == ROWS] == [Scope.TRANSFERABLE]
    assert not titles(recorder.judge(golden, loaded), "Bounded")


def test_a_smaller_last_batch_is_no_fault(recorder: Recorder) -> None:
    golden = recorder.learn(loaded)
    assert not titles(recorder.judge(golden, lambda t: loaded(t, last=3)), "Bounded")


CONFIGURED = "The batch size of training is 8."


def test_the_batch_size_is_a_setting(recorder: Recorder) -> None:
    golden = recorder.learn(loaded)
    assert [(item.scope, item.kind) for item in golden.invariants if item.sentence == CONFIGURED] == [
        (Scope.PINNED, Kind.CONFIG)
    ]
    outcome = recorder.judge(golden, lambda t: loaded(t, lead=4, last=4, size=4))
    assert titles(outcome, "Bounded") == [
        "The batch size of training was 8 in the golden run and is 4 in the candidate."
    ]
    (violation,) = violations(outcome, "Bounded")
    assert (violation.step, violation.golden, violation.candidate) == (0, "batch_size = 8", "batch_size = 4")


def test_batches_whose_size_is_nobodys_setting(recorder: Recorder) -> None:
    """Buckets of similar length, each of another size; and batches that are not made by a loader."""

    def bucketed(t: Training) -> None:
        def measure(step: int) -> None:
            t.measure("batch.size", float(2 + step))
            t.measure("batch.lead", float(2 + step))

        Measured(batch=measure).tell(t)

    for story in (bucketed, Measured().tell):
        assert not [text for text in sentences(recorder.learn(story)) if text.startswith("The batch size")]
        assert not titles(recorder.judge(recorder.learn(loaded), Measured().tell), "Bounded")


def test_the_batch_size_of_an_evaluation_may_change(recorder: Recorder) -> None:
    def evaluated(t: Training, size: int = 64) -> None:
        def measure() -> None:
            t.measure("batch.size", float(size))
            t.measure("batch.lead", float(size))

        model = loaded(t)
        t.mode(model, False)
        with t.no_grad():
            t.batch(measure)
            t.forward(model, line="evaluate")

    golden = recorder.learn(evaluated)
    assert CONFIGURED in sentences(golden)
    assert not titles(recorder.judge(golden, lambda t: evaluated(t, size=16)), "Bounded")


def test_a_collate_function_that_makes_two_rows_of_one_example(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(loaded), lambda t: loaded(t, lead=16, last=16))
    assert titles(outcome, "Bounded") == [
        "In the golden run all tensors of a batch had the same number of rows, at most the batch size; in the "
        "candidate the batch has 16 rows for at most 8 examples."
    ]


def test_tensors_of_a_batch_that_do_not_fit_together(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(loaded), lambda t: loaded(t, lead=-1))
    assert titles(outcome, "Bounded") == [
        "In the golden run all tensors of a batch had the same number of rows, at most the batch size; in the "
        "candidate the batch has tensors with different numbers of rows."
    ]


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (
            {"dict": {"input_ids": tensor(8, 5), "mask": tensor(5, 8), "scale": 2.0, "count": tensor()}},
            "8 in `input_ids`, 5 in `mask`",
        ),
        ({"tuple": [tensor(8, 5), 2.0, tensor(5, 8)]}, "8 in `batch[0]`, 5 in `batch[2]`"),
    ],
)
def test_tensors_that_do_not_fit_together_are_named(recorder: Recorder, summary: dict[str, Any], said: str) -> None:
    """The attention mask was padded along the wrong dimension."""

    def named(t: Training) -> None:
        model = t.model()
        optimizer = t.adamw(list(model.parameters.values()))
        for _ in range(6):
            t.zero_grad(optimizer)
            with t.call("torch.utils.data.DataLoader.__next__", type="data", returns=summary):
                t.measure("batch.size", float(SIZE))
                t.measure("batch.lead", -1.0)
            t.forward(model)
            t.loss()
            t.backward(model)
            t.step(optimizer)

    assert titles(recorder.judge(recorder.learn(loaded), named), "Bounded") == [
        "In the golden run all tensors of a batch had the same number of rows, at most the batch size; in the "
        f"candidate the batch has different numbers of rows: {said}."
    ]


def test_packed_batches_in_golden_are_no_rule(recorder: Recorder) -> None:
    """Graphs and packed sequences have tensors of many lengths."""
    assert ROWS not in sentences(recorder.learn(lambda t: loaded(t, lead=-1, last=-1)))
    assert ROWS not in sentences(recorder.learn(lambda t: loaded(t, lead=-1)))


def test_batches_that_were_not_measured(recorder: Recorder) -> None:
    assert not titles(recorder.judge(recorder.learn(loaded), Measured().tell), "Bounded")
    assert not sentences(recorder.learn(Measured().tell), "Bounded")


def test_generation_stops_at_its_limit(recorder: Recorder) -> None:
    golden = recorder.learn(generating)
    assert any(line.startswith(TOKENS.removesuffix(".")) for line in sentences(golden, "Bounded"))
    assert not titles(recorder.judge(golden, lambda t: generating(t, new=(4, 12, 1))), "Bounded")
    assert not titles(recorder.judge(golden, lambda t: generating(t, new=(40, 40, 40), limit=40)), "Bounded")


def test_generation_that_runs_over(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(generating), lambda t: generating(t, new=(12, 13, 13)))
    assert titles(outcome, "Bounded") == [
        "`__main__.Decoder.generate` returned no more new tokens than `max_new_tokens` in the golden run; in the "
        "candidate it returns 13 where 12 were asked for."
    ]


def test_generation_without_a_limit_or_over_it_in_golden_is_no_rule(recorder: Recorder) -> None:
    assert not sentences(recorder.learn(lambda t: generating(t, limit=None)), "Bounded")
    assert not sentences(recorder.learn(lambda t: generating(t, new=(13, 13, 13))), "Bounded")
    golden = recorder.learn(generating)
    assert not titles(recorder.judge(golden, lambda t: generating(t, new=(99, 99), limit=None)), "Bounded")
