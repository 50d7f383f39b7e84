"""CUDA graphs: a whole step that is captured and replayed, parts that are made graphs of, and a stream beside."""

# farm: cuda

import torch
import torch.nn.functional as F
from showing import show, show_end
from torch import nn

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
optimizer = torch.optim.Adam(model.parameters(), 1e-3, capturable=True)
inputs, targets = torch.randn(32, 64, device="cuda"), torch.randint(0, 8, (32,), device="cuda")
data = torch.randn(10, 32, 64, device="cuda")


def train():
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


beside = torch.cuda.Stream()
beside.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(beside):
    for _ in range(3):
        train()
torch.cuda.current_stream().wait_stream(beside)
optimizer.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = train()
for batch in data:
    inputs.copy_(batch)
    graph.replay()
    show("replayed", loss)
show_end(model=model)

parts = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).cuda()
parts = torch.cuda.make_graphed_callables(parts, (torch.randn(32, 64, device="cuda"),))
optimizer = torch.optim.SGD(parts.parameters(), 0.1)
for batch in data:
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(parts(batch), targets).backward()
    optimizer.step()
show_end(parts=parts)
show("generator of the GPU", torch.cuda.get_rng_state())
