"""Weights that are computed: weight_norm old and new, spectral_norm, orthogonal, symmetric, pruned, tied, cached."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from showing import show, show_end, show_loss


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, x):
        return x.triu()


torch.manual_seed(0)
model = nn.Sequential(
    parametrizations.weight_norm(nn.Linear(6, 6)),
    parametrizations.spectral_norm(nn.Linear(6, 6)),
    parametrizations.orthogonal(nn.Linear(6, 6)),
    nn.Linear(6, 6),
    nn.Linear(6, 6),
    nn.Linear(6, 6),
    nn.utils.spectral_norm(nn.Linear(6, 6)),
)
parametrize.register_parametrization(model[3], "weight", Symmetric())
prune.random_unstructured(model[4], "weight", 0.3)
model[5].weight = model[4].weight_orig
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
for step in range(5):
    with parametrize.cached() if step == 3 else torch.enable_grad():
        loss = F.mse_loss(model(torch.randn(4, 6)), torch.zeros(4, 6))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
print([type(layer).__name__ for layer in model], len(list(model.parameters())), sorted(model.state_dict()))
parametrize.remove_parametrizations(model[3], "weight")
prune.remove(model[4], "weight")
nn.utils.remove_spectral_norm(model[6])
vector = nn.utils.parameters_to_vector(model.parameters())
nn.utils.vector_to_parameters(vector * 0.5, model.parameters())
show("after", model(torch.ones(1, 6)))
show_end(model=model)
