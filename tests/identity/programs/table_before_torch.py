"""Functions that were taken from torch's extension modules and from torch itself, in every way of importing them."""

import importlib
import sys

import torch
import torch._C
import torch.nn.functional
from torch import matmul, nn, optim
from torch.nn import functional as F
from torch.nn import init
from torch.nn.functional import *  # noqa: F403
from showing import show_end, show_loss

pairs = [
    (torch.matmul, torch._C._VariableFunctions.matmul),
    (torch.conv2d, torch.nn.functional.conv2d),
    (torch.nn.functional.linear, torch._C._nn.linear),
    (torch.nn.functional.gelu, torch._C._nn.gelu),
    (torch.nn.functional.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention),
    (torch.nn.functional.mse_loss, getattr(torch.nn.functional, "mse_loss")),
    (torch.nn.modules.loss.F.cross_entropy, F.cross_entropy),
    (torch.dropout, torch._C._VariableFunctions.dropout),
    (torch.bmm, torch._VF.bmm),
    (matmul, importlib.import_module("torch").matmul),
    (vars(torch)["einsum"], torch.functional.einsum),
    (torch.functional.norm, torch.norm),
    (sys.modules["torch"].stft, torch.functional.stft),
    (torch.Tensor.backward, torch._tensor.Tensor.backward),
    (torch.Tensor.matmul, torch._C.TensorBase.matmul),
    (torch.Tensor.masked_fill, torch._C.TensorBase.__dict__["masked_fill"]),
    (init.xavier_uniform_, torch.nn.init.xavier_uniform_),
    (nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad.clip_grad_norm_),
    (torch.autograd.grad, torch.autograd.__dict__["grad"]),
    (torch.save, torch.serialization.save),
    (torch.load, torch.serialization.load),
    (optim.SGD.step, sys.modules["torch.optim.sgd"].SGD.step),
    (nn.Module.__call__, nn.Module._wrapped_call_impl),
    (nn.Module.train, nn.Linear.train),
    (torch.manual_seed, torch.random.manual_seed),
    (linear, F.linear),  # noqa: F405
    (cross_entropy, F.cross_entropy),  # noqa: F405
]
for number, (left, right) in enumerate(pairs):
    print(number, left is right, left == right, hash(left) == hash(right), left.__name__, type(left).__name__)
print({left: number for number, (left, _) in enumerate(pairs)}[F.linear])
print(sorted(name for name in vars(nn.Linear) if not name.startswith("__")))
print(sorted(name for name in vars(optim.SGD) if not name.startswith("__")))
print(len(dir(torch)), len(dir(torch.nn.functional)), len(dir(torch.Tensor)), len(dir(nn.Module)), len(vars(nn.Module)))
torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = mse_loss(model(torch.randn(4, 3)), torch.randn(4, 1))  # noqa: F405
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
print(sorted(vars(model)), sorted(vars(optimizer)), sorted(optimizer.state_dict()))
show_end(model=model)
