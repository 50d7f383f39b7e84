"""Loaded: small programs that save and load, in which part of a model stays as it was, or gets what is another's."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, titles, violations

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.rules.model import Scope  # noqa: E402

Program = Callable[[int], None]


class Tagger(nn.Module):
    """Words, a recurrent layer, a normalisation and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 6)
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 3)

    def forward(self, words: Any) -> Any:
        return self.head(self.norm(self.words(words).mean(1)))


def train(model: nn.Module, steps: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        words = torch.randint(12, (8, 5))
        optimizer.zero_grad()
        F.cross_entropy(model(words), words[:, 0] % 3).backward()
        optimizer.step()


def learned(program: Callable[..., None], folder: Path) -> Golden:
    runs = [recorded(lambda seed=seed: program(seed), folder / f"golden{seed}") for seed in (0, 1, 2)]
    return learn(runs, pipeline="saving", seeds=(0, 1, 2))


def judged(golden: Golden, program: Callable[..., None], folder: Path, seed: int = 0, **change: Any) -> CheckOutcome:
    run = recorded(lambda: program(seed, **change), folder / f"candidate{seed}{'-'.join(change)}")
    return check_run(golden, run, same_spec=True)


# A file between two phases


def through_a_file(
    seed: int,
    saved: Callable[[nn.Module], Any] = lambda model: model.state_dict(),
    load: Callable[[nn.Module, Any], Any] = lambda model, state: model.load_state_dict(state),
) -> None:
    torch.manual_seed(seed)
    first = Tagger()
    train(first)
    file = io.BytesIO()
    torch.save({"weights": saved(first), "epoch": 3}, file)
    file.seek(0)
    second = Tagger()
    load(second, torch.load(file)["weights"])
    train(second)


def loosely(model: nn.Module, state: Any) -> None:
    model.load_state_dict(state, strict=False)


def what_fits(model: nn.Module, state: Any) -> None:
    """The helper that many scripts have: what is in the state and in the model, over what the model has."""
    own = model.state_dict()
    own.update({key: value for key, value in state.items() if key in own})
    model.load_state_dict(own)


def part_by_part(model: Any, state: Any) -> None:
    for name, part in model.named_children():
        part.load_state_dict({k.removeprefix(f"{name}."): v for k, v in state.items() if k.startswith(f"{name}.")})


@pytest.fixture(scope="module")
def file_golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return learned(through_a_file, tmp_path_factory.mktemp("file"))


def test_what_is_learned(file_golden: Golden) -> None:
    assert sentences(file_golden, "Loaded") == [
        "`load_state_dict` gives `Tagger#1` values that `Tagger` had.",
        "`load_state_dict` loads all parameters and buffers of `Tagger#1`.",
    ]
    assert {item.scope for item in file_golden.invariants if item.relation == "Loaded"} == {Scope.PINNED}


@pytest.mark.parametrize(
    ("saved", "load", "lacking"),
    [
        (lambda model: dict(model.named_parameters()), loosely, "`Tagger#1.norm.running_mean`"),
        (lambda model: {f"module.{k}": v for k, v in model.state_dict().items()}, loosely, "`Tagger#1.words.weight`"),
        (lambda model: {k: v for k, v in model.state_dict().items() if "head" not in k}, loosely, "`Tagger#1.head."),
    ],
    ids=["parameters without buffers", "keys of a wrapper", "a layer left out"],
)
def test_a_checkpoint_that_leaves_something_out(
    file_golden: Golden, saved: Any, load: Any, lacking: str, tmp_path: Path
) -> None:
    outcome = judged(file_golden, through_a_file, tmp_path, saved=saved, load=load)
    (incident,) = outcome.incidents
    assert incident.cause.invariant.relation == "Loaded", describe(outcome.incidents)
    assert f"it is given nothing for {lacking}" in incident.cause.title


def test_a_helper_that_gives_the_model_what_it_has(file_golden: Golden, tmp_path: Path) -> None:
    """All keys are there, and none of them is the file's."""
    outcome = judged(
        file_golden,
        through_a_file,
        tmp_path,
        saved=lambda model: {f"module.{k}": v for k, v in model.state_dict().items()},
        load=what_fits,
    )
    assert "is the model's own memory for `Tagger#1.words.weight`" in outcome.incidents[0].cause.title


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("load", [loosely, what_fits, part_by_part], ids=lambda load: load.__name__)
def test_other_ways_to_load_the_same(file_golden: Golden, load: Any, seed: int, tmp_path: Path) -> None:
    outcome = judged(file_golden, through_a_file, tmp_path, seed, load=load)
    assert not violations(outcome), describe(outcome.incidents)


# Two candidates for what is loaded


def averaging(seed: int, resumed: str = "model") -> None:
    torch.manual_seed(seed)
    model = Tagger()
    average = copy.deepcopy(model)
    for _ in range(3):
        train(model, steps=1)
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.5)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "average": average.state_dict()}, file)
    del model, average
    file.seek(0)
    state = torch.load(file)
    again = Tagger()
    again.load_state_dict(state[resumed])
    train(again)


