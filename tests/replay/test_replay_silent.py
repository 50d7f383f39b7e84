"""What replay must not speak of: rounding, other data, other random numbers, other names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import PAD, Attention, Model, Record, claimed, replayed, train  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.trace import Run  # noqa: E402


def in_two_functions(logits: Any, labels: Any) -> Any:
    return F.nll_loss(F.log_softmax(logits, dim=-1).flatten(0, 1), labels.flatten(), ignore_index=PAD)


def classes_second(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=PAD)


def as_module(logits: Any, labels: Any) -> Any:
    print("mean of the logits:", logits.detach().mean().item())
    return nn.CrossEntropyLoss(ignore_index=PAD)(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def loop(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=1e-2, foreach=False)


def foreach(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=1e-2, foreach=True)


class Logged(nn.Module):
    """A container that a refactor puts around the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.nothing = nn.Identity()

    def forward(self, tokens: Any) -> Any:
        return self.nothing(self.model(tokens))


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"loss": in_two_functions},
        {"loss": classes_second},
        {"loss": as_module},
        {"optimizer": loop},
        {"optimizer": foreach},
        {"fused": True},
        {"wrap": Logged},
    ],
    ids=lambda change: next(iter(change), "same"),
)
def test_the_same_computed_otherwise(golden: Any, record: Record, change: dict[str, Any]) -> None:
    run = record(train(**change))
    assert not replayed(golden, run)
    assert claimed(check_run(golden, run, same_spec=True)) > 3


def test_another_number_of_threads_drifts_at_most(golden: Any, record: Record) -> None:
    with threads(2 if torch.get_num_threads() == 1 else 1):
        run = record(train())
    assert not replayed(golden, run)
    assert {item.status for item in check_run(golden, run, same_spec=True).modules} <= {"same", "drifted"}


@pytest.mark.parametrize(
    "change",
    [{"seed": 7}, {"backwards": True}, {"head_first": True}, {"before": lambda: torch.rand(3)}],
    ids=["another seed", "data in another order", "layers made in another order", "one more draw"],
)
def test_another_training(golden: Any, record: Record, change: dict[str, Any]) -> None:
    assert not replayed(golden, record(train(**change)))


def test_a_draw_for_logging_and_a_new_seed(golden: Any, record: Record) -> None:
    """The state is golden's again when the model is made, so everything is compared, and nothing is found."""

    def log() -> None:
        torch.rand(5)
        torch.manual_seed(0)

    run = record(train(before=log))
    assert not replayed(golden, run)
    assert claimed(check_run(golden, run, same_spec=True)) > 3


def test_a_seed_of_one_s_own_in_every_call(golden: Any, record: Record) -> None:
    """Dropout draws from another state: that call owes nothing, and neither does what it is in."""

    class Reseeded(nn.Dropout):
        def forward(self, x: Any) -> Any:
            torch.manual_seed(99)
            return super().forward(x)

    def with_own_seed(model: Any) -> Any:
        model.block.attend.drop = Reseeded(0.1)
        return model

    assert not replayed(golden, record(train(wrap=with_own_seed)))


def test_numbers_of_another_platform_are_not_compared(golden: Any, record: Record) -> None:
    run = record(train(scale=2.0))
    run.processes[0].raw.meta["platform"] = "linux-x86_64-cuda-h100"
    outcome = check_run(golden, run, same_spec=True)
    reasons = {item.reason for item in outcome.verdicts if item.invariant.relation == "Replay"}
    assert reasons == {"no numbers for `linux-x86_64-cuda-h100`"}
    assert not outcome.modules


def test_a_golden_that_does_not_repeat_itself_claims_nothing_there(record: Record) -> None:
    """A module that uses a generator nobody seeds: given the same it gives something else, in golden already."""
    own = torch.Generator()
    own.seed()
    plain = Attention.forward

    def noisy(self: Any, x: Any) -> Any:
        return plain(self, x) + 0.1 * torch.empty(1).fill_(float(torch.rand(1, generator=own)))

    Attention.forward = noisy  # type: ignore[method-assign]
    try:
        golden = learn([record(train()) for _ in range(3)], pipeline="noisy", seeds=(0, 0, 0))
        assert golden.recording is not None
        assert golden.recording.unstable
        assert not replayed(golden, record(train()))
    finally:
        Attention.forward = plain  # type: ignore[method-assign]


