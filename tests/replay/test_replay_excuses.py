"""A rule about how something is computed is not broken where the same comes out; where it does not, it is."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import replays  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from replays import DIM, PAD, Attention, Model, Record, claimed, golden_of, train  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


def told(scale: float | None) -> Any:
    """Attention that tells the function its scale."""

    def forward(self: Any, x: Any) -> Any:
        q, k, v = self.project(x).chunk(3, dim=-1)
        return self.drop(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale))

    return forward


def summed(logits: Any, labels: Any) -> Any:
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")
    return total / (labels != PAD).sum()


def over_all(logits: Any, labels: Any) -> Any:
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")
    return total / labels.numel()


def titles(outcome: CheckOutcome) -> list[str]:
    return [incident.cause.title for incident in outcome.incidents]


def excused(outcome: CheckOutcome) -> dict[str, str]:
    return {
        item.invariant.relation: item.reason
        for item in outcome.verdicts
        if item.verdict is Verdict.HELD and item.reason
    }


@pytest.mark.parametrize(("scale", "clean"), [(DIM**-0.5, True), (1.02 * DIM**-0.5, False)])
def test_an_argument_that_says_what_the_default_says(
    record: Record, monkeypatch: pytest.MonkeyPatch, scale: float, clean: bool
) -> None:
    monkeypatch.setattr(Attention, "forward", told(None))
    golden = golden_of(record)
    monkeypatch.setattr(Attention, "forward", told(scale))
    outcome = check_run(golden, record(train()), same_spec=True)
    if clean:
        assert not titles(outcome)
        # Nor where other random numbers keep replay from comparing anything.
        assert not titles(check_run(golden, record(train(seed=5)), same_spec=True))
    else:
        (title,) = titles(outcome)
        assert "scaled_dot_product_attention(scale)` was None in the golden run" in title


def test_a_sum_that_is_divided_afterwards(golden: Any, record: Record) -> None:
    outcome = check_run(golden, record(train(loss=summed)), same_spec=True)
    assert not titles(outcome)
    assert excused(outcome).keys() >= {"APIArg"}


def test_a_sum_that_is_divided_by_something_else(golden: Any, record: Record) -> None:
    outcome = check_run(golden, record(train(loss=over_all)), same_spec=True)
    assert len(titles(outcome)) == 1
    assert not excused(outcome)


def test_a_small_change_of_a_setting_is_no_rounding(golden: Any, record: Record) -> None:
    """The results agree as well as those of another kernel would; an argument that was not golden's counts all the
    same.
    """
    outcome = check_run(golden, record(train(eps=1e-6)), same_spec=True)
    (title,) = titles(outcome)
    assert title == "`torch.nn.functional.layer_norm(eps)` was 1e-05 in the golden run and is 1e-06 in the candidate."


MASKING = "A masking function"


def test_a_mask_that_is_dropped_is_told_where_results_can_be_compared(record: Record) -> None:
    golden = golden_of(record)
    (incident,) = check_run(golden, record(train(mask="none")), same_spec=True).incidents
    assert any(item.title.startswith(MASKING) for item in incident.violations)


def test_a_mask_that_is_nowhere_is_not_told_where_nothing_can_be_compared(record: Record) -> None:
    """With other random numbers it is as if it was written in other words."""
    golden = golden_of(record)
    outcome = check_run(golden, record(train(seed=5, mask="none")), same_spec=True)
    assert not [title for title in titles(outcome) if title.startswith(MASKING)]


def forgets_its_mask(after: int) -> Any:
    """A wrapper that switches the mask off once the model has been called so often."""

    def wrap(model: Any) -> Any:
        def count(module: Any, *_: Any) -> None:
            module.calls = getattr(module, "calls", 0) + 1
            if module.calls > after:
                module.block.attend.mask = "none"

        model.register_forward_pre_hook(count)
        return model

    return wrap


def test_what_a_later_step_leaves_out_is_not_excused(record: Record) -> None:
    """The steps that are compared say nothing about the others."""
    golden = golden_of(record, steps=6)
    (incident,) = check_run(golden, record(train(steps=6, wrap=forgets_its_mask(3))), same_spec=True).incidents
    assert incident.cause.title.startswith('The attribute `mask` of `Model.block.attend` was "causal" before step 3')
    assert incident.consequences[0].title.startswith(
        "A masking function (`masked_fill`, or attention with a mask) was called at least "
        "once in every training step of the golden run"
    )


class Noisy(torch.nn.Module):
    def __init__(self, always: bool) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.always = always

    def forward(self, x: Any) -> Any:
        return self.fc(F.dropout(x, 0.5, training=self.training or self.always))


def with_evaluation(always: bool) -> Any:
    """Training that is evaluated after each step."""

    def run() -> None:
        torch.manual_seed(0)
        net = Noisy(always)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(4):
            x = torch.randn(8, 4)
            net.train()
            optimizer.zero_grad()
            F.mse_loss(net(x), x[:, :3]).backward()
            optimizer.step()
            net.eval()
            state = torch.get_rng_state()
            with torch.no_grad():
                net(x + number)
            torch.set_rng_state(state)

    return run


def test_what_evaluation_does_is_not_excused_by_training(record: Record) -> None:
    """Losses and gradients are golden's, and the dropout that stays active in evaluation is a mistake all the same."""
    golden = learn([record(with_evaluation(False)) for _ in range(3)], pipeline="evaluated", seeds=(0, 1, 2))
    outcome = check_run(golden, record(with_evaluation(True)), same_spec=True)
    found = [violation.title for incident in outcome.incidents for violation in incident.violations]
    assert any("dropout" in title and "training" in title for title in found)


