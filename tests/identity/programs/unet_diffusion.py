"""A small UNet with attention and time embedding that learns to take noise away; sampling by an average of weights."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm, self.first = nn.GroupNorm(2, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time, self.drop = nn.Linear(8, outputs), nn.Dropout2d(0.1)
        self.second, self.skip = nn.Conv2d(outputs, outputs, 3, padding=1), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, t):
        h = self.first(F.silu(self.norm(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.second(self.drop(F.silu(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.begin = nn.Conv2d(1, 4, 3, padding=1)
        self.down, self.middle, self.up = Block(4, 8), Block(8, 8), Block(12, 4)
        self.attention, self.end = nn.MultiheadAttention(8, 2, batch_first=True), nn.Conv2d(4, 1, 1)

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-math.log(100) * torch.arange(4) / 4)
        t = torch.cat([angles.sin(), angles.cos()], 1)
        first = self.begin(x)
        h = self.middle(F.avg_pool2d(self.down(first, t), 2), t)
        tokens = h.flatten(2).transpose(1, 2)
        h = h + self.attention(tokens, tokens, tokens)[0].transpose(1, 2).reshape(h.shape)
        return self.end(self.up(torch.cat([F.interpolate(h, scale_factor=2.0), first], 1), t))


torch.manual_seed(0)
net = UNet()
average = copy.deepcopy(net).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), 2e-3)
kept = torch.cumprod(1 - torch.linspace(1e-4, 0.1, 20), 0)
for step in range(5):
    clean, noise, t = torch.randn(3, 1, 8, 8), torch.randn(3, 1, 8, 8), torch.randint(0, 20, (3,))
    a = kept[t][:, None, None, None]
    loss = F.mse_loss(net(a.sqrt() * clean + (1 - a).sqrt() * noise, t.float()), noise)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), net.parameters()):
            slow.lerp_(fast, 0.1)
    show_loss(step, loss)
with torch.inference_mode():
    x = torch.randn(1, 1, 8, 8)
    for t in (19, 10, 0):
        x = x - 0.1 * average(x, torch.tensor([float(t)]))
    show("sample", x)
show_end(net=net, average=average)
