"""torch.compile on a GPU, with and without CUDA graphs: the same graphs, compiled as often."""

# farm: cuda
# farm: needs triton

import sys

import torch
import torch.nn.functional as F
from showing import show, show_end, show_loss
from torch import nn
from torch._dynamo.utils import counters

torch.use_deterministic_algorithms(True)
for mode in ("default", "reduce-overhead"):
    torch.manual_seed(0)
    torch._dynamo.reset()
    counters.clear()
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    fast = torch.compile(model, mode=mode)
    for step in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        inputs, targets = torch.randn(32, 64, device="cuda"), torch.randint(0, 8, (32,), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(fast(inputs), targets)
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    with torch.no_grad():
        show("evaluated", fast(inputs))
    show_end(model=model)
    show("counters", sorted(counters["stats"].items()), sorted(counters["graph_break"].items()))
    show("graphs", sorted((key, value) for key, value in counters["inductor"].items() if "cudagraph" in key))
sys.stdout.flush()
