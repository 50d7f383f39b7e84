"""DataFlow: losses get logits or probabilities, targets run ahead, indices and masks stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from judgements import sentences, titles
from trace_builder import Layer, digest_of, tensor
from training_story import DROPOUT, LINEAR, F, Measured, Recorder, Training

from pytest_traincheck.rules.model import Scope

LOGITS = "Loss functions are given logits."
AHEAD = "The targets of the loss are the model's input 1 token ahead."
POSITIONS = Layer("positions", "torch.nn.Embedding", F + "embedding")
ATTENTION = Layer("attention", "torch.nn.MultiheadAttention", F + "scaled_dot_product_attention")


def shaped(t: Training, *pairs: tuple[str, str]) -> None:
    """A training with these loss functions, and what made the input of each."""
    model = t.model()
    optimizer = t.adamw(list(model.parameters.values()))
    for _ in range(6):
        t.zero_grad(optimizer)
        t.forward(model)
        for function, made in pairs:
            t.loss(F + function, within=lambda made=made: t.measure(f"loss.input={made}"))
        t.backward(model)
        t.step(optimizer)


def given(function: str, made: str) -> Callable[[Training], None]:
    return lambda t: shaped(t, (function, made))


# What losses are given


def test_logits(recorder: Recorder) -> None:
    golden = recorder.learn(given("cross_entropy", "other"))
    assert sentences(golden, "DataFlow") == [LOGITS]
    assert {item.scope for item in golden.invariants if item.relation == "DataFlow"} == {Scope.PINNED}
    assert not titles(recorder.judge(golden, given("cross_entropy", "other")), "DataFlow")


def test_a_softmax_in_front_of_cross_entropy(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(given("cross_entropy", "other")), given("cross_entropy", "softmax"))
    assert titles(outcome, "DataFlow") == [
        f"In the golden run loss functions were given logits; in the candidate `{F}cross_entropy` is given "
        "probabilities (the output of `softmax`)."
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("cross_entropy", "other"), ("nll_loss", "log_softmax")),
        (("binary_cross_entropy_with_logits", "other"), ("binary_cross_entropy", "sigmoid")),
        (("cross_entropy", "other"), ("kl_div", "log_softmax")),
    ],
)
def test_the_same_loss_in_one_call_or_in_two(recorder: Recorder, one: tuple[str, str], other: tuple[str, str]) -> None:
    for golden, candidate in ((one, other), (other, one)):
        learned = recorder.learn(given(*golden))
        assert sentences(learned, "DataFlow") == [LOGITS]
        assert not titles(recorder.judge(learned, given(*candidate)), "DataFlow")


def test_logits_where_log_probabilities_belong(recorder: Recorder) -> None:
    """`nll_loss` on raw scores trains towards nonsense and looks fine."""
    outcome = recorder.judge(recorder.learn(given("nll_loss", "log_softmax")), given("nll_loss", "other"))
    assert titles(outcome, "DataFlow") == [
        "In the golden run loss functions were given log-probabilities (the output of `log_softmax`), or logits where "
        f"the loss makes those itself; in the candidate `{F}nll_loss` is given numbers that have not gone through "
        "`log_softmax`, as logits are."
    ]


def test_two_losses_with_inputs_of_their_own(recorder: Recorder) -> None:
    both = (("cross_entropy", "other"), ("mse_loss", "tanh"))
    golden = recorder.learn(lambda t: shaped(t, *both))
    assert sentences(golden, "DataFlow") == [
        f"Loss functions are given logits, in calls of `{F}cross_entropy`.",
        f"Loss functions are given the output of `tanh`, in calls of `{F}mse_loss`.",
    ]
    assert not titles(recorder.judge(golden, lambda t: shaped(t, *both)), "DataFlow")
    for first, second in ((("cross_entropy", "softmax"), both[1]), (both[0], ("mse_loss", "other"))):
        changed = recorder.judge(golden, lambda t, first=first, second=second: shaped(t, first, second))
        assert len(titles(changed, "DataFlow")) == 1


def test_a_candidate_whose_loss_is_written_by_hand(recorder: Recorder) -> None:
    golden = recorder.learn(given("cross_entropy", "other"))
    assert not titles(recorder.judge(golden, shaped), "DataFlow")
    assert not sentences(recorder.learn(shaped), "DataFlow")


# Targets


def targeting(shifts: Sequence[int]) -> Callable[[Training], None]:
    """A training whose targets run ahead by so many tokens, step by step; a shift of 9 was not measured."""

    def story(t: Training) -> None:
        def measure(step: int) -> None:
            if shifts[step] != 9:
                t.measure("loss.shift", float(shifts[step]))

        Measured(loss=measure).tell(t)

    return story


def test_the_next_token(recorder: Recorder) -> None:
    golden = recorder.learn(targeting([1] * 6))
    assert sentences(golden, "DataFlow") == [AHEAD]
    assert not titles(recorder.judge(golden, targeting([1] * 6)), "DataFlow")


@pytest.mark.parametrize(("shift", "words"), [(0, "itself"), (2, "2 tokens ahead"), (-1, "1 token behind")])
def test_labels_that_are_shifted_twice_or_not_at_all(recorder: Recorder, shift: int, words: str) -> None:
    outcome = recorder.judge(recorder.learn(targeting([1] * 6)), targeting([shift] * 6))
    assert titles(outcome, "DataFlow") == [
        "In the golden run the targets of the loss were the model's input 1 token ahead; in the candidate they are "
        f"the input {words}: labels are shifted differently."
    ]


def test_shifts_that_vary_and_shifts_that_were_not_seen(recorder: Recorder) -> None:
    assert not sentences(recorder.learn(targeting([1, 0, 1, 0, 1, 0])), "DataFlow")
    golden = recorder.learn(targeting([1] * 6))
    assert not titles(recorder.judge(golden, targeting([9] * 6)), "DataFlow")


# Indices and masks


def looking_up(
    content: Callable[[Training, int], object], name: str = "content.input", layer: Layer = POSITIONS
) -> Callable[[Training], None]:
    """A training in which a layer's call has an argument with this content, or the number of a pattern."""

    def story(t: Training) -> None:
        model = t.model(layers=(LINEAR, DROPOUT, layer))

        def measure(step: int) -> None:
            found = content(t, step)
            if found is None:
                return
            with (
                t.call(layer.module, type="module", module=model.layers[-1].number, training=True),
                t.call(layer.function, args={}),
            ):
                if name.startswith("pattern."):
                    t.measure(name, float(found))  # type: ignore[arg-type]
                else:
                    t.measure(name, digest=digest_of(found))

        Measured(model=model, forward=measure).tell(t)

    return story


