"""A recurrent language model whose hidden state is carried from batch to batch."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
arguments = parser.parse_args()


class Language(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.dropout = nn.Dropout(0.2)
        self.rnn = nn.LSTM(width, width, num_layers=2, dropout=0.2)
        self.decoder = nn.Linear(width, words)

    def forward(self, tokens, state):
        hidden, state = self.rnn(self.dropout(self.embedding(tokens)), state)
        return self.decoder(self.dropout(hidden)), state


torch.manual_seed(arguments.seed)
model = Language(1000, 128).to(arguments.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
state = tuple(torch.zeros(2, 16, 128, device=arguments.device) for _ in range(2))
for _ in range(arguments.steps):
    tokens = torch.randint(0, 1000, (21, 16), device=arguments.device)
    state = tuple(part.detach() for part in state)
    model.zero_grad()
    logits, state = model(tokens[:-1], state)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
print(f"loss {loss.item():.6f}")
