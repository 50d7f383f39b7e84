"""Saved: a program that saves adapters at the end, and ends."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, titles, violations

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


class Adapted(nn.Module):
    """A frozen layer with two small matrices beside it, and a table that is no part of the state."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 6).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(6, 2))
        self.up = nn.Parameter(torch.zeros(2, 6))
        self.register_buffer("table", torch.arange(6.0), persistent=False)

    def forward(self, inputs: Any) -> Any:
        return self.base(inputs) + (inputs + self.table) @ self.down @ self.up


Write = Callable[[Any], None]


def together(model: Any) -> None:
    torch.save({"adapter": {"down": model.down.detach(), "up": model.up.detach()}}, io.BytesIO())


def as_copies(model: Any) -> None:
    torch.save({key: value.clone() for key, value in model.state_dict().items() if key in ("down", "up")}, io.BytesIO())


def apart(model: Any) -> None:
    for key in ("up", "down"):
        torch.save({key: getattr(model, key)}, io.BytesIO())


def one_of_two(model: Any) -> None:
    torch.save({"down": model.down}, io.BytesIO())


def whole(model: Any) -> None:
    torch.save(model.state_dict(), io.BytesIO())


def adapt(seed: int, write: Write = together) -> None:
    torch.manual_seed(seed)
    model = Adapted()
    optimizer = torch.optim.SGD([model.down, model.up], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()
    write(model)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("adapters")
    runs = [recorded(lambda seed=seed: adapt(seed), folder / f"golden{seed}") for seed in (0, 1, 2)]
    return learn(runs, pipeline="saving", seeds=(0, 1, 2))


def judged(golden: Golden, write: Write, folder: Path, seed: int = 0) -> CheckOutcome:
    return check_run(golden, recorded(lambda: adapt(seed, write), folder / "candidate"), same_spec=True)


def test_what_is_saved_is_a_rule(golden: Golden) -> None:
    assert sentences(golden, "Saved") == ["`torch.save` saves `down`, `up` of `Adapted` in a run."]


def test_half_of_an_adapter_is_not_saved(golden: Golden, tmp_path: Path) -> None:
    outcome = judged(golden, one_of_two, tmp_path)
    assert titles(outcome, "Saved") == [
        "In the golden run `torch.save` was given `down`, `up` of `Adapted`; in the candidate it is given others of "
        "that model, and never `Adapted.up`."
    ]
    assert len(outcome.incidents) == 1, describe(outcome.incidents)


@pytest.mark.parametrize(
    ("write", "seed"), [(as_copies, 0), (apart, 4), (whole, 5)], ids=lambda item: getattr(item, "__name__", str(item))
)
def test_other_ways_to_save_the_same(golden: Golden, write: Write, seed: int, tmp_path: Path) -> None:
    outcome = judged(golden, write, tmp_path, seed)
    assert not violations(outcome, "Saved"), describe(outcome.incidents)


# Buffers that persist no longer


class Averaging(nn.Module):
    """A layer behind a running mean and a table of constants; `scratch` changes and is for the moment only."""

    def __init__(self, persistent: tuple[str, ...], scratch: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.register_buffer("mean", torch.zeros(6), persistent="mean" in persistent)
        self.register_buffer("table", torch.arange(6.0), persistent="table" in persistent)
        if scratch:
            self.register_buffer("scratch", torch.zeros(6), persistent=False)
        self.has_scratch = scratch

    def forward(self, inputs: Any) -> Any:
        with torch.no_grad():
            self.mean.lerp_(inputs.mean(0), 0.1)
            if self.has_scratch:
                self.scratch.copy_(inputs[0])
        return self.layer(inputs - self.mean) * self.table


def average(seed: int, *persistent: str, scratch: bool = False) -> None:
    torch.manual_seed(seed)
    model = Averaging(persistent, scratch)
    steps(model)
    torch.save(model.state_dict(), io.BytesIO())


@pytest.fixture(scope="module")
def averaging(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("averaging")
    runs = [recorded(lambda seed=seed: average(seed, "mean", "table"), folder / f"golden{seed}") for seed in (0, 1)]
    return learn(runs, pipeline="saving", seeds=(0, 1))


def test_a_buffer_that_moves_must_persist(averaging: Golden, tmp_path: Path) -> None:
    assert "`torch.save` saves `mean` of `Averaging` in a run." in sentences(averaging, "Saved")
    run = recorded(lambda: average(0, "table"), tmp_path / "candidate")
    (title,) = titles(check_run(averaging, run, same_spec=True), "Saved")
    assert title.endswith("and never `Averaging.mean`.")


@pytest.mark.parametrize(
    ("persistent", "scratch"), [(("mean",), False), (("mean", "table"), True)], ids=["a constant", "a new one"]
)
def test_other_buffers_need_not(averaging: Golden, persistent: tuple[str, ...], scratch: bool, tmp_path: Path) -> None:
    run = recorded(lambda: average(0, *persistent, scratch=scratch), tmp_path / "candidate")
    outcome = check_run(averaging, run, same_spec=True)
    assert not violations(outcome, "Saved"), describe(outcome.incidents)


# Other libraries


class Tied(nn.Module):
    """Two layers of one weight, a frozen one, and a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)
        self.stem = nn.Linear(6, 6).requires_grad_(False)
        self.norm = nn.BatchNorm1d(6)
        self.last = nn.Linear(6, 6, bias=False)
        self.last.weight = self.first.weight

    def forward(self, inputs: Any) -> Any:
        return self.last(self.norm(self.stem(self.first(inputs))))


def steps(model: Any) -> None:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()


def by_safetensors(model: Any, path: Path) -> None:
    pytest.importorskip("safetensors.torch").save_model(model, str(path))


def by_safetensors_as_copies(model: Any, path: Path) -> None:
    state = {key: value.clone() for key, value in model.state_dict().items() if key != "last.weight"}
    pytest.importorskip("safetensors.torch").save_file(state, str(path))


def by_safetensors_what_is_trained(model: Any, path: Path) -> None:
    state = {key: value.data for key, value in model.named_parameters() if value.requires_grad}
    pytest.importorskip("safetensors.torch").save_file(state, str(path))


def by_torch(model: Any, path: Path) -> None:
    torch.save({"model": model.state_dict()}, path)


def by_checkpoint(model: Any, path: Path) -> None:
    import torch.distributed.checkpoint as checkpoint

    checkpoint.save({"model": model.state_dict()}, checkpoint_id=path)


def finished(seed: int, write: Callable[[Any, Path], None], path: Path) -> None:
    torch.manual_seed(seed)
    model = Tied()
    steps(model)
    write(model, path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    folder = tmp_path_factory.mktemp("written")
    runs = [
        recorded(lambda seed=seed: finished(seed, by_safetensors, folder / f"file{seed}"), folder / f"golden{seed}")
        for seed in (0, 1, 2)
    ]
    return learn(runs, pipeline="saving", seeds=(0, 1, 2))


def wrote(golden: Golden, write: Callable[[Any, Path], None], folder: Path, seed: int) -> CheckOutcome:
    run = recorded(lambda: finished(seed, write, folder / "file"), folder / "candidate")
    return check_run(golden, run, same_spec=True)


def test_a_file_of_safetensors_is_a_file(written: Golden) -> None:
    assert sentences(written, "Saved") == [
        "`safetensors.torch.save_model` saves all parameters and buffers of `Tied` in a run."
    ]


def test_frozen_layers_and_buffers_are_not_in_the_file(written: Golden, tmp_path: Path) -> None:
    outcome = wrote(written, by_safetensors_what_is_trained, tmp_path, 4)
    assert titles(outcome, "Saved") == [
        "In the golden run `safetensors.torch.save_model` was given all parameters and buffers of `Tied`; in the "
        "candidate `safetensors.torch.save_file` is given others of that model, and never `Tied.stem.weight`, "
        "`Tied.stem.bias`, `Tied.norm.running_mean` and 2 more."
    ]


@pytest.mark.parametrize(
    ("write", "seed"),
    [(by_safetensors_as_copies, 0), (by_torch, 4), (by_checkpoint, 5)],
    ids=lambda item: getattr(item, "__name__", str(item)),
)
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_another_library_writes_the_same(
    written: Golden, write: Callable[[Any, Path], None], seed: int, tmp_path: Path
) -> None:
    outcome = wrote(written, write, tmp_path, seed)
    assert not outcome.incidents, describe(outcome.incidents)
