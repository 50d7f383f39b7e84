"""Tensor subclasses with a dispatch of their own: wrappers that log, and ones that hold scaled integers."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_map
from showing import show, show_end, show_loss

log = []


class Logging(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        log.append("repr")
        return f"Logging({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        log.append(str(func))
        out = func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {}))
        return tree_map(lambda value: Logging(value) if isinstance(value, torch.Tensor) else value, out)


def unwrapped(value):
    return value.inner if isinstance(value, Logging) else value


class Scaled(torch.Tensor):
    """Whole numbers and a scale, as weight-only quantisation keeps weights."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype, device=whole.device)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    def __tensor_flatten__(self):
        return ["whole", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Scaled(inner["whole"], inner["scale"])

    def dequantize(self):
        return self.whole * self.scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is F.linear:
            log.append("linear by table")
            x, weight, *bias = args
            return cls.apply_linear(x, weight, bias[0] if bias else (kwargs or {}).get("bias"))
        if func in HANDLED:
            return HANDLED[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @staticmethod
    def apply_linear(x, weight, bias):
        out = (x @ weight.whole.t().to(x.dtype)) * weight.scale.t()
        return out if bias is None else out + bias

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        log.append(f"scaled {func}")
        if func is torch.ops.aten.detach.default:
            return Scaled(args[0].whole, args[0].scale)
        plain = tree_map(lambda value: value.dequantize() if isinstance(value, Scaled) else value, (args, kwargs or {}))
        return func(*plain[0], **plain[1])


HANDLED = {F.embedding: lambda index, weight, *rest, **more: log.append("embedding") or weight.dequantize()[index]}

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
for layer in (model[0], model[1]):
    scale = layer.weight.detach().abs().amax(1, keepdim=True) / 127
    whole = (layer.weight.detach() / scale).round().to(torch.int8)
    layer.weight = nn.Parameter(Scaled(whole, scale), requires_grad=False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
for step in range(4):
    loss = F.cross_entropy(model(torch.randint(0, 7, (5,))), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    print(len(log), log)
    log.clear()
plain = nn.Linear(3, 2)
optimizer = torch.optim.SGD(plain.parameters(), 0.1)
for step in range(4):
    x = Logging(torch.randn(4, 3))
    loss = F.mse_loss(plain(x), Logging(torch.zeros(4, 2)))
    optimizer.zero_grad()
    loss.backward()
    for parameter in plain.parameters():
        parameter.grad = unwrapped(parameter.grad)
    optimizer.step()
    show_loss(step, loss.inner)
    print(len(log), log)
    log.clear()
logged = nn.Linear(3, 2)
logged.weight = nn.Parameter(Logging(torch.ones(2, 3)))
logged.register_buffer("kept", Logging(torch.ones(2)))
optimizer = torch.optim.SGD(logged.parameters(), 0.1)
for step in range(3):
    loss = logged(torch.randn(4, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(type(loss).__name__, type(logged.weight).__name__, len(log), log)
    log.clear()
show("weights", model[1].weight.whole, model[1].weight.scale, logged.weight.inner, logged.bias)
show_end(plain=plain, last=model[3])
