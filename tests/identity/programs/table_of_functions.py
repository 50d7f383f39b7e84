"""Tables, sets and comparisons with torch's functions, as quantised and masked tensors keep them."""

# farm: sample
import torch
import torch.nn.functional as F
from torch.nn.functional import cross_entropy, linear
from showing import show, show_end, show_loss

HANDLED = {F.linear: "linear", torch.matmul: "matmul", torch.Tensor.add: "add", F.relu: "relu", F.dropout: "dropout"}
METHODS = {torch.Tensor.sum, torch.Tensor.mean, torch.Tensor.backward, torch.Tensor.detach, torch.Tensor.clone}
LOG = []


def implements(*functions):
    def note(handler):
        for function in functions:
            REGISTRY[function] = handler
        return handler

    return note


REGISTRY = {}


@implements(F.linear, torch.nn.functional.linear)
def scaled_linear(input, weight, bias=None):
    return torch._C._nn.linear(input * 1.5, weight, bias)


@implements(torch.nn.functional.cross_entropy)
def doubled_cross_entropy(*args, **kwargs):
    return 2 * cross_entropy(*args, **kwargs)


@implements(F.dropout)
def no_dropout(input, p=0.5, training=True, inplace=False):
    return input


class Tabled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        LOG.append((func.__name__, func in HANDLED, func in METHODS, func is F.linear, func == linear))
        if func in REGISTRY:
            with torch._C.DisableTorchFunctionSubclass():
                found = REGISTRY[func](*args, **kwargs)
            return found.as_subclass(Tabled)
        return super().__torch_function__(func, types, args, kwargs)


torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(5, 6).as_subclass(Tabled)
    loss = F.cross_entropy(model(x), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
for entry in LOG:
    print(entry)
print(F.linear is linear, torch.nn.functional.cross_entropy is cross_entropy, F.linear is torch._C._nn.linear)
print({F.linear: 1}[linear], F.linear in [linear], len({F.linear, linear, torch._C._nn.linear}))
print(torch.Tensor.sum is torch.Tensor.sum, torch.Tensor.add in (torch.Tensor.add_, torch.Tensor.add))
show_end(model=model)
show("type", type(loss).__name__)
