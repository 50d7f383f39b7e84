"""Arguments, modules and containers whose methods raise, lie or take offence at being looked at."""

# farm: sample
import collections
import dataclasses
import enum
import types

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss

touched = collections.Counter()


def raising(name):
    def method(self, *args, **kwargs):
        touched[name] += 1
        raise ZeroDivisionError(name)

    return method


class Hostile:
    def __getattribute__(self, name):
        if name == "value":
            return object.__getattribute__(self, "__dict__")["value"]
        touched[name] += 1
        raise ZeroDivisionError(name)


for _name in (
    "__len__",
    "__eq__",
    "__repr__",
    "__str__",
    "__bool__",
    "__iter__",
    "__getitem__",
    "__hash__",
    "__contains__",
):
    setattr(Hostile, _name, raising(_name))


class HostileDict(dict):
    keys, items, values, get, __iter__ = (
        raising(f"dict.{name}") for name in ("keys", "items", "values", "get", "__iter__")
    )
    __len__ = raising("dict.__len__")


class HostileList(list):
    __iter__, __len__ = raising("list.__iter__"), raising("list.__len__")


class HostileText(str):
    __str__ = __repr__ = __len__ = __hash__ = __eq__ = raising("text")


class HostileInt(int):
    __repr__ = __str__ = __eq__ = __hash__ = __index__ = raising("int")


class HostileFloat(float):
    __repr__ = __float__ = __eq__ = __hash__ = raising("float")


class HostileClass(type):
    def __repr__(cls):
        raise ZeroDivisionError("class")

    def __instancecheck__(cls, instance):
        touched["instancecheck"] += 1
        raise ZeroDivisionError("instance check")

    __eq__, __hash__ = raising("class.__eq__"), raising("class.__hash__")


class OfHostileClass(metaclass=HostileClass):
    __class__ = property(raising("__class__"))
    __module__ = None
    __qualname__ = "strange name \x1b[31m"


class Liar:
    """Says that it is a tensor."""

    __class__ = torch.Tensor
    shape = dtype = device = property(raising("liar"))


class Endless:
    def __iter__(self):
        touched["endless"] += 1
        while True:
            yield self

    def __len__(self):
        return 10**18

    def __getattr__(self, name):
        return self


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    extra: object = None

    def __eq__(self, other):
        raise ZeroDivisionError("batch")


Point = collections.namedtuple("Point", "x y")
Colour = enum.Enum("Colour", "RED GREEN")
loop = [1]
loop.append(loop)
around = {"self": loop}
around["me"] = around


class Counting(type):
    """Says of its classes what hash they have, and what they are equal to."""

    def __hash__(cls):
        touched["metaclass.__hash__"] += 1
        return 1

    def __eq__(cls, other):
        touched["metaclass.__eq__"] += 1
        return True


class Twisted(nn.Linear, metaclass=Counting):
    pass


class Sgd(torch.optim.SGD, metaclass=Counting):
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Twisted(3, 2)
        self.hostile = [Hostile()]
        self.text = HostileText("text")

    def __getattr__(self, name):
        if name in ("weight", "config", "generate", "module", "_orig_mod"):
            touched[f"module.{name}"] += 1
            raise KeyError(name)
        return super().__getattr__(name)

    def __len__(self):
        raise ZeroDivisionError("length of a module")

    def __bool__(self):
        raise ZeroDivisionError("truth of a module")

    def __eq__(self, other):
        raise ZeroDivisionError("equality of modules")

    def __repr__(self):
        raise ZeroDivisionError("repr of a module")

    def __iter__(self):
        raise ZeroDivisionError("iteration of a module")

    __hash__ = nn.Module.__hash__

    def extra_repr(self):
        raise ZeroDivisionError("extra_repr")

    def forward(self, batch, *args, **kwargs):
        return HostileDict(out=self.layer(batch.x), more=args)


torch.manual_seed(0)
net = Net()
optimizer = Sgd([{"params": net.parameters(), "noted": 10**5000}], 0.1)
extras = [
    Hostile,
    Hostile(),
    HostileDict(a=1),
    HostileList([1]),
    HostileText("x"),
    HostileInt(3),
    HostileFloat(3.0),
    OfHostileClass(),
    OfHostileClass,
    Endless(),
    Colour.RED,
    loop,
    around,
    Liar(),
    types.MappingProxyType({"a": Hostile()}),
    iter([1]),
    ...,
    NotImplemented,
    types.SimpleNamespace(a=loop),
    10**5000,
    {10**5000: torch.ones(1)},
    -(10**400),
    "\udcff surrogate",
    "\x00" * 300,
    b"\xff",
    float("nan"),
    1j,
    range(10**12),
    torch.Size([1]),
    torch.float32,
    torch.device("cpu"),
    torch.Generator(),
    memoryview(b"abc"),
    {1, 2},
    frozenset(),
    lambda: 1,
    type,
    net,
]
for step in range(4):
    batch = Batch(torch.randn(4, 3), Point(1, Hostile()))
    out = net(batch, *extras, hostile=Hostile(), HOSTILE=HostileDict(b=2), point=Point(torch.ones(2), extras))
    loss = F.cross_entropy(dict.__getitem__(out, "out"), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
print("touched", sorted(touched.items()))
show("dropout", F.dropout(torch.ones(2), HostileFloat(0.0), False))
show("softmax", F.softmax(torch.ones(2), dim=0))
show_end(net=net)
