"""What an audit says of DataLoader workers that draw random numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from audited_script import audited, laws

ALIKE, REPEATED = "workers-draw-alike", "epochs-draw-alike"

BEGINNING = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Noisy(Dataset):
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.order = self.rng.permutation(32)

    def __len__(self):
        return 32

    def __getitem__(self, index):
        given = np.random.default_rng(int(self.order[index])).normal(size=4)
        return torch.tensor(given + 0.1 * self.draw(), dtype=torch.float32), index % 3

    def draw(self):
        return self.rng.normal(size=4)


def own_stream(number):
    get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed() % 2**32)


"""

TRAINING = """

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    net.train()
    for given, label in training:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(given), label).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for given, label in evaluation:
            net(given)
"""

LOADER = "DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2, worker_init_fn=own_stream)"

HOLDS_ONE_THAT_RESTS = """\
class Fixed(Noisy):
    def draw(self):
        return np.random.normal(size=4)


training = DataLoader(Fixed(), batch_size=8, shuffle=True, num_workers=2)
evaluation = ()
"""

EVALUATES_ALIKE = f"""\
def fixed(number):
    get_worker_info().dataset.rng = np.random.default_rng(0)


training = {LOADER}
evaluation = DataLoader(Noisy(), batch_size=8, num_workers=2, worker_init_fn=fixed)
"""

SHUFFLES_A_STREAM = """\
class Stream(IterableDataset):
    def __init__(self):
        self.rng = np.random.default_rng(7)

    def __iter__(self):
        info = get_worker_info()
        for index in self.rng.permutation(32)[info.id :: info.num_workers].tolist():
            yield torch.tensor(np.random.default_rng(index).normal(size=4), dtype=torch.float32), index % 3


training = DataLoader(Stream(), batch_size=4, num_workers=2, persistent_workers=True)
evaluation = ()
"""


def warnings(directory: Path, script: str) -> list[str]:
    """The rules that an audit finds broken, each of them a warning."""
    found = audited(directory, BEGINNING + script + TRAINING)
    assert not found.errors
    return laws(found)


@pytest.mark.parametrize(
    "script",
    [f"training = {LOADER}\nevaluation = ()\n", HOLDS_ONE_THAT_RESTS, EVALUATES_ALIKE, SHUFFLES_A_STREAM],
    ids=["own streams", "a generator that rests", "an evaluation that is the same each time", "a stream"],
)
def test_workers_that_rightly_draw_as_they_do(tmp_path: Path, script: str) -> None:
    assert warnings(tmp_path, script) == []


@pytest.mark.slow
@pytest.mark.sweep
def test_workers_that_inherit_the_generator_of_the_data_set(tmp_path: Path) -> None:
    loader = LOADER.replace(", worker_init_fn=own_stream", "")
    assert ALIKE in warnings(tmp_path, f"training = {loader}\nevaluation = ()\n")


def test_workers_that_are_seeded_by_their_number(tmp_path: Path) -> None:
    seeded = "def by_number(number):\n    get_worker_info().dataset.rng = np.random.default_rng(number)\n\n\n"
    loader = LOADER.replace("own_stream", "by_number")
    assert warnings(tmp_path, f"{seeded}training = {loader}\nevaluation = ()\n") == [REPEATED]
