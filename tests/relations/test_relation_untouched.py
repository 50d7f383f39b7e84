"""Untouched: what a data set holds keeps its values while batches are made of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, violations

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from real_training import recorded  # noqa: E402
from torch.utils.data import DataLoader, Dataset, Subset  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402

RULE = "What data sets hold is not written to while batches are made of it."


class Signals(Dataset[Any]):
    """Rows of an array, which may be changed where they are stored; and what data sets hold beside their data."""

    def __init__(self, seed: int, how: str) -> None:
        rng = np.random.default_rng(seed)
        self.signals = rng.normal(size=(24, 6)).astype(np.float32)
        self.tokens = [[1, 2, 3] for _ in range(24)]
        self.how = how
        self.seen: list[int] = []
        self.order = rng.permutation(24)
        self.cache: dict[int, Any] = {}
        self.table = np.zeros((24, 6), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, index: int) -> Any:
        signal = self.signals[index]
        if self.how == "in place":
            signal += 1.0
        elif self.how == "appended":
            self.tokens[index].append(4)
        elif self.how == "cached":
            self.seen.append(index)
            self.cache[index] = torch.from_numpy(signal * 2)
            self.table[index] = signal
        elif self.how == "reordered" and index == 0:
            self.order = np.roll(self.order, 1)
        return torch.from_numpy(signal.copy()), float(len(self.tokens[index]))


def training(seed: int = 0, how: str = "", workers: int = 0, part: bool = False, written: bool = False) -> None:
    torch.manual_seed(seed)
    signals: Any = Signals(seed, how)
    data = Subset(signals, range(16)) if part else signals
    loader = DataLoader(data, batch_size=4, num_workers=workers, persistent_workers=bool(workers))
    net = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for inputs, _ in loader:
            optimizer.zero_grad()
            net(inputs).square().mean().backward()
            optimizer.step()
        if written:
            signals.signals *= 0.5


def golden(folder: Path, **how: Any) -> Golden:
    runs = [recorded(partial(training, seed=seed, **how), folder / f"golden{seed}") for seed in (0, 1)]
    return learn(runs, pipeline="real", seeds=(0, 1))


def judged(known: Golden, folder: Path, **how: Any) -> CheckOutcome:
    return check_run(known, recorded(partial(training, **how), folder / "candidate"), same_spec=True)


def test_an_array_that_is_augmented_in_place(tmp_path: Path) -> None:
    known = golden(tmp_path)
    assert sentences(known, "Untouched") == [RULE]
    outcome = judged(known, tmp_path, seed=5, how="in place")
    (incident,) = outcome.incidents
    assert incident.cause.title == (
        "In the golden run the data set kept its values; in the candidate `Signals.signals` changed while batches were "
        "made of it: something is written into the stored data in place, and every later epoch gets that."
    ), describe(outcome.incidents)


@pytest.mark.parametrize(
    "how", [{"how": "appended"}, {"written": True}, {"how": "in place", "part": True}], ids=["list", "loop", "subset"]
)
def test_other_ways_to_write_into_data(tmp_path: Path, how: dict[str, Any]) -> None:
    known = golden(tmp_path, part=how.get("part", False))
    assert violations(judged(known, tmp_path, seed=5, **how), "Untouched")


@pytest.mark.slow
def test_a_worker_that_writes_into_its_data(tmp_path: Path) -> None:
    known = golden(tmp_path, workers=1)
    assert sentences(known, "Untouched") == [RULE]
    assert not violations(judged(known, tmp_path, seed=5, workers=1), "Untouched")
    outcome = judged(known, tmp_path / "wrong", seed=5, workers=1, how="in place")
    assert violations(outcome, "Untouched")


@pytest.mark.parametrize("how", ["", "cached"])
def test_caches_and_logs_are_no_data(tmp_path: Path, how: str) -> None:
    assert not violations(judged(golden(tmp_path), tmp_path, seed=5, how=how), "Untouched")


def test_what_golden_changes_itself_has_no_rule_and_the_rest_has(tmp_path: Path) -> None:
    known = golden(tmp_path, how="reordered")
    found = sentences(known, "Untouched")
    assert "What a data set holds as `Signals.signals` is not written to while batches are made of it." in found
    assert not any("order" in sentence or sentence == RULE for sentence in found)
    assert violations(judged(known, tmp_path, seed=5, how="in place"), "Untouched")


def test_another_data_set_is_another_one(tmp_path: Path) -> None:
    """Each fold has a data set of its own, which may lie where the last one was."""

    def folds() -> None:
        for seed in range(6):
            training(seed)

    run = recorded(folds, tmp_path)
    process = run.processes[0]
    shares = [float(process.events["value"][row]) for row in process.measures("stored.Signals.signals")]
    assert shares
    assert not any(shares)
