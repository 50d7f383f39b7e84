"""Two graph convolutions over one random graph, all nodes in every step, with weight decay on the first layer alone."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Convolution(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out, bias=False)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, nodes, adjacency):
        return adjacency @ self.linear(nodes) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Convolution(64, 32)
        self.dropout = nn.Dropout(0.5)
        self.second = Convolution(32, 7)

    def forward(self, nodes, adjacency):
        hidden = torch.relu(self.first(self.dropout(nodes), adjacency))
        return self.second(self.dropout(hidden), adjacency)


torch.manual_seed(arguments.seed)
count = 700
edges = (torch.rand(count, count) < 0.01).float()
edges = ((edges + edges.T + torch.eye(count)) > 0).float()
scale = edges.sum(dim=1).rsqrt()
adjacency = scale[:, None] * edges * scale[None, :]
adjacency = adjacency.to(arguments.device)
nodes, labels = torch.randn(count, 64, device=arguments.device), torch.randint(0, 7, (count,), device=arguments.device)
train = torch.arange(140, device=arguments.device)
model = Net().to(arguments.device)
optimizer = torch.optim.Adam(
    [
        {"params": model.first.parameters(), "weight_decay": 5e-4},
        {"params": model.second.parameters(), "weight_decay": 0.0},
    ],
    lr=0.01,
)
for _ in range(arguments.steps):
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(nodes, adjacency)[train], labels[train])
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
