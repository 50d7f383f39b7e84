"""torch.fx tracing and transformation, torch.export, make_fx, functionalisation."""

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from showing import show, show_end, show_loss


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, 12), nn.Linear(12, 3), nn.Dropout(0.1)

    def forward(self, x):
        return F.log_softmax(self.b(self.drop(F.relu(self.a(x)) + torch.sigmoid(self.a(x)))), -1)


class Whole(fx.Tracer):
    def is_leaf_module(self, module, path):
        return False


torch.manual_seed(0)
net = Net()
print(fx.symbolic_trace(net).graph)
whole = fx.GraphModule(net, Whole().trace(net))
print(whole.graph, whole.code)
for node in whole.graph.nodes:
    if node.op == "call_function" and node.target is F.relu:
        node.target, node.kwargs = torch.tanh, {}
    if node.target is F.linear:
        print("linear is found", node.name)
whole.recompile()
optimizer = torch.optim.SGD(whole.parameters(), 0.1)
for step in range(4):
    loss = F.nll_loss(whole(torch.randn(5, 6)), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)


class Shapes(fx.Interpreter):
    def run_node(self, node):
        found = super().run_node(node)
        print(node.op, node.target if isinstance(node.target, str) else node.target.__name__, tuple(found.shape))
        return found


Shapes(whole).run(torch.ones(2, 6))
exported = torch.export.export(
    net.eval(), (torch.ones(2, 6),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=9)},)
)
print(exported.graph)
show("exported", exported.module()(torch.ones(3, 6)))
print(make_fx(lambda x: F.cross_entropy(net(x), torch.zeros(2).long()))(torch.ones(2, 6)).graph)
print(make_fx(torch.func.grad(lambda x: net(x).sum()))(torch.ones(2, 6)).graph)
decomposed = exported.run_decompositions()
print(len(decomposed.graph.nodes), sorted({str(node.target) for node in decomposed.graph.nodes}))
with torch._subclasses.FakeTensorMode() as mode:
    fake = Net()
    out = fake(torch.empty(2, 6))
    out.sum().backward()
    torch.optim.SGD(fake.parameters(), 0.1).step()
    print(out, fake.a.weight.grad.shape, type(fake.a.weight))
show_end(net=net, whole=whole)
