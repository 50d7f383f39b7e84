"""The generators of CUDA devices: a seed and an offset each, and what is written of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from counted_device import STEPS, Counter, devices  # noqa: E402
from measuring import only  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.probe import cuda_generators, numerics, observe  # noqa: E402
from pytest_traincheck.probe.advance import Advance  # noqa: E402
from pytest_traincheck.probe.cuda_generators import hashed, moved, telling  # noqa: E402
from pytest_traincheck.trace.format import SKETCH  # noqa: E402


@pytest.fixture
def counter() -> Any:
    found = Counter(seed=7)
    with devices(found):
        yield found


def test_where_cuda_is_not_used_there_is_nothing_to_look_at() -> None:
    assert cuda_generators.states() == ()
    assert "cuda" not in numerics.random_states()
    assert "cuda" not in Advance().look()


def test_the_state_is_a_seed_and_an_offset(counter: Counter) -> None:
    """Of 64 bits each, the seed without a sign."""
    counter.offset = 12
    assert cuda_generators.states() == ((7, 12),)
    counter.get_state = lambda: torch.tensor([0xFF] * 8 + [4] + [0] * 7, dtype=torch.uint8)  # type: ignore[method-assign]
    assert cuda_generators.states() == ((-1, 4),)


def test_the_hash_follows_the_state(counter: Counter) -> None:
    first = numerics.random_states()
    assert numerics.random_states() == first
    counter.draw()
    then = numerics.random_states()
    assert {name for name in first if first[name] != then[name]} == {"cuda"}
    assert numerics.random_states(numerics.OF_TORCH) == {name: then[name] for name in ("torch", "cuda")}
    counter.manual_seed(8)
    assert numerics.random_states()["cuda"] not in (first["cuda"], then["cuda"])
    counter.manual_seed(7)
    assert numerics.random_states() == first


def test_seeds_and_offsets_of_the_same_digits_are_told_apart() -> None:
    assert hashed([(1, 24)]) != hashed([(12, 4)])


def test_a_device_that_nobody_draws_from_does_not_count() -> None:
    """Nobody may have seeded it, and each rank draws from a device of its own."""
    assert telling([(5, 8), (99, 0)], 0) == telling([(77, 0), (5, 8)], 1) == [(5, 8)]
    assert telling([(5, 4), (5, 8)], 0) == telling([(5, 8), (5, 4)], 0)
    assert telling([(5, 0), (99, 0)], 0) == telling([(77, 0), (5, 0)], 1) == [(5, 0)]


@pytest.mark.parametrize(
    ("before", "now", "steps"),
    [
        ([(7, 0)], [(7, 0)], 0),
        ([(7, 4)], [(7, 12)], 8),
        ([(7, 4), (7, 0)], [(7, 8), (7, 16)], 20),
        ([(7, 4)], [(8, 12)], math.inf),
        ([(7, 12)], [(7, 4)], math.inf),
        ([(7, 12), (7, 0)], [(7, 4), (7, 40)], math.inf),
        ([], [(7, 4)], math.inf),
        ([(7, 4)], [], math.inf),
        ([], [], math.inf),
    ],
)
def test_how_far_they_have_moved(before: Any, now: Any, steps: float) -> None:
    assert moved(before, now) == steps


def test_what_is_drawn_is_counted(counter: Counter) -> None:
    advance = Advance()
    assert math.isnan(advance.look()["cuda"])
    counter.draw()
    counter.draw()
    assert advance.look()["cuda"] == 2 * STEPS
    counter.draw()
    advance.hold()
    counter.draw()
    advance.go_on()
    counter.draw()
    found = advance.look()
    assert found["cuda"] == 2 * STEPS
    assert found["torch"] == found["python"] == 0
    counter.manual_seed(7)
    assert advance.look()["cuda"] == math.inf
    assert advance.look(("torch",)) == {"torch": 0.0}


def test_two_devices_are_counted_as_one() -> None:
    first, second = Counter(seed=1), Counter(seed=2)
    with devices(first, second):
        advance = Advance()
        advance.begin()
        first.draw()
        second.draw()
        assert advance.look()["cuda"] == 2 * STEPS


def test_while_a_graph_is_captured_nobody_knows(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    """By this thread, or by another one: then torch raises. Neither this look nor the next one can tell."""

    def refuse() -> Any:
        raise RuntimeError("Cannot get state of a generator during CUDA graph capture")

    advance = Advance()
    advance.begin()
    with monkeypatch.context() as capture:
        capture.setattr(cuda_generators, "unobservable", lambda: True)
        assert "cuda" not in numerics.random_states()
        assert advance.look()["cuda"] == math.inf
    assert advance.look()["cuda"] == math.inf
    assert advance.look()["cuda"] == 0
    with monkeypatch.context() as capture:
        capture.setattr(counter, "get_state", refuse)
        assert "cuda" not in numerics.random_states()
        assert numerics._of_torch(counter) == 0
    assert "cuda" in numerics.random_states()


def test_a_generator_that_a_data_set_holds(counter: Counter) -> None:
    first = numerics._of_torch(counter)
    assert first == numerics._of_torch(counter)
    counter.draw()
    assert numerics._of_torch(counter) != first


def test_a_state_of_another_layout_is_not_read(counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "get_state", lambda: torch.zeros(24, dtype=torch.uint8))
    assert cuda_generators.states() == ()


STATE = ("slot", "rng.cuda")


class Small(nn.Module):
    """A layer and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.drop(self.layer(x))


def trained(folder: Path, steps: int = 10) -> Any:
    """What is written of a training, of an evaluation in train mode, and of another one."""
    torch.manual_seed(3)
    with observe(folder):
        net = Small()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(steps):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        with torch.no_grad():
            net(torch.ones(2, 4))
            net.eval()(torch.ones(2, 4))
    return only(folder)


@pytest.mark.usefixtures("counter")
def test_what_a_training_writes(tmp_path: Path) -> None:
    trace = trained(tmp_path)
    assert trace.values("rng.cuda") == [float(STEPS)] * 8
    assert trace.values("rng.torch") == [0.0] * 8
    digests = [item.digest for name in ("rng.cuda", "later.rng.cuda") for item in trace.measured(name)]
    assert len(digests) == len(set(digests)) == 10
    assert not trace.measured("later.rng.torch"), "it never moved"
    assert trace.values("evaluated.cuda") == [float(STEPS)]
    assert trace.values("evaluated.torch") == [0.0, 0.0]


@pytest.mark.usefixtures("counter")
def test_a_function_that_draws_leaves_a_state(tmp_path: Path) -> None:
    """The call of the function itself, and not only that of the model around it."""
    trace = trained(tmp_path, steps=2)
    (file,) = tmp_path.glob("proc-*/sketches.bin")
    rows = np.fromfile(file, SKETCH)
    (slot,) = [number for (kind, number), symbol in trace.symbols.items() if (kind, symbol.get("name")) == STATE]
    left = rows[(rows["slot"] == slot) & (rows["size"] > 0)]
    names = {call.seq: call.name for call in trace.calls}
    assert left["size"].tolist() == [STEPS] * 3, "two steps and the first call of the evaluation"
    assert {names[call] for call in left["call"].tolist()} == {"torch.nn.functional.dropout"}


def test_nothing_of_it_is_written_without_cuda(tmp_path: Path) -> None:
    trace = trained(tmp_path)
    written = [symbol["name"] for (kind, _), symbol in trace.symbols.items() if kind in ("slot", "measure")]
    assert "rng.torch" in written
    assert not [name for name in written if "cuda" in name]
