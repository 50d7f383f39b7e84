"""Warnings of torch name the user's line, and say as much as without an observer."""

# farm: sample
import os
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss


def training():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    for step in range(3):
        schedule.step()
        loss = F.mse_loss(model(torch.randn(4, 3)), torch.randn(4))
        loss = loss + F.l1_loss(model(torch.randn(4, 3)), torch.randn(4))
        loss = loss + F.smooth_l1_loss(model(torch.randn(4, 3)), torch.randn(4))
        loss = loss + F.huber_loss(model(torch.randn(4, 3)), torch.randn(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
        schedule.step(step)
        schedule.get_lr()
    F.kl_div(torch.randn(2, 3), torch.rand(2, 3))
    F.softmax(torch.randn(2, 3))
    F.log_softmax(torch.randn(2, 3))
    nn.Softmax()(torch.randn(2, 3))
    F.gumbel_softmax(torch.randn(2, 3))
    F.cross_entropy(torch.randn(2, 3), torch.tensor([0, 1]), size_average=False)
    F.nll_loss(torch.randn(2, 3), torch.tensor([0, 1]), reduce=True)
    F.sigmoid(torch.randn(2))
    F.tanh(torch.randn(2))
    F.dropout(torch.randn(2), 0.5)
    F.dropout2d(torch.randn(3, 4))
    F.interpolate(torch.randn(1, 1, 4, 4), scale_factor=0.7, recompute_scale_factor=True)
    nn.init.uniform(torch.empty(3))
    nn.init.xavier_normal(torch.empty(3, 3))
    nn.init.kaiming_uniform_(torch.empty(0, 3))
    nn.utils.clip_grad_norm([], 1.0)
    torch.nn.utils.weight_norm(nn.Linear(2, 2))
    nn.Dropout(0.5).double()(torch.randn(2))
    nn.LSTM(2, 2, num_layers=1, dropout=0.5)
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, batch_first=False), 1)
    torch.tensor(torch.randn(2))
    torch.randn(3, requires_grad=True).sum().grad
    (torch.randn(3, requires_grad=True) * 2).grad
    torch.utils.data.DataLoader([1, 2, 3], num_workers=0, prefetch_factor=None)
    torch.cuda.amp.GradScaler()
    torch.amp.GradScaler("cuda")
    torch.meshgrid(torch.arange(2), torch.arange(2))
    torch.range(0, 3)
    torch.randn(3).masked_fill(torch.zeros(3, dtype=torch.uint8), 0.0)
    torch.utils.checkpoint.checkpoint(nn.Linear(3, 1), torch.randn(1, 3))
    torch.optim.lr_scheduler.LinearLR(optimizer, verbose="deprecated") if False else None
    nn.functional.multi_margin_loss(torch.randn(2, 3), torch.tensor([0, 1]), reduce=False)
    with torch.autograd.set_detect_anomaly(True):
        pass
    return model


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        model = training()
    except Exception as error:
        print("raised", type(error).__name__, error)
        model = nn.Linear(1, 1)
for warning in caught:
    place = os.path.basename(warning.filename)
    print(warning.category.__name__, place, warning.lineno, str(warning.message)[:200].replace("\n", " "))
show_end(model=model)
torch.manual_seed(1)
again = nn.Linear(2, 1)
F.mse_loss(again(torch.randn(4, 2)), torch.randn(4)).backward()
F.softmax(torch.randn(2, 3))
warnings.simplefilter("error")
try:
    F.l1_loss(torch.randn(4, 1), torch.randn(4))
except UserWarning as warning:
    print("as an error:", warning)
