"""Closes every descriptor that it does not know, as daemons do, and uses the numbers for files of its own."""

import os

# farm: sample
import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def one_step():
    loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


show_loss(0, one_step())
os.closerange(3, 256)
files = []
for number in range(12):
    file = open(f"file{number}.txt", "w+b")
    file.write(b"x" * 1000)
    file.flush()
    files.append(file)
pipe = os.pipe()
for step in range(1, 6):
    show_loss(step, one_step())
torch.save(model.state_dict(), "model.pt")
for number, file in enumerate(files):
    file.seek(0)
    print(number, len(file.read()), os.fstat(file.fileno()).st_size)
    file.close()
os.write(pipe[1], b"word")
print(os.read(pipe[0], 100))
show_end(model=model)
