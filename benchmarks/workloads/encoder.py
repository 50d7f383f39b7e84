"""A four-layer `nn.TransformerEncoder` that classifies random token sequences, with clipping and a schedule."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Classifier(nn.Module):
    def __init__(self, vocabulary=1000, width=128, classes=8):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=4)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(dim=1))


torch.manual_seed(arguments.seed)
model = Classifier().to(arguments.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=arguments.steps)
for _ in range(arguments.steps):
    tokens = torch.randint(0, 1000, (16, 32), device=arguments.device)
    labels = torch.randint(0, 8, (16,), device=arguments.device)
    loss = nn.functional.cross_entropy(model(tokens), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
print(f"loss {loss.item():.6f}")
