"""The generators of a GPU, on a GPU: what the probe sees of them, and that it disturbs nothing.

What is made of it is tested everywhere, with a counter in the place of the device.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.probe import cuda_generators, numerics, observe  # noqa: E402
from pytest_traincheck.probe.advance import Advance  # noqa: E402
from pytest_traincheck.trace import Process, Run, load_run  # noqa: E402
from pytest_traincheck.trace.reader import read_sketches  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # The first product of a thread that torch starts for backward passes.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

ROWS, SIZE, STEPS = 16, 6, 10
OWN = torch.Generator().manual_seed(5)
DATA, TARGETS = (torch.randn(ROWS, SIZE, generator=OWN) for _ in range(2))


@dataclass(frozen=True)
class Training:
    """A small model with dropout. `beside` numbers are drawn on the device before the first step, for nobody; `seeds`
    seeds the device otherwise than the CPU.
    """

    drop: float = 0.5
    beside: int = 0
    seeds: int = 0
    factor: float = 1.0
    evaluates_in_train_mode: bool = False

    def __call__(self, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        torch.cuda.manual_seed_all(seed + self.seeds)
        model = nn.Sequential(nn.Linear(SIZE, 8), nn.Dropout(self.drop), nn.Linear(8, SIZE)).to("cuda")
        data, targets = DATA.to("cuda"), TARGETS.to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if self.beside:
            torch.rand(self.beside, device="cuda")
        for _ in range(STEPS):
            loss = ((model(data) - targets) ** 2).mean() * self.factor
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.train(self.evaluates_in_train_mode)
        with torch.no_grad():
            model(data)
        return model


class Trainings:
    """Runs trainings under the probe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def run(self, training: Callable[[int], Any], seed: int = 0) -> Run:
        self._count += 1
        path = self._folder / str(self._count)
        with observe(path, seed=seed):
            training(seed)
        found = load_run(path)
        assert not found.processes[0].raw.meta["probe_errors"]
        return found

    def golden(self, training: Callable[[int], Any]) -> Golden:
        runs = [self.run(training, seed) for seed in (0, 1)]
        return learn(runs, pipeline="cuda", seeds=(0, 1), repeated=[self.run(training)])

    def judged(self, golden: Golden, training: Callable[[int], Any], seed: int = 0) -> CheckOutcome:
        return check_run(golden, self.run(training, seed), same_spec=True)


@pytest.fixture(autouse=True)
def _initialised() -> None:
    torch.cuda.init()


@pytest.fixture
def trainings(tmp_path: Path) -> Trainings:
    return Trainings(tmp_path)


def values(process: Process, measure: str) -> list[float]:
    found: list[float] = process.events["value"][process.measures(measure)].tolist()
    return found


def digests(process: Process, measure: str) -> list[int]:
    found: list[int] = process.events["digest"][process.measures(measure)].tolist()
    return found


def titles(outcome: CheckOutcome, relation: str) -> list[str]:
    found = [item for incident in outcome.incidents for item in incident.violations]
    return [item.title for item in found if item.invariant.relation == relation]


