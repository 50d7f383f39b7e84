"""TorchDispatchMode counters, nested, around whole training steps; a FLOP counter."""

from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from showing import show_end, show_loss


class Count(TorchDispatchMode):
    def __init__(self, name):
        super().__init__()
        self.name, self.found, self.order = name, Counter(), []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.found[str(func)] += 1
        self.order.append(str(func))
        return func(*args, **(kwargs or {}))


torch.manual_seed(2)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(144, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
outer, inner = Count("outer"), Count("inner")
for step in range(4):
    with outer:
        x, y = torch.randn(3, 1, 8, 8), torch.randint(0, 5, (3,))
        with inner:
            loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    show_loss(step, loss)
for mode in (outer, inner):
    print(mode.name, sum(mode.found.values()), sorted(mode.found.items()))
print(" ".join(outer.order[: len(outer.order) // 4]))
with FlopCounterMode(display=False) as flops:
    model(torch.randn(2, 1, 8, 8)).sum().backward()
print(flops.get_total_flops(), {k: {str(op): n for op, n in v.items()} for k, v in flops.get_flop_counts().items()})
show_end(model=model)
