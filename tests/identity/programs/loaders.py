"""Loaders of every make: workers kept and not, generators, samplers, iterable data, prefetching, worker functions."""

import random

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler, get_worker_info, random_split
from showing import show, show_end, show_loss


class Noisy(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        if index == 99:
            raise IndexError(index)
        noise = torch.randn(4) + random.random() + numpy.random.rand()
        return {"x": noise.float() + index, "y": index % 3, "name": str(index), "worker": get_worker_info() is not None}


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, stride = (info.id, info.num_workers) if info else (0, 1)
        for index in range(start, 12, stride):
            yield torch.full((4,), float(index)), index % 3


def seed_worker(number):
    numpy.random.seed(torch.initial_seed() % 2**32)
    random.seed(number)


class Batches:
    def __iter__(self):
        yield from ([0, 3], [5, 1, 2])

    def __len__(self):
        return 2


torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters())
generator = torch.Generator().manual_seed(7)
loaders = {
    "plain": DataLoader(Noisy(), 4, shuffle=True),
    "workers": DataLoader(Noisy(), 4, shuffle=True, num_workers=2, worker_init_fn=seed_worker, generator=generator),
    "kept": DataLoader(
        Noisy(), 8, num_workers=1, persistent_workers=True, prefetch_factor=3, worker_init_fn=seed_worker
    ),
    "weighted": DataLoader(Noisy(), 4, sampler=WeightedRandomSampler([1.0] * 8 + [2.0] * 8, 8), drop_last=True),
    "batches": DataLoader(Noisy(), batch_sampler=Batches()),
    "split": DataLoader(random_split(Noisy(), [8, 8], torch.Generator().manual_seed(1))[0], 4),
    "single": DataLoader(Noisy(), batch_size=None, sampler=range(3)),
}
step = 0
for name, loader in loaders.items():
    for epoch in range(2 if name == "kept" else 1):
        for batch in loader:
            x = batch["x"].reshape(-1, 4)
            loss = F.cross_entropy(model(x), torch.as_tensor(batch["y"]).reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            show_loss(step, loss)
            print(name, epoch, batch["name"], sorted(batch), type(batch).__name__, batch["worker"])
            step += 1
for workers in (0, 2):
    for x, y in DataLoader(Stream(), 3, num_workers=workers, worker_init_fn=seed_worker if workers else None):
        print(x[:, 0].tolist(), y.tolist())
iterator = iter(DataLoader(Noisy(), 4, num_workers=1, worker_init_fn=seed_worker))
show("first", next(iterator)["x"].shape, len(iterator), type(iterator).__name__)
del iterator
try:
    list(DataLoader(Noisy(), 1, sampler=[1, 99], num_workers=1))
except IndexError as error:
    print(str(error).splitlines()[-1], len(str(error).splitlines()))
show_end(model=model)
