"""torch.compile with inductor, in training and in evaluation, with dynamic shapes."""

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from showing import show, show_end, show_loss

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
model = torch.compile(net, dynamic=True)
optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
for step in range(5):
    size = 4 + step % 2
    loss = F.cross_entropy(model(torch.randn(size, 6)), torch.randint(0, 3, (size,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
with torch.no_grad():
    show("eval", model.eval()(torch.ones(2, 6)))
for name in sorted(counters):
    if name in ("stats", "graph_break", "frames", "inline_call", "unimplemented", "aot_autograd"):
        print(name, sorted((key, value) for key, value in counters[name].items() if "time" not in str(key)))
show_end(net=net)
