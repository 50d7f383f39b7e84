"""Averages of weights: by hand, AveragedModel, SWA with new batch statistics, a momentum encoder, resuming."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
teacher = copy.deepcopy(model).requires_grad_(False)
average, moving = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
shadow = {name: value.detach().clone() for name, value in model.named_parameters()}
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
schedule = SWALR(optimizer, 0.05, anneal_epochs=2)
loader = DataLoader(TensorDataset(torch.randn(32, 6)), 8)
queue = F.normalize(torch.randn(16, 4), dim=1)
for step in range(6):
    x = torch.randn(8, 6)
    query, key = F.normalize(model(x), dim=1), F.normalize(teacher(x + 0.1 * torch.randn_like(x)), dim=1)
    logits = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.T], 1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    queue = torch.cat([key, queue])[:16]
    average.update_parameters(model)
    moving.update_parameters(model)
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), model.parameters()):
            slow.data = slow.data * 0.9 + fast.data * 0.1
        for name, value in model.named_parameters():
            shadow[name].mul_(0.9).add_(value, alpha=0.1)
    show_loss(step, loss)
    if step == 2:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "resume.pt")
update_bn(loader, average)
show("average", average(torch.ones(2, 6)), *shadow.values())
saved = torch.load("resume.pt", weights_only=True)
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
loss = model(torch.randn(8, 6)).square().mean()
loss.backward()
optimizer.step()
print(model.load_state_dict({"0.weight": torch.ones(8, 6)}, strict=False))
show_end(model=model, teacher=teacher, average=average, moving=moving)
