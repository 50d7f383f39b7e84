"""Users of sys.setprofile and sys.settrace: which functions of the user's own files are called, and how often."""

import sys
import threading
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss

HERE = __file__
calls, lines, builtins = Counter(), Counter(), Counter()


def profiler(frame, event, argument):
    if frame.f_code.co_filename == HERE:
        if event == "call":
            calls[frame.f_code.co_name] += 1
        elif event == "c_call" and "torch" in str(getattr(argument, "__module__", "")):
            builtins[argument.__name__] += 1


def tracer(frame, event, argument):
    if frame.f_code.co_filename != HERE:
        return None
    lines[frame.f_code.co_name, event] += 1
    return tracer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return F.dropout(self.layer(x), 0.1)


def one_step(model, optimizer):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.randn(4, 3)), torch.randint(0, 2, (4,)))
    loss.backward()
    optimizer.step()
    return loss


torch.manual_seed(0)
sys.setprofile(profiler)
threading.setprofile(profiler)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    loss = one_step(model, optimizer)
sys.setprofile(None)
print(sys.getprofile(), sys.gettrace())
sys.settrace(tracer)
for step in range(3):
    loss = one_step(model, optimizer)
    show_loss(step, loss)
print(sys.gettrace() is tracer)
sys.settrace(None)
print(sorted(calls.items()), sorted(lines.items()), sorted(builtins.items()))
show_end(model=model)