ARANGE = looking_up(lambda _t, _step: "0 1 2 3")


def test_the_same_position_ids_in_every_call(recorder: Recorder) -> None:
    golden = recorder.learn(ARANGE)
    assert "The indices of `Net.positions` are the same in every call, in training." in sentences(golden, "DataFlow")
    assert not titles(recorder.judge(golden, ARANGE), "DataFlow")


def test_position_ids_that_begin_somewhere_else(recorder: Recorder) -> None:
    outcome = recorder.judge(recorder.learn(ARANGE), looking_up(lambda _t, _step: "1 2 3 4"))
    assert titles(outcome, "DataFlow") == [
        "In the golden run the indices of `Net.positions` were the same in every call; in the candidate they are "
        "different."
    ]


def test_a_mask_that_is_another(recorder: Recorder) -> None:
    triangle = looking_up(lambda _t, _step: "triangle", "content.attn_mask", ATTENTION)
    outcome = recorder.judge(
        recorder.learn(triangle), looking_up(lambda _t, _s: "ones", "content.attn_mask", ATTENTION)
    )
    assert titles(outcome, "DataFlow") == [
        "In the golden run the attention mask of `Net.attention` was the same in every call; in the candidate it "
        "is different."
    ]


def test_indices_that_are_data_are_no_rule(recorder: Recorder) -> None:
    for varying in (lambda t, step: (t.seed, step), lambda t, _step: t.seed):
        assert not sentences(recorder.learn(looking_up(varying)), "DataFlow")


def test_a_layer_that_is_not_called_breaks_no_rule_about_its_arguments(recorder: Recorder) -> None:
    golden = recorder.learn(ARANGE)
    assert not titles(recorder.judge(golden, looking_up(lambda _t, _step: None)), "DataFlow")
    assert not titles(recorder.judge(golden, Measured().tell), "DataFlow")


