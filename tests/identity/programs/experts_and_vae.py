"""A mixture of experts whose routing depends on data, a variational autoencoder with a codebook, contrastive pairs."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 4, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 6)) for _ in range(4))
        self.register_buffer("load", torch.zeros(4))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == number)
            if len(rows):
                out.index_add_(0, rows, expert(x[rows]) * weights[rows, slots, None])
            self.load[number] += len(rows)
        return out


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 8), nn.Linear(4, 6)
        self.codes = nn.Embedding(5, 4)

    def forward(self, x):
        mean, log = self.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp()
        index = torch.cdist(z, self.codes.weight).argmin(-1)
        code = self.codes(index)
        through = z + (code - z).detach()
        divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(-1).mean()
        return self.decoder(through), divergence + F.mse_loss(z, code.detach()) + F.mse_loss(z.detach(), code)


torch.manual_seed(0)
experts, vae, scale = Experts(), Vae(), nn.Parameter(torch.tensor(2.0))
optimizer = torch.optim.Adam([*experts.parameters(), *vae.parameters(), scale], 1e-2)
for step in range(5):
    x = torch.randn(8, 6)
    h = experts(x)
    again, extra = vae(h)
    left, right = F.normalize(h, dim=1), F.normalize(again, dim=1)
    logits = left @ right.t() * scale.exp()
    labels = torch.arange(8)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2 + 0.1 * extra
    loss = loss + F.binary_cross_entropy(again.sigmoid(), (x > 0).float()) + experts.load.var() * 0
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    show("load", experts.load.tolist(), [p.grad is None for p in experts.parameters()])
show_end(experts=experts, vae=vae)
