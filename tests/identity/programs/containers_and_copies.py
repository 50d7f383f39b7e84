"""Models that are pickled, copied, rebuilt, renamed and taken apart while they train; inputs in all containers."""

import collections
import copy
import dataclasses
import io
import pickle
import typing

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss


@dataclasses.dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    y: torch.Tensor
    more: dict = dataclasses.field(default_factory=dict)


class Out(typing.NamedTuple):
    logits: torch.Tensor
    hidden: torch.Tensor


class Encoding(collections.UserDict):
    pass


class Odict(dict):
    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


class Net(nn.Module):
    def __init__(self, **config):
        super().__init__()
        self.config = Odict(config)
        self.parts = nn.ModuleDict({"a": nn.Linear(4, 6), "b": nn.Linear(6, 3)})
        self.extra = nn.ParameterList([nn.Parameter(torch.ones(3)), torch.zeros(3)])

    @property
    def width(self):
        return self.parts["a"].out_features

    def __getstate__(self):
        return {**self.__dict__, "pickled": True}

    def forward(self, batch, *, scale: float = 1.0, **others):
        hidden = F.relu(self.parts["a"](batch.x if isinstance(batch, Batch) else batch["x"]))
        return Out(self.parts["b"](hidden) * scale + self.extra[0], hidden)


torch.manual_seed(0)
net = Net(width=6)
optimizer = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(6):
    x, y = torch.randn(5, 4), torch.randint(0, 3, (5,))
    batch = (Batch(x, y), {"x": x}, Encoding(x=x), Odict(x=x))[step % 4]
    out = net(batch, scale=1.5, word="text", nothing=None, deep=[{"a": (x, [y])}])
    loss = F.cross_entropy(out.logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    print(type(out).__name__, out._fields, sorted(vars(net)))
    if step == 2:
        net = pickle.loads(pickle.dumps(net))
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    if step == 3:
        file = io.BytesIO()
        torch.save((net, optimizer), file)
        net, optimizer = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
        print(len(file.getvalue()), net.pickled)
    if step == 4:
        net = copy.deepcopy(net)
        net.parts["b"] = nn.Linear(6, 3)
        net.extra.append(nn.Parameter(torch.ones(1)))
        del net.parts["a"].bias
        net.parts["a"].register_parameter("bias", None)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
twin = net.__class__(width=6)
twin.parts["a"] = net.parts["a"]
print(twin.parts["a"].weight is net.parts["a"].weight, net.width, repr(net), list(net.named_modules())[1][0])
setattr(net, "renamed", net.parts)
print(
    [name for name, _ in net.named_parameters(remove_duplicate=False)], net.get_submodule("parts.a") is net.renamed["a"]
)
show_end(net=net, twin=twin)
