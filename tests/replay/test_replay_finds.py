"""Mistakes that only numbers reveal: the place that got golden's inputs and gave something else is named."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from replays import PAD, Block, Model, Record, claimed, golden_of, replayed, train  # noqa: E402

from pytest_traincheck.check.evaluate import check_run  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


def over_padding(logits: Any, labels: Any) -> Any:
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="none")
    return each.sum() / labels.numel()


def softmax_first(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits.softmax(-1).flatten(0, 1), labels.flatten(), ignore_index=PAD)


def per_row(logits: Any, labels: Any) -> Any:
    each = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=PAD, reduction="none")
    return (each.sum(1) / (labels != PAD).sum(1)).mean()


class Coupled(torch.optim.AdamW):
    """Weight decay added to the gradients."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.add_(parameter, alpha=0.5)
        return super().step(closure)


class Uncorrected(torch.optim.Optimizer):
    """Adam without the correction of its bias, under AdamW's name."""

    corrected = False
    keeps: Callable[..., dict[str, Any]] = lambda _: {}
    """What it keeps in its groups beside hyper-parameters."""

    def __init__(self, parameters: Any, lr: float = 1e-2) -> None:
        super().__init__(parameters, {"lr": lr, **self.keeps()})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # noqa: ARG002 - torch calls it so
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["n"] = state.get("n", 0) + 1
                first = state["m"] = 0.9 * state.get("m", 0) + 0.1 * parameter.grad
                second = state["v"] = 0.999 * state.get("v", 0) + 0.001 * parameter.grad**2
                if self.corrected:
                    first, second = first / (1 - 0.9 ** state["n"]), second / (1 - 0.999 ** state["n"])
                parameter -= group["lr"] * first / (second.sqrt() + 1e-8)


class Detached(Model):
    """The forward pass is golden's, the gradient stops on its way back."""

    def forward(self, tokens: Any) -> Any:
        hidden = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        added = self.block.attend(self.block.norm(hidden.detach()))
        return self.head(hidden + added)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scale": 1.001}, "Model.block.attend"),
        ({"mask": "none"}, "Model.block.attend"),
        ({"mask": "inverted"}, "Model.block.attend"),
        ({"residual": False}, "Model.block"),
        ({"rounded": True}, "Model.block"),
        ({"eps": 1e-3}, "Model.block.norm"),
        ({"offset": 1}, "Model"),
        ({"shift": 2}, "backward"),
        ({"loss": over_padding}, "backward"),
        ({"loss": softmax_first}, "backward"),
        ({"loss": per_row}, "backward"),
        ({"divisor": 4.0}, "backward"),
    ],
)
def test_the_place_is_named(golden: Any, record: Record, change: dict[str, Any], name: str) -> None:
    first, *rest = replayed(golden, record(train(**change)))
    assert {item.invariant.claim.of for item in rest} <= {"loss", "gradient"}  # which follows
    assert first.title.startswith((f"`{name}` ", f"`torch.autograd.{name}` "))
    assert first.step == 0


def test_what_follows_does_not_say_that_everything_before_it_is_the_same(golden: Any, record: Record) -> None:
    """The loss is within rounding; a module's result and the gradients are not."""
    first, *rest = replayed(golden, record(train(scale=1.001)))
    assert first.title.startswith("`Model.block.attend` returns a different result")
    (gradient,) = [item.title for item in rest if item.invariant.claim.of == "gradient"]
    assert gradient.endswith(" than in the golden run, behind a call that returns something else.")


