"""A mode of one's own that casts matrix products to bfloat16 by a table of functions."""

# farm: sample
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode
from showing import show, show_end, show_loss

LOWER = {
    F.linear,
    torch.matmul,
    torch.Tensor.matmul,
    torch.Tensor.__matmul__,
    torch.bmm,
    F.scaled_dot_product_attention,
}
UPPER = {F.cross_entropy, F.layer_norm, F.softmax, torch.softmax, torch.Tensor.softmax, F.mse_loss}
casts = []


def cast(value, dtype):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


class Autocast(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        dtype = torch.bfloat16 if func in LOWER else torch.float32 if func in UPPER else None
        if dtype is not None:
            casts.append((func.__name__, str(dtype)))
            args = tuple(cast(value, dtype) for value in args)
            kwargs = {name: cast(value, dtype) for name, value in kwargs.items()}
        return func(*args, **kwargs)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = (q @ k.transpose(1, 2)).softmax(-1)
        return x + self.out(torch.bmm(scores, v) + F.scaled_dot_product_attention(q, k, v))


torch.manual_seed(5)
model = nn.Sequential(nn.Embedding(11, 8), Attention(), Attention(), nn.Linear(8, 11))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(5):
    tokens = torch.randint(0, 11, (2, 6))
    with Autocast():
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    show("logits", logits.dtype, len(casts))
print(casts[: len(casts) // 5])
show_end(model=model)
