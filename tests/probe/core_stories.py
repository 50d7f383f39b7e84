"""Trainings of which both recorders have to write the same, as code: what comes first in each, and the rest by name."""

from core_stories_of_calls import CALLS
from core_stories_of_data import DATA
from core_stories_of_parts import PARTS
from core_stories_of_sampling import SAMPLED
from core_stories_of_steps import STEPS

PREPARED = """
import math, os, random, signal, sys, threading
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

for seed in (torch.manual_seed, random.seed, np.random.seed):
    seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.normal = nn.LayerNorm(8)
        self.hidden = nn.Linear(8, 8)
        self.memory = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x, scale=1.0, *, mask=None):
        x = F.dropout(self.hidden(self.normal(x)) * scale, 0.1, self.training)
        x, _ = self.memory(x)
        return x if mask is None else x.masked_fill(mask, 0.0)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.wide = nn.Linear(8, 4099)
        self.head = nn.Linear(4099, 3)

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = block(x, 0.5 * number, mask=torch.zeros(4, 5, 8, dtype=torch.bool))
        return torch.softmax(self.head(self.wide(x[:, -1])), dim=-1), {"x": x, "sizes": [1, 2.0, None, "text"]}

model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

def step():
    optimizer.zero_grad()
    found, rest = model(torch.ones(4, 5, 8))
    F.cross_entropy(found, torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
"""
STORIES = {**CALLS, **DATA, **PARTS, **STEPS, **SAMPLED}
