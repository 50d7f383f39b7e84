"""torch.device as a context, set_default_device, set_default_dtype, and function modes nested in each other."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode
from torch.utils._device import DeviceContext
from showing import show, show_end, show_loss

seen = []


class Named(TorchFunctionMode):
    def __init__(self, name):
        self.name = name

    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(f"{self.name}.{func.__name__}")
        return func(*args, **(kwargs or {}))


class Halving(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.linear or func == torch.matmul:
            args = (args[0] * 0.5, *args[1:])
        return func(*args, **(kwargs or {}))


torch.manual_seed(0)
with torch.device("meta"), Named("meta"):
    print(nn.Linear(2, 2).weight.device, torch.rand(2).device, torch.tensor([1.0]).device)
    with torch.device("cpu"):
        print(torch.rand(2).device, torch.tensor([1.0]).device)
print(seen)
torch.set_default_device("cpu")
print(torch.get_default_device(), torch._C._len_torch_function_stack())
torch.set_default_dtype(torch.float64)
model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.1), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(4):
    seen.clear()
    with contextlib.ExitStack() as stack:
        for mode in (Named("outer"), Halving(), BaseTorchFunctionMode(), Named("inner"))[: step + 1]:
            stack.enter_context(mode)
        loss = F.cross_entropy(model(torch.randn(5, 3)), torch.randint(0, 2, (5,)))
        print(torch._C._len_torch_function_stack())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    print(len(seen), seen)
with torch._C.DisableTorchFunction(), Named("disabled"):
    seen.clear()
    show("disabled", model(torch.ones(1, 3)), len(seen))
torch.set_default_device(None)
print(torch._C._len_torch_function_stack(), isinstance(torch.overrides._get_current_function_mode(), DeviceContext))
fast = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
with torch.no_grad():
    x = torch.randn(2, 3, 8)
    show("fast path", fast(x))
    with Named("slow"):
        show("slow path", fast(x))
print(seen[-5:], torch.overrides.has_torch_function((x,)))
show_end(model=model)