def test_the_average_is_no_model_to_go_on_with(tmp_path: Path) -> None:
    golden = learned(averaging, tmp_path)
    assert "`load_state_dict` gives `Tagger#2` values that `Tagger` had." in sentences(golden, "Loaded")
    assert not violations(judged(golden, averaging, tmp_path, seed=5))
    outcome = judged(golden, averaging, tmp_path, resumed="average")
    assert titles(outcome, "Loaded") == [
        "In the golden run `load_state_dict` gave `Tagger#2` values that `Tagger` had; in the candidate those of "
        "`Tagger#1`: another state is saved or loaded."
    ]
    assert outcome.incidents[0].cause.invariant.relation == "Loaded"


# The best weights, kept in memory


def keeping_the_best(seed: int, kept: Callable[[Any], Any] = copy.deepcopy) -> None:
    torch.manual_seed(seed)
    model = Tagger()
    train(model, steps=2)
    best = kept(model.state_dict())
    train(model, steps=2)
    model.load_state_dict(best)
    model.eval()
    with torch.no_grad():
        model(torch.randint(12, (8, 5)))


def test_the_best_weights_are_kept_without_a_copy(tmp_path: Path) -> None:
    golden = learned(keeping_the_best, tmp_path)
    outcome = judged(golden, keeping_the_best, tmp_path, kept=lambda state: {k: v.detach() for k, v in state.items()})
    assert "is the model's own memory" in outcome.incidents[0].cause.title
    clones = judged(
        golden, keeping_the_best, tmp_path, seed=3, kept=lambda state: {k: v.clone() for k, v in state.items()}
    )
    assert not violations(clones), describe(clones.incidents)


def into_another_model(seed: int, kept: Callable[[Any], Any] = copy.deepcopy, at: str = "half-way") -> None:
    torch.manual_seed(seed)
    model, best = Tagger(), Tagger()
    train(model, steps=2)
    if at == "half-way":
        state = kept(model.state_dict())
    train(model, steps=2)
    if at == "the end":
        state = kept(model.state_dict())
    best.load_state_dict(state)
    best.eval()
    with torch.no_grad():
        best(torch.randint(12, (8, 5)))


def test_the_best_weights_for_another_model_are_kept_without_a_copy(tmp_path: Path) -> None:
    golden = learned(into_another_model, tmp_path)
    rule = "What `load_state_dict` gives `Tagger#1` has not changed since `state_dict()` returned it."
    assert rule in sentences(golden, "Loaded")
    assert not violations(judged(golden, into_another_model, tmp_path, seed=4, kept=lambda state: copy.deepcopy(state)))
    outcome = judged(golden, into_another_model, tmp_path, kept=dict)
    assert "was kept without a copy and has changed" in outcome.incidents[0].cause.title, describe(outcome.incidents)


def test_a_copy_that_is_not_needed_may_be_left_out(tmp_path: Path) -> None:
    golden = learned(lambda seed: into_another_model(seed, at="the end"), tmp_path)
    outcome = judged(golden, into_another_model, tmp_path, kept=dict, at="the end")
    assert not violations(outcome), describe(outcome.incidents)


# Part of a model


def with_a_new_head(seed: int, kept: tuple[str, ...] = ("words.", "norm.")) -> None:
    torch.manual_seed(seed)
    first, second = Tagger(), Tagger()
    train(first)
    second.load_state_dict({k: v for k, v in first.state_dict().items() if k.startswith(kept)}, strict=False)
    train(second)