class Manual(Attention):
    """Softmax written out."""

    def forward(self, x: Any) -> Any:
        q, k, v = self.project(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / DIM**0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = torch.where(future, -1e9, scores)
        weights = (weights - weights.amax(-1, keepdim=True)).exp()
        return self.drop(weights / weights.sum(-1, keepdim=True) @ v)


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1)


def test_functions_written_in_other_words(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_of(record, optimizer=sgd)
    monkeypatch.setattr(Attention, "forward", Manual.forward)
    outcome = check_run(golden, record(train(optimizer=sgd)), same_spec=True)
    assert not titles(outcome)
    assert "Count" in excused(outcome)


def test_a_border_between_model_and_loss_that_moved(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probabilities are computed by the model, or by the loss: the step is the same."""
    golden = golden_of(record)
    plain = Model.forward
    monkeypatch.setattr(Model, "forward", lambda self, tokens: plain(self, tokens).log_softmax(-1))

    def likelihood(logits: Any, labels: Any) -> Any:
        return F.nll_loss(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)

    outcome = check_run(golden, record(train(loss=likelihood)), same_spec=True)
    assert not [incident for incident in outcome.incidents if incident.cause.invariant.relation == "Replay"]


def masked(self: Any, x: Any) -> Any:
    """Attention by one function that is given its mask."""
    q, k, v = self.project(x).chunk(3, dim=-1)
    past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return self.drop(F.scaled_dot_product_attention(q, k, v, attn_mask=past))


@pytest.mark.parametrize(("forward", "enough"), [(told(None), True), (masked, False)])
def test_one_step_is_enough_for_what_masks_nothing(
    record: Record, monkeypatch: pytest.MonkeyPatch, forward: Any, enough: bool
) -> None:
    """Attention is written out. A mask of golden's may have had nothing to hide in one step."""
    by_hand = train(steps=1)
    with monkeypatch.context() as patched:
        patched.setattr(Attention, "forward", forward)
        golden = learn([record(train(seed=seed, steps=1)) for seed in (0, 1, 2)], pipeline="one", seeds=(0, 1, 2))
    outcome = check_run(golden, record(by_hand), same_spec=True)
    assert bool(titles(outcome)) != enough


class WithMask(Model):
    """Keeps its mask as a buffer, as older code does; the newer makes it anew in every call."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(**changes)
        self.block.attend.register_buffer("future", torch.ones(DIM, DIM, dtype=torch.bool).triu(1), persistent=False)


@pytest.mark.parametrize(("eps", "clean"), [(1e-5, True), (1e-3, False)])
def test_a_buffer_that_is_gone_is_nothing_that_is_given(
    record: Record, monkeypatch: pytest.MonkeyPatch, eps: float, clean: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(replays, "Model", WithMask)
        golden = golden_of(record)
    outcome = check_run(golden, record(train(eps=eps)), same_spec=True)
    said = [item.invariant.relation for incident in outcome.incidents for item in incident.violations]
    assert ("Replay" in said) is not clean, titles(outcome)
    assert claimed(outcome) > (6 if clean else 0)


class Normed(torch.nn.Module):
    """A batch norm between two layers, which takes so much of each batch into its statistics."""

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
        self.norm = torch.nn.BatchNorm1d(8, momentum=momentum)

    def forward(self, x: Any) -> Any:
        return self.last(self.norm(self.first(x)).relu())


def test_what_a_call_leaves_behind_is_not_in_its_result(record: Record) -> None:
    """Running statistics of another momentum: training goes on as in golden, and evaluation does not."""

    def normed(momentum: float, seed: int = 0) -> Any:
        def run() -> None:
            torch.manual_seed(seed)
            net = Normed(momentum)
            stepping = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(4):
                stepping.zero_grad()
                net(torch.randn(6, 4)).square().mean().backward()
                stepping.step()

        return run

    golden = learn([record(normed(0.1, seed)) for seed in (0, 1, 2)], pipeline="normed", seeds=(0, 1, 2))
    assert not titles(check_run(golden, record(normed(0.1)), same_spec=True))
    (title,) = titles(check_run(golden, record(normed(0.9)), same_spec=True))
    assert "momentum" in title
