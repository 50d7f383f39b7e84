"""Open descriptors, their number and targets, limits on them, and a program that runs out of them."""

import os
import resource

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


def descriptors():
    found = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            found.append((name, os.readlink(f"/proc/self/fd/{name}").partition(":")[0]))
        except OSError:
            pass
    return [(name, target) for name, target in found if int(name) < 20]


torch.manual_seed(0)
print(descriptors())
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def one_step(step):
    loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)


for step in range(3):
    one_step(step)
print(descriptors())
first = os.open("first.txt", os.O_CREAT | os.O_WRONLY)
show("first free number", first)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(open("first.txt"))
except OSError as error:
    print(error)
show("held", len(held))
for step in range(3, 6):
    one_step(step)
del held
show_end(model=model)
