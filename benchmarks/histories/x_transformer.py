"""x-transformers: a small decoder learns made-up sequences that repeat, and generates a few tokens at the end."""

import argparse
import json

import torch
from x_transformers import Decoder, TransformerWrapper
from x_transformers.autoregressive_wrapper import AutoregressiveWrapper


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", type=json.loads, default={})
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    layers = Decoder(dim=32, depth=2, heads=2, **arguments.settings)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    model.train()
    for step in range(8):
        halves = torch.randint(1, 20, (6, 6))
        loss = model(torch.cat([halves, halves], dim=1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    print("generated", model.generate(torch.randint(1, 20, (2, 4)), 4).tolist())


main()