def test_what_golden_leaves_out_may_be_left_out(tmp_path: Path) -> None:
    golden = learned(with_a_new_head, tmp_path)
    (loads,) = [text for text in sentences(golden, "Loaded") if "loads" in text]
    assert loads == (
        "`load_state_dict` loads `norm.bias`, `norm.num_batches_tracked`, `norm.running_mean` and 3 more of `Tagger#1`."
    )
    assert not violations(judged(golden, with_a_new_head, tmp_path, seed=4))
    outcome = judged(golden, with_a_new_head, tmp_path, kept=("norm.",))
    assert "it is given nothing for `Tagger#1.words.weight`:" in titles(outcome, "Loaded")[0]


# Another library


def by_checkpoint(seed: int, folder: Path, left_out: str = "nothing") -> None:
    import torch.distributed.checkpoint as checkpoint

    torch.manual_seed(seed)
    first = Tagger()
    train(first)
    checkpoint.save({"model": first.state_dict()}, checkpoint_id=folder / f"file{seed}")
    train(first)
    second = Tagger()
    state = {key: value for key, value in second.state_dict().items() if not key.startswith(left_out)}
    checkpoint.load({"model": state}, checkpoint_id=folder / f"file{seed}")
    second.load_state_dict(state, strict=False)
    train(second)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_what_reads_into_the_tensors_that_it_is_given(tmp_path: Path) -> None:
    golden = learned(lambda seed: by_checkpoint(seed, tmp_path), tmp_path)
    loads = "`torch.distributed.checkpoint.state_dict_loader.load`"
    assert sentences(golden, "Loaded") == [
        f"{loads} gives `Tagger#1` values that `Tagger` had.",
        f"{loads} loads all parameters and buffers of `Tagger#1`.",
    ]
    assert not judged(golden, lambda seed: by_checkpoint(seed, tmp_path / "same"), tmp_path, seed=4).incidents
    outcome = judged(golden, lambda seed: by_checkpoint(seed, tmp_path / "head", "head"), tmp_path / "wrong", seed=0)
    assert titles(outcome, "Loaded") == [
        f"In the golden run {loads} loaded all parameters and buffers of `Tagger#1`; in the candidate it is given "
        "nothing for `Tagger#1.head.weight`, `Tagger#1.head.bias`: keys are missing or have other names."
    ]


# State that no file has


class Whitened(nn.Module):
    """Mixes columns in an order of its own, after the first batch has said how large they are."""

    def __init__(self, kept: bool, table: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.mix = nn.Linear(6, 6)
        order, ramp = torch.randperm(6), torch.arange(6.0)
        if kept:
            self.register_buffer("ready", torch.tensor(False))
            self.register_buffer("order", order)
        else:
            self.ready = False
            self.order = order
        if table:
            self.register_buffer("ramp", ramp)
        else:
            self.ramp = ramp

    def forward(self, inputs: Any) -> Any:
        if not self.ready:
            self.scale.data.copy_(1 / inputs.std(0))
            self.ready = torch.tensor(True) if isinstance(self.ready, torch.Tensor) else True
        return self.mix((inputs * self.scale)[:, self.order]) + self.ramp


def in_two_sittings(seed: int, kept: bool = True, table: bool = True) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(Whitened(kept, table))
    for sitting in range(2):
        if sitting:
            file = io.BytesIO()
            torch.save(model.state_dict(), file)
            file.seek(0)
            model = nn.Sequential(Whitened(kept, table))
            model.load_state_dict(torch.load(file))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 6)).square().mean().backward()
            optimizer.step()


@pytest.fixture(scope="module")
def sittings(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return learned(in_two_sittings, tmp_path_factory.mktemp("sittings"))


def test_state_that_is_no_buffer_is_named(sittings: Golden, tmp_path: Path) -> None:
    assert (
        "`*.order`, `*.ramp`, `*.ready` of `Sequential#1` come to it with what is loaded of `Sequential`."
        in sentences(sittings, "Loaded")
    )
    outcome = judged(sittings, in_two_sittings, tmp_path, seed=4, kept=False)
    assert outcome.incidents[0].cause.title == (
        "In the golden run `*.order`, `*.ramp`, `*.ready` were buffers, and `Sequential#1` got them with the state "
        "of `Sequential`; in the candidate `0.order`, `0.ready` of `Sequential#1` differ from those of `Sequential`: "
        "plain attributes are not saved and not loaded."
    ), describe(outcome.incidents)


def test_a_table_may_become_a_plain_attribute(sittings: Golden, tmp_path: Path) -> None:
    for seed in (0, 4):
        outcome = judged(sittings, in_two_sittings, tmp_path / str(seed), seed=seed, table=False)
        assert not violations(outcome, "Loaded"), describe(outcome.incidents)