def test_nothing_is_claimed_of_what_comes_after_a_place_that_does_not_repeat_itself(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where golden runs went apart nobody knows what they would have done, given the same: not one of them was."""
    plain = Attention.forward

    def under(noise: float, wrap: Any = lambda net: net) -> Run:
        monkeypatch.setattr(Attention, "forward", lambda self, x: plain(self, x) + noise)
        return record(train(wrap=wrap))

    def doubling(net: Any) -> Any:
        net.head.weight.register_hook(lambda gradient: 2 * gradient)
        return net

    stable = learn([under(0.0) for _ in range(3)], pipeline="noisy", seeds=(0, 0, 0))
    assert replayed(stable, under(0.0, doubling))
    golden = learn([under(noise) for noise in (0.0, 0.1, 0.05)], pipeline="noisy", seeds=(0, 0, 0))
    assert not replayed(golden, under(0.0, doubling))


def test_a_forward_pass_that_calls_its_argument_otherwise(golden: Any, record: Record, monkeypatch: Any) -> None:
    """What a step is given is known by its content where there is no loader."""
    original = Model.forward

    def forward(self: Any, ids: Any) -> Any:
        return original(self, ids)

    monkeypatch.setattr(Model, "forward", forward)
    outcome = check_run(golden, record(train()), same_spec=True)
    assert not outcome.incidents
    steps = [
        item for item in outcome.verdicts if getattr(item.invariant.claim, "of", "") in ("loss", "gradient", "step")
    ]
    assert steps
    assert {item.verdict for item in steps} == {Verdict.HELD}


def adversarial(*, cleared_after: bool = False, scale: float = 1.0, together: bool = False) -> Any:
    """Two networks that are trained in turn; the loss of the second leaves gradients in the first as well."""

    def run() -> None:
        torch.manual_seed(0)
        critic, maker = nn.Linear(4, 1), nn.Bilinear(4, 4, 4)
        if together:
            steppers = [torch.optim.SGD([*critic.parameters(), *maker.parameters()], lr=0.1)]
        else:
            steppers = [torch.optim.SGD(critic.parameters(), lr=0.1), torch.optim.SGD(maker.parameters(), lr=0.1)]
        for _ in range(3):
            x = torch.randn(8, 4)
            for turn, stepper in enumerate(steppers):
                if not cleared_after:
                    stepper.zero_grad()
                judged = critic(maker(x, x) if turn or together else x)
                loss = F.softplus(judged).mean()
                for parameter in maker.parameters():
                    loss = loss + (scale - 1.0) * (parameter - parameter.detach()).sum()
                loss.backward()
                stepper.step()
                for each in steppers if cleared_after else ():
                    each.zero_grad()

    return run


def test_gradients_that_no_step_consumes_do_not_matter(record: Record) -> None:
    golden = learn([record(adversarial()), record(adversarial())], pipeline="two", seeds=(0, 1))
    assert not replayed(golden, record(adversarial(cleared_after=True)))


def test_gradients_of_all_models_that_one_optimizer_holds(record: Record) -> None:
    """Those of one of the two are other ones, of the same loss."""
    golden = learn([record(adversarial(together=True)) for _ in range(2)], pipeline="both", seeds=(0, 1))
    top = replayed(golden, record(adversarial(together=True, scale=1.5)))[0]
    assert "Bilinear.weight" in top.title


def one_head_after_the_other(*, clears_all: bool = False, slip: float = 0.0) -> Any:
    """Tasks with a head and an optimizer each; what is repeated of old tasks leaves gradients in their heads."""

    def run() -> None:
        torch.manual_seed(0)
        model = nn.ModuleDict({"trunk": nn.Linear(4, 6), "0": nn.Linear(6, 3), "1": nn.Linear(6, 3)})
        for task in range(2):
            held = [*model["trunk"].parameters(), *model[str(task)].parameters()]
            optimizer = torch.optim.SGD(held, lr=0.1)
            for _ in range(2):
                (model if clears_all else optimizer).zero_grad()
                hidden = model["trunk"](torch.randn(8, 4))
                loss = sum(F.softplus(model[str(each)](hidden)).mean() for each in range(task + 1))
                for parameter in held if task else ():
                    loss = loss + slip * (parameter - parameter.detach()).sum()
                loss.backward()
                optimizer.step()

    return run


def test_gradients_of_what_no_optimizer_holds_any_more(record: Record) -> None:
    golden = learn([record(one_head_after_the_other()) for _ in range(2)], pipeline="tasks", seeds=(0, 1))
    assert not replayed(golden, record(one_head_after_the_other(clears_all=True)))
    assert replayed(golden, record(one_head_after_the_other(slip=0.01)))
