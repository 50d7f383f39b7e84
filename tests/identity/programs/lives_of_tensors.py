"""When activations, gradients and batches die: weak references, counts of live tensors, reference counts, __del__."""

# farm: sample
import gc
import sys
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss

story = []


class Noisy(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name, self.layer = name, nn.Linear(4, 4)

    def forward(self, x):
        out = torch.tanh(self.layer(x))
        weakref.finalize(out, story.append, f"output of {self.name}").atexit = False
        return out

    def __del__(self):
        story.append(f"module {self.name}")


class Witness:
    """Lives as long as the graph that holds it."""


class Batch:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        story.append("batch")


def live():
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def one_step(model, optimizer):
    batch = Batch(torch.randn(3, 4))
    weakref.finalize(batch.x, story.append, "input").atexit = False
    hidden = model(batch.x)
    loss = F.mse_loss(hidden, torch.zeros_like(hidden))
    weakref.finalize(loss, story.append, "loss").atexit = False
    witness = Witness()
    loss.grad_fn.metadata["witness"] = witness
    graph = weakref.ref(witness)
    del witness
    del hidden
    story.append("forward done")
    optimizer.zero_grad()
    story.append("zero_grad done")
    loss.backward()
    for number, parameter in enumerate(model.parameters()):
        weakref.finalize(parameter.grad, story.append, f"gradient {number}").atexit = False
    story.append("backward done")
    optimizer.step()
    value = loss.detach().clone()
    del loss
    story.append(f"graph {graph() is None}")
    return value


gc.disable()
torch.manual_seed(1)
model = nn.Sequential(*(Noisy(str(number)) for number in range(3)))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.5)
before = 0
for step in range(5):
    loss = one_step(model, optimizer)
    story.append("step done")
    show_loss(step, loss)
    show("growth", live() - before if step else 0, [sys.getrefcount(p) for p in model.parameters()])
    show("more counts", sys.getrefcount(model), sys.getrefcount(model[0]), gc.isenabled())
    show("weak", [weakref.getweakrefcount(thing) for thing in (loss, *model.parameters())])
    print("; ".join(story))
    story.clear()
    before = live()
show_end(model=model)
wanted = weakref.ref(model), weakref.ref(optimizer), weakref.ref(model[0].layer.weight)
del optimizer, model
print([reference() is None for reference in wanted], story)
gc.collect()
print([reference() is None for reference in wanted], sorted(story))
print(len(gc.garbage), [type(thing).__name__ for thing in gc.callbacks])
