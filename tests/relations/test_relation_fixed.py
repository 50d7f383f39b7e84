"""Fixed: programs that begin with a file that was there before, and forget to read it, or read another one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, titles

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402


class Encoder(nn.Module):
    """Words and two layers; the tables of all of them are in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, words: Any) -> Any:
        hidden = self.words(words).mean(1)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return hidden


class Classifier(nn.Module):
    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(8, 3)

    def forward(self, words: Any) -> Any:
        return self.head(self.encoder(words))


Read = Callable[[Path], Any]


def as_a_state(file: Path) -> Any:
    encoder = Encoder()
    encoder.load_state_dict(torch.load(file))
    return encoder


def as_parameters(file: Path) -> Any:
    """As libraries do it that make a model without memory and fill it."""
    with torch.device("meta"):
        encoder = Encoder()
    for name, value in torch.load(file).items():
        place, _, key = name.rpartition(".")
        setattr(encoder.get_submodule(place), key, nn.Parameter(value))
    return encoder


def as_double(file: Path) -> Any:
    return as_a_state(file).double().float()


def as_half(file: Path) -> Any:
    return as_a_state(file).bfloat16()


def drawn(_: Path) -> Any:
    return Encoder()


def but_one_layer(file: Path) -> Any:
    encoder = Encoder()
    state = {name: value for name, value in torch.load(file).items() if not name.startswith("layers.1")}
    encoder.load_state_dict(state, strict=False)
    return encoder


def of_constant_seed(_: Path) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return Encoder()


def watched(model: Any, words: Any) -> None:
    with torch.no_grad():
        model(words)


def kept_beside_its_copy(file: Path) -> Any:
    """The copy is trained, and what was copied evaluates now and then, as a teacher does."""
    encoder = of_constant_seed(file)
    copied = copy.deepcopy(encoder)
    copied.register_forward_pre_hook(lambda _, words: watched(encoder, words[0]))
    return copied


def tuned(seed: int, file: Path, read: Read) -> None:
    torch.manual_seed(seed)
    encoder = read(file)
    dtype = encoder.words.weight.dtype
    model = Classifier(encoder).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        words = torch.randint(30, (8, 4))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(words), words[:, 0] % 3).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(99)
    path = tmp_path_factory.mktemp("file") / "encoder.pt"
    torch.save(Encoder().state_dict(), path)
    return path


def golden_of(read: Read, file: Path, folder: Path, seeds: tuple[int, ...] = (0, 1)) -> Golden:
    runs = [
        recorded(lambda seed=seed: tuned(seed, file, read), folder / f"golden{place}{seed}")
        for place, seed in enumerate(seeds)
    ]
    return learn(runs, pipeline="tuning", seeds=seeds)


@pytest.fixture(scope="module")
def golden(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return golden_of(as_a_state, file, tmp_path_factory.mktemp("golden"))


def judged(golden: Golden, read: Read, file: Path, folder: Path, seed: int = 5) -> CheckOutcome:
    return check_run(golden, recorded(lambda: tuned(seed, file, read), folder / "candidate"), same_spec=True)


def test_what_comes_from_a_file_is_a_rule(golden: Golden, file: Path, tmp_path: Path) -> None:
    rule = ["Parameters of `Classifier` begin with the same values in every run, whatever the seed."]
    assert sentences(golden, "Fixed") == rule
    assert sentences(golden_of(as_parameters, file, tmp_path), "Fixed") == rule


@pytest.mark.parametrize(("read", "first"), [(drawn, "words.weight"), (but_one_layer, "layers.1.weight")])
def test_drawn_instead_of_loaded_shows_with_any_seed(
    golden: Golden, read: Read, first: str, file: Path, tmp_path: Path
) -> None:
    (title,) = titles(judged(golden, read, file, tmp_path), "Fixed")
    assert title.startswith(f"In the golden run `Classifier.encoder.{first}`"), title


@pytest.mark.parametrize("read", [as_a_state, as_parameters, as_double, as_half])
def test_other_ways_to_read_it(golden: Golden, read: Read, file: Path, tmp_path: Path) -> None:
    outcome = judged(golden, read, file, tmp_path)
    assert not titles(outcome, "Fixed"), describe(outcome.incidents)


@pytest.mark.parametrize("read", [of_constant_seed, kept_beside_its_copy])
def test_what_is_drawn_under_a_seed_of_the_programs_own_is_no_file(read: Read, file: Path, tmp_path: Path) -> None:
    assert not sentences(golden_of(read, file, tmp_path), "Fixed")


def test_one_seed_says_nothing(file: Path, tmp_path: Path) -> None:
    assert not sentences(golden_of(as_a_state, file, tmp_path, seeds=(3, 3)), "Fixed")
    assert not sentences(golden_of(as_a_state, file, tmp_path / "one", seeds=(3,)), "Fixed")