def test_a_program_that_does_not_use_the_gpu_is_left_alone(tmp_path: Path) -> None:
    """Nothing initialises CUDA, and no trace of it is in what is written."""
    script = f"""
import torch
from pytest_traincheck.probe import observe
with observe({str(tmp_path / "run")!r}):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
assert not torch.cuda.is_initialized()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
    (symbols,) = (tmp_path / "run").glob("proc-*/symbols.jsonl")
    text = symbols.read_text()
    assert "rng.torch" in text
    assert ".cuda" not in text


def test_the_layout_of_a_state() -> None:
    torch.cuda.manual_seed(1234)
    here = torch.cuda.current_device()
    assert cuda_generators.states()[here] == (1234, 0)
    torch.rand(3, device="cuda")
    seed, offset = cuda_generators.states()[here]
    assert seed == 1234
    assert offset > 0
    assert torch.cuda.get_rng_state().view(torch.int64).tolist() == [seed, offset]


def test_what_is_drawn_is_counted() -> None:
    torch.cuda.manual_seed_all(1)
    advance = Advance()
    advance.begin()
    torch.rand(3, device="cuda")
    once = advance.look()["cuda"]
    assert 0 < once < math.inf
    torch.rand(3, device="cuda")
    torch.rand(3, device="cuda")
    assert advance.look()["cuda"] == 2 * once
    kept = torch.cuda.get_rng_state()
    torch.rand(3, device="cuda")
    assert advance.look()["cuda"] == once
    torch.cuda.set_rng_state(kept)
    assert advance.look()["cuda"] == math.inf
    torch.manual_seed(7)
    assert advance.look()["cuda"] == math.inf
    assert advance.look()["cuda"] == 0


def test_the_hash_is_that_of_the_state() -> None:
    torch.cuda.manual_seed_all(3)
    first = numerics.random_states()
    torch.rand(3, device="cuda")
    then = numerics.random_states()
    assert {name for name in first if first[name] != then[name]} == {"cuda"}
    torch.cuda.manual_seed_all(3)
    assert numerics.random_states() == first
    torch.rand(3, device="cuda")
    assert numerics.random_states() == then


def test_a_generator_that_a_data_set_holds() -> None:
    own = torch.Generator("cuda").manual_seed(2)
    held = SimpleNamespace(generator=own)
    first = numerics.held_generators(held)
    assert first
    assert numerics.held_generators(held) == first
    torch.rand(3, device="cuda", generator=own)
    assert numerics.held_generators(held) != first


def test_while_a_graph_is_captured_nobody_looks() -> None:
    """The capture succeeds, and what its replays draw is counted again."""
    drop, x = nn.Dropout(0.5), torch.ones(64, device="cuda")
    own = torch.Generator("cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        drop(x)
    torch.cuda.current_stream().wait_stream(stream)
    advance = Advance()
    advance.begin()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = drop(x)
        assert cuda_generators.states() == ()
        assert "cuda" not in numerics.random_states()
        assert numerics.held_generators(SimpleNamespace(generator=own)) == 0
        assert advance.look()["cuda"] == math.inf
    advance.look()
    before = numerics.random_states()["cuda"]
    graph.replay()
    torch.cuda.synchronize()
    assert set(out.tolist()) <= {0.0, 2.0}
    assert 0 < advance.look()["cuda"] < math.inf
    assert numerics.random_states()["cuda"] != before


def test_training_is_the_same(trainings: Trainings) -> None:
    def left(model: nn.Module) -> list[Any]:
        return [*(parameter.detach().cpu() for parameter in model.parameters()), torch.cuda.get_rng_state()]

    plain = left(Training()(3))
    seen: list[Any] = []
    trainings.run(lambda seed: seen.extend(left(Training()(seed))), seed=3)
    assert all(torch.equal(one, other) for one, other in zip(plain, seen, strict=True))


def test_what_a_training_writes(trainings: Trainings) -> None:
    (process,) = trainings.run(Training(evaluates_in_train_mode=True)).processes
    drawn = values(process, "rng.cuda")
    assert len(drawn) == 8
    assert len(set(drawn)) == 1
    assert 0 < drawn[0] < math.inf
    assert values(process, "rng.torch") == [0.0] * 8
    states = digests(process, "rng.cuda") + digests(process, "later.rng.cuda")
    assert len(states) == len(set(states)) == STEPS
    assert values(process, "evaluated.cuda") == drawn[:1]
    (process,) = trainings.run(Training()).processes
    assert values(process, "evaluated.torch") == [0.0]
    assert not values(process, "evaluated.cuda")


def test_a_function_that_draws_leaves_a_state(trainings: Trainings) -> None:
    (process,) = trainings.run(Training()).processes
    slots = [str(slot.get("name", "")) for slot in process.raw.symbols["slot"]]
    rows = read_sketches(process.raw)
    left = rows[(rows["slot"] == slots.index("rng.cuda")) & (rows["size"] > 0)]
    calls = [process.api[int(row)] for row in process.row_at(left["call"].astype(np.int64))]
    assert calls[:2] == ["torch.nn.functional.dropout"] * 2


def test_the_same_training_is_compared_as_a_whole(trainings: Trainings) -> None:
    golden = trainings.golden(Training())
    outcome = trainings.judged(golden, Training())
    assert not outcome.incidents
    assert outcome.coverage is not None
    assert outcome.coverage.share == 1
    assert titles(trainings.judged(golden, Training(factor=2.0)), "Replay")


@pytest.mark.parametrize(
    "other", [Training(beside=1), Training(seeds=100)], ids=["stands elsewhere", "seeded otherwise"]
)
def test_dropout_of_a_generator_that_is_in_another_state_owes_nothing(other: Training, trainings: Trainings) -> None:
    """Parameters, inputs and the CPU's generator are golden's, and every result is another one."""
    outcome = trainings.judged(trainings.golden(Training()), other)
    assert not titles(outcome, "Replay")
    assert outcome.coverage is not None
    assert outcome.coverage.drawn_otherwise


def test_what_is_drawn_is_a_rule(trainings: Trainings) -> None:
    golden = trainings.golden(Training())
    rules = {rule.sentence for rule in golden.invariants if rule.relation in ("Drawn", "Distinct")}
    assert {
        "`torch.nn.functional.dropout` draws random numbers in training.",
        "Each of the first training steps draws random numbers from the GPU's generator where the golden runs did, and "
        "nowhere else.",
        "The GPU's random state differs between training steps.",
    } <= rules
    assert not titles(trainings.judged(golden, Training(), seed=5), "Drawn")
    (title, *_) = titles(trainings.judged(golden, Training(drop=0.0), seed=5), "Drawn")
    assert title.startswith("In the golden run `torch.nn.functional.dropout` drew random numbers")
    evaluated = titles(trainings.judged(golden, Training(evaluates_in_train_mode=True), seed=5), "Drawn")
    assert evaluated == [
        f"In the golden run models that were called without gradients after {STEPS} steps drew no random number from "
        "the GPU's generator; in the candidate some."
    ]
