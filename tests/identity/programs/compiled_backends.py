"""torch.compile with the eager and aot_eager backends: graphs, recompilations, breaks, guards."""

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from showing import show, show_end, show_loss


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(6, 12), nn.Linear(12, 3), nn.LayerNorm(12)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale=1.0):
        self.calls += 1
        h = self.norm(F.gelu(self.a(x)))
        if h.sum() > 1e6:
            h = h * 2
        return self.b(F.dropout(h, 0.1, self.training)) * scale


TABLE = {F.linear: 2.0, F.gelu: 3.0}


def looked_up(x):
    return (
        x * TABLE[F.linear]
        + TABLE.get(F.relu, 0.5) * F.linear(x, x)
        + (1.0 if F.linear is nn.functional.linear else 0.0)
    )


torch.manual_seed(0)
for backend in ("eager", "aot_eager"):
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounterWithBackend(backend)
    net = Net()
    model = torch.compile(net, backend=counter)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(6):
        loss = F.cross_entropy(model(torch.randn(4 + step % 3, 6), 1.0 + step // 3), torch.zeros(4 + step % 3).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    net.eval()
    show("eval", model(torch.ones(2, 6)))
    print(backend, counter.frame_count, counter.op_count)
    for graph in counter.graphs:
        print(graph.graph)
    for name in sorted(counters):
        print(name, sorted(counters[name].items(), key=str))
    show_end(net=net)
table = CompileCounterWithBackend("eager")
show("table", torch.compile(looked_up, backend=table, fullgraph=True)(torch.eye(3)), table.frame_count, table.op_count)


@torch.compile(backend="eager")
def whole_step(model, optimizer, x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


net = nn.Linear(3, 2)
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    show_loss(step, whole_step(net, optimizer, torch.randn(4, 3)))
explained = torch._dynamo.explain(Net())(torch.ones(2, 6))
print(explained.graph_count, explained.graph_break_count, explained.op_count, len(explained.out_guards))
show_end(net=net)
