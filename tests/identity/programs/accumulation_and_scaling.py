"""Gradient accumulation, a GradScaler on the CPU, autocast in bfloat16, clipping by norm and by value."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(
    [
        {"params": [p for p in model.parameters() if p.ndim > 1]},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0},
    ],
    1e-2,
)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)
schedule = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [
        torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4),
    ],
    [2],
)
for step in range(12):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(4, 1, 8, 8).contiguous(memory_format=torch.channels_last))
        loss = F.cross_entropy(out, torch.randint(0, 3, (4,)))
        if step == 5:
            loss = loss * float("inf")
    scaler.scale(loss / 2).backward()
    if step % 2:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=step % 4 == 1)
        schedule.step()
    show_loss(step, loss)
    show("scale", float(scaler.get_scale()), schedule.get_last_lr(), out.dtype)
print(model[0].weight.stride(), scaler.state_dict(), schedule.state_dict().keys())
show_end(model=model)
