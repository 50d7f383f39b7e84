"""Parameters whose storage is freed between uses, as offloading and sharding do, and tensors of other odd memory."""

# farm: sample
import torch
from torch import nn
from showing import show, show_end, show_loss


def free(tensor):
    kept = tensor.detach().clone()
    tensor.untyped_storage().resize_(0)
    return kept


def bring_back(tensor, kept):
    tensor.untyped_storage().resize_(kept.untyped_storage().nbytes())
    tensor.detach().copy_(kept)


torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
away = {}


def before(module, args):
    for parameter in module.parameters():
        if parameter in away:
            bring_back(parameter, away.pop(parameter))


def after(module, args, output):
    for parameter in module.parameters():
        away[parameter] = free(parameter)


for layer in list(model)[:2]:
    layer.register_forward_pre_hook(before)
for step in range(5):
    loss = model(torch.randn(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    for parameter in model.parameters():
        away[parameter] = free(parameter)
    model.train()
    model.zero_grad(set_to_none=False)
    for parameter in model[2].parameters():
        bring_back(parameter, away.pop(parameter))
    show_loss(step, loss)
for layer in model:
    before(layer, ())
gradient = model[0].weight.grad
gradient.untyped_storage().resize_(0)
optimizer.zero_grad()
show_end(model=model)
odd = nn.Module()
odd.register_buffer("expanded", torch.ones(1).expand(5))
odd.register_buffer("strided", torch.arange(12.0).reshape(3, 4).t()[::2])
odd.register_buffer("empty", torch.empty(0))
odd.register_buffer("scalar", torch.tensor(3.0))
odd.register_buffer("view", torch.arange(6.0)[2:4])
odd.register_buffer("conjugated", torch.complex(torch.ones(2), torch.ones(2)).conj())
odd.register_buffer("negative", torch.complex(torch.ones(2), torch.ones(2)).conj().imag)
odd.register_buffer("none", None)
odd.register_buffer("mapped", torch.frombuffer(bytearray(b"12345678"), dtype=torch.int32))
odd.weight = nn.Parameter(torch.ones(2))
odd.forward = lambda x: (x * odd.weight + odd.scalar).sum()
optimizer = torch.optim.SGD(odd.parameters(), 0.1)
for step in range(3):
    loss = odd(torch.ones(2))
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
show("odd", *(b.resolve_conj().resolve_neg() if b.numel() else b for b in odd.buffers() if b is not None))
