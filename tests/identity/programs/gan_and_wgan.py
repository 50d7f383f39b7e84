"""A GAN with two optimizers, and a WGAN with clipped weights and gradient penalty through autograd.grad."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss

torch.manual_seed(0)
for kind in ("gan", "clip", "penalty"):
    maker = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))
    judge = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    of_maker = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.9))
    of_judge = torch.optim.RMSprop(judge.parameters(), 1e-3)
    for step in range(4):
        for _ in range(1 if kind == "gan" else 2):
            real, fake = torch.randn(8, 6), maker(torch.randn(8, 4)).detach()
            if kind == "gan":
                loss = F.binary_cross_entropy_with_logits(judge(real), torch.ones(8, 1))
                loss = loss + F.binary_cross_entropy_with_logits(judge(fake), torch.zeros(8, 1))
            else:
                loss = judge(fake).mean() - judge(real).mean()
            if kind == "penalty":
                between = torch.lerp(real, fake, torch.rand(8, 1)).requires_grad_()
                (slope,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
                loss = loss + 10 * ((slope.norm(2, 1) - 1) ** 2).mean()
            of_judge.zero_grad()
            loss.backward()
            of_judge.step()
            if kind == "clip":
                for p in judge.parameters():
                    p.data.clamp_(-0.1, 0.1)
        for p in judge.parameters():
            p.requires_grad = False
        out = judge(maker(torch.randn(8, 4)))
        loss = F.softplus(-out).mean() if kind == "gan" else -out.mean()
        of_maker.zero_grad()
        loss.backward()
        of_maker.step()
        judge.requires_grad_(True)
        show_loss(step, loss)
    show_end(maker=maker, judge=judge)