def in_two_groups(decayed: int) -> Any:
    """What makes an optimizer that decays the first few parameters."""

    def make(parameters: Any) -> Any:
        every = list(parameters)
        groups = [
            {"params": every[:decayed], "weight_decay": 0.5},
            {"params": every[decayed:], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=1e-2)

    return make


def test_an_update_says_of_groups_alone_that_their_hyperparameters_are_the_same(record: Record) -> None:
    golden = golden_of(record, optimizer=in_two_groups(2))
    found = replayed(golden, record(train(optimizer=in_two_groups(1))))
    (update,) = [item.title for item in found if item.invariant.claim.of == "step"]
    assert "Model.places.weight" in update
    assert update.endswith(", though values and gradients are the same, and so are the hyperparameters of its groups.")


def test_changed_lines_are_looked_for_in_the_module_whose_own_code_deviates(golden: Any, record: Record) -> None:
    first, *_ = replayed(golden, record(train(residual=False)))
    lines, begin = inspect.getsourcelines(Block.forward)
    path, _, line = first.place.rpartition(":")
    assert path.endswith("replays.py")
    assert begin <= int(line) < begin + len(lines)


def test_what_the_loss_function_got_is_named(golden: Any, record: Record) -> None:
    (found,) = replayed(golden, record(train(loss=softmax_first)))
    assert "the first call with a different input is `torch.nn.functional.cross_entropy` (`input`)" in found.title
    assert found.source.startswith("test_replay_finds.py:") or "test_replay_finds.py:" in found.source


def test_a_changed_argument_inside_is_named(golden: Any, record: Record) -> None:
    found, *_ = replayed(golden, record(train(eps=1e-3)))
    assert "`torch.nn.functional.layer_norm` is called with `eps` 0.001 instead of 1e-05" in found.title


def test_an_optimizer_that_moves_parameters_otherwise(golden: Any, record: Record) -> None:
    (found,) = replayed(golden, record(train(optimizer=lambda parameters: Coupled(parameters, lr=1e-2))))
    assert found.title.startswith("`AdamW.step` updates ")
    assert found.variables


def test_bias_correction_removed(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both runs use an optimizer of that name; what it computes has changed."""
    monkeypatch.setattr(Uncorrected, "corrected", True)
    golden = golden_of(record, optimizer=Uncorrected)
    assert not replayed(golden, record(train(optimizer=Uncorrected)))
    monkeypatch.setattr(Uncorrected, "corrected", False)
    (found,) = replayed(golden, record(train(optimizer=Uncorrected)))
    assert "Uncorrected.step` updates " in found.title


@pytest.mark.parametrize("both", [False, True])
def test_a_cache_in_the_groups_is_no_other_configuration(
    record: Record, monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    """Step sizes that are kept in each group, and then for all groups together: so what is computed changes."""
    caches = {"buffer": [[None, None]] * 10, "seen": [], "function": print, "moments": torch.zeros(3)}
    monkeypatch.setattr(Uncorrected, "corrected", True)
    monkeypatch.setattr(Uncorrected, "keeps", lambda _: {name: copy.copy(kept) for name, kept in caches.items()})
    golden = golden_of(record, optimizer=Uncorrected)
    monkeypatch.setattr(Uncorrected, "corrected", False)
    if not both:
        monkeypatch.setattr(Uncorrected, "keeps", lambda _: {})
    (found,) = replayed(golden, record(train(optimizer=Uncorrected)))
    assert "Uncorrected.step` updates " in found.title


def test_a_number_in_the_groups_is_another_configuration(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Uncorrected, "corrected", True)
    golden = golden_of(record, optimizer=Uncorrected)
    monkeypatch.setattr(Uncorrected, "corrected", False)
    for setting in (0.5, True, "fast", (0.9, 0.99)):
        monkeypatch.setattr(Uncorrected, "keeps", lambda _, setting=setting: {"setting": setting})
        assert not replayed(golden, record(train(optimizer=Uncorrected)))


def test_a_gradient_that_is_not_what_the_forward_pass_says(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_of(record)
    monkeypatch.setattr(Model, "forward", Detached.forward)
    run = record(train())
    found = replayed(golden, run)
    assert any("leaves different gradients" in item.title and "Model.words.weight" in item.title for item in found)
    assert claimed(check_run(golden, run, same_spec=True))


def test_initial_numbers_that_were_computed_otherwise(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = golden_of(record)
    original = Model.__init__

    def scaled(self: Any, **changes: Any) -> None:
        original(self, **changes)
        with torch.no_grad():
            self.head.weight.mul_(1.01)

    monkeypatch.setattr(Model, "__init__", scaled)
    first, *_ = replayed(golden, record(train()))
    assert first.title.startswith("`Model.head.weight` begins with different values than in the golden run")


def loop(labels_of: Any, between: Any = id) -> Any:
    """Training from a DataLoader, with something between `backward` and the step."""

    def run() -> None:
        torch.manual_seed(0)
        data = torch.randn(32, 6)
        labels = labels_of((data.sum(1) > 0).long())
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, labels), batch_size=8, shuffle=True)
        net = torch.nn.Linear(6, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            between(net)
            optimizer.step()

    return run


def test_labels_that_belong_to_other_inputs(record: Record) -> None:
    golden = learn([record(loop(lambda labels: labels)) for _ in range(2)], pipeline="loader", seeds=(0, 1))
    (found,) = replayed(golden, record(loop(lambda labels: labels.roll(1))))
    assert found.title == (
        "`torch.utils.data.DataLoader.__next__` returns a batch in which the inputs (`batch[0]`) are as in the "
        "golden run, but the targets (`batch[1]`) are different: made in another way, or of other examples."
    )


def test_other_inputs_with_other_labels_say_nothing(record: Record) -> None:
    golden = learn([record(loop(lambda labels: labels)) for _ in range(2)], pipeline="loader", seeds=(0, 1))

    def elsewhere() -> None:
        torch.rand(1)
        loop(lambda labels: labels)()

    assert not replayed(golden, record(elsewhere))


def test_gradients_changed_before_the_step(record: Record) -> None:
    def halved(net: Any) -> None:
        for parameter in net.parameters():
            parameter.grad.mul_(0.5)

    golden = learn([record(loop(lambda labels: labels)) for _ in range(2)], pipeline="loader", seeds=(0, 1))
    first, *_ = replayed(golden, record(loop(lambda labels: labels, halved)))
    assert first.title.startswith(
        "`torch.optim.SGD.step` is given different gradients of `Linear.weight`, `Linear.bias` than in the golden "
        "run, though `backward` computed the same."
    )


def test_the_loss_of_the_model_that_is_trained_second(record: Record) -> None:
    """The teacher's training is as it was; the student's loss is not."""

    def both(**changes: Any) -> Any:
        def run() -> None:
            train(steps=4)()
            train(seed=7, steps=3, **changes)()

        return run

    golden = learn([record(both()), record(both())], pipeline="two", seeds=(0, 1))
    assert not replayed(golden, record(both()))
    top = replayed(golden, record(both(divisor=1.5)))[0]
    assert top.title.startswith("`backward` starts from a different loss")
    assert top.step == 4


class Rows(torch.utils.data.Dataset[Any]):
    """Rows of different lengths, each with its label."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Any, int]:
        row = torch.zeros(6)
        row[: 1 + index % 6] = torch.arange(1.0, 2 + index % 6) + index
        return row, index % 3


def classify(collate: Any = None, metric: Any = None) -> Any:
    """A classifier whose learning rate falls when a metric of the first batch stands still."""

    def run() -> None:
        torch.manual_seed(0)
        net = torch.nn.Linear(6, 3)
        stepping = torch.optim.SGD(net.parameters(), lr=1e-3)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(stepping)
        for x, y in torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True, collate_fn=collate):
            loss = F.cross_entropy(net(x), y)
            stepping.zero_grad()
            loss.backward()
            stepping.step()
            with torch.no_grad():
                plateau.step((metric or F.cross_entropy)(net(x), y).item())

    return run


def longest_first(rows: Any) -> Any:
    """Sorts the inputs, and forgets the labels."""
    x, y = torch.stack([row for row, _ in rows]), torch.tensor([label for _, label in rows])
    return x[torch.argsort((x > 0).sum(1), descending=True, stable=True)], y


def pairs_longest_first(rows: Any) -> Any:
    """Sorts both."""
    order = sorted(rows, key=lambda row: -int((row[0] > 0).sum()))
    return torch.stack([row for row, _ in order]), torch.tensor([label for _, label in order])


def test_labels_that_are_not_sorted_with_their_inputs(record: Record) -> None:
    golden = learn([record(classify()), record(classify())], pipeline="rows", seeds=(0, 1))
    top = replayed(golden, record(classify(longest_first)))[0]
    assert top.title == (
        "`torch.utils.data.DataLoader.__next__` returns a batch with the same rows of the inputs (`batch[0]`) and "
        "of the targets (`batch[1]`) as in the golden run, but pairs them differently: parts of the same example "
        "no longer belong together."
    )
    assert not [
        item for item in replayed(golden, record(classify(pairs_longest_first))) if "side by side" in item.title
    ]


def accuracy(logits: Any, labels: Any) -> Any:
    return (logits.argmax(1) == labels).float().mean()


def test_a_scheduler_that_is_told_another_metric(record: Record) -> None:
    golden = learn([record(classify()), record(classify())], pipeline="told", seeds=(0, 1))
    assert not replayed(golden, record(classify()))
    (top,) = replayed(golden, record(classify(metric=accuracy)))
    assert top.title.startswith("`torch.optim.lr_scheduler.ReduceLROnPlateau.step` is given a different `metrics`, 0.")
    assert top.step == 1


def by_hand(rate: float) -> Any:
    """A training whose optimizer does nothing: parameters are written to through `.data`."""

    def run() -> None:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        torch.optim.SGD(net.parameters(), lr=0.1)
        data = torch.randn(4, 8, 4)
        for rows in data:
            net.zero_grad()
            torch.nn.functional.mse_loss(net(rows), torch.ones(8, 2)).backward()
            for parameter in net.parameters():
                parameter.data = parameter.data - rate * parameter.grad

    return run


def test_parameters_that_were_written_to_otherwise_are_not_called_the_same(record: Record) -> None:
    golden = learn([record(by_hand(0.1)), record(by_hand(0.1))], pipeline="by hand", seeds=(0, 1))
    top = replayed(golden, record(by_hand(0.3)))[0]
    assert "parameters have been written to differently than in the golden run since the step began" in top.title
    assert "are the same" not in top.title
    assert "same" not in top.golden