# Patterns


def counting(first: int) -> Callable[[Training], None]:
    return looking_up(lambda _t, _step: first, "pattern.input")


def hiding(flag: int, name: str = "pattern.mask") -> Callable[[Training], None]:
    return looking_up(lambda _t, _step: flag, name, ATTENTION)


def test_position_ids_count_up(recorder: Recorder) -> None:
    """However long the batch is: the content differs, the pattern does not."""
    golden = recorder.learn(counting(0))
    assert "The indices of `Net.positions` count up from 0 in every row, in training." in sentences(golden)
    assert not titles(recorder.judge(golden, counting(0)), "DataFlow")


@pytest.mark.parametrize("first", [1, -1])
def test_position_ids_that_do_not_count_from_zero(recorder: Recorder, first: int) -> None:
    outcome = recorder.judge(recorder.learn(counting(0)), counting(first))
    assert titles(outcome, "DataFlow") == [
        "In the golden run the indices of `Net.positions` count up from 0 in every row; in the candidate they do not."
    ]


def test_a_causal_mask_and_one_that_lets_the_future_be_seen(recorder: Recorder) -> None:
    golden = recorder.learn(hiding(1))
    assert "The mask of `Net.attention` hides all later positions, in training." in sentences(golden)
    assert not titles(recorder.judge(golden, hiding(1)), "DataFlow")
    assert titles(recorder.judge(golden, hiding(0)), "DataFlow") == [
        "In the golden run the mask of `Net.attention` hides all later positions; in the candidate it does not."
    ]
    reverse = recorder.learn(hiding(0, "pattern.attn_mask"))
    assert titles(recorder.judge(reverse, hiding(1, "pattern.attn_mask")), "DataFlow") == [
        "In the golden run the attention mask of `Net.attention` lets some later positions be seen; in the "
        "candidate it hides all of them."
    ]


def test_words_are_no_pattern(recorder: Recorder) -> None:
    """Tokens do not count up, and that says nothing; a row that does so by chance is no rule either."""
    assert not sentences(recorder.learn(counting(-1)), "DataFlow")
    by_chance = looking_up(lambda _t, step: 0 if step == 2 else -1, "pattern.input")
    assert not sentences(recorder.learn(by_chance), "DataFlow")


# Along which dimension


def choosing(t: Training, *shapes: tuple[int, ...], dim: int | None = 1, api: str = "torch.topk") -> None:
    """A training after which the best of scores are looked for."""
    model = Measured().tell(t)
    t.mode(model, False)
    with t.no_grad():
        t.forward(model, line="evaluate")
        for shape in shapes:
            with t.call(api, type="choice", args={"input": tensor(*shape), "dim": dim}):
                pass


def test_a_choice_among_so_many(recorder: Recorder) -> None:
    golden = recorder.learn(lambda t: choosing(t, (8, 64), (8, 10)))
    assert "`torch.topk` goes over 10 or 64 numbers at a time, in evaluation." in sentences(golden, "DataFlow")
    for shapes in (((8, 64), (8, 10)), ((1, 64), (3, 10)), ((8, 64), (8, 10), (8, 5)), ((8, 64),)):
        assert not titles(recorder.judge(golden, lambda t, shapes=shapes: choosing(t, *shapes)), "DataFlow")
    assert titles(recorder.judge(golden, lambda t: choosing(t, (8, 10), (1, 512))), "DataFlow") == [
        "In the golden run `torch.topk` went over 10 or 64 numbers at a time, in evaluation; in the candidate it goes "
        "over 512: along another dimension, or through all rows at once."
    ]


def test_choices_that_are_up_to_the_data(recorder: Recorder) -> None:
    assert not sentences(recorder.learn(lambda t: choosing(t, *[(8, size) for size in range(5, 10)])), "DataFlow")
    largest = recorder.learn(lambda t: choosing(t, (8, 64), dim=None, api="torch.max"))
    assert not sentences(largest, "DataFlow"), "the largest of all is no choice"
    (place,) = sentences(recorder.learn(lambda t: choosing(t, (8, 64), dim=None, api="torch.argmax")), "DataFlow")
    assert place == "`torch.argmax` goes over 512 numbers at a time, in evaluation."
