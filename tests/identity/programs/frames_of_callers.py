"""Libraries that look at the frame of their caller: scripting of classes, custom operators, locals, stacklevels."""

# farm: sample
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from showing import show, show_end, show_loss


def here(depth=1):
    frame = sys._getframe(depth)
    code = frame.f_code
    return f"{code.co_name}:{frame.f_lineno}:{sorted(frame.f_locals)[:3] if code.co_filename == __file__ else ''}"


def local_class():
    scale = 3

    class Inner:
        def __init__(self, x: Tensor):
            self.x = x

        def twice(self) -> Tensor:
            return self.x * 2

    @torch.jit.script
    def use(x: Tensor) -> Tensor:
        return F.relu(x) + torch.sum(x)

    class Scripted(nn.Module):
        factor: int

        def __init__(self):
            super().__init__()
            self.factor, self.layer = scale, nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(self.layer(x), 0.5, self.training) * self.factor

    return torch.jit.script(Inner), use, torch.jit.script(Scripted())


torch.manual_seed(1)
inner, use, scripted = local_class()
show("scripted", inner(torch.ones(2)).twice(), use(torch.ones(2)), scripted(torch.ones(1, 2)))
print(scripted.code, use.graph)


@torch.library.custom_op("farm::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


double.register_autograd(lambda ctx, grad: grad * 2)
own = torch.library.Library("farm_own", "DEF")
own.define("triple(Tensor x) -> Tensor")


@torch.library.impl(own, "triple", "CPU")
def triple(x):
    return x * 3


show("operators", double(torch.ones(2)), torch.ops.farm_own.triple(torch.ones(2)), torch.ops.farm.double(torch.ones(1)))


class Level:
    def warn(self, text):
        warnings.warn(text, stacklevel=2)


class Deprecated(nn.Linear):
    def forward(self, x):
        warnings.warn("forward from the third frame", stacklevel=3)
        warnings.warn("forward from the fifth frame", stacklevel=5)
        print("forward is called by", here(2), "and", here(3))
        return super().forward(x)


class OwnOptimizer(torch.optim.SGD):
    def step(self, closure=None):
        warnings.warn("step", stacklevel=2)
        print("step is called by", here(2), "and", here(3))
        return super().step(closure)

    def zero_grad(self, set_to_none=True):
        warnings.warn("zero_grad", stacklevel=2)
        print("zero_grad is called by", here(2))
        super().zero_grad(set_to_none)


class OwnSchedule(torch.optim.lr_scheduler.StepLR):
    def step(self, epoch=None):
        warnings.warn("schedule", stacklevel=2)
        print("schedule is called by", here(2))
        super().step()


def main():
    model = nn.Sequential(Deprecated(3, 4), nn.Tanh(), Deprecated(4, 2))
    optimizer = OwnOptimizer(model.parameters(), 0.1)
    schedule = OwnSchedule(optimizer, 2)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        Level().warn("level")
        show_loss(step, loss)
    return model


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = main()
for warning in caught:
    print(warning.category.__name__, warning.filename.rpartition("/")[2], warning.lineno, str(warning.message)[:80])
traced = torch.jit.trace(model, torch.randn(4, 3), check_trace=False)
show("traced", traced(torch.ones(4, 3)))
import torch.distributed.optim  # noqa: E402

print(torch.distributed.optim.ZeroRedundancyOptimizer.__name__)
show_end(model=model)
