"""vector-quantize-pytorch: an autoencoder of short sequences with a small codebook in the middle."""

import argparse
import random

import torch
from torch import nn


def quantizer(kind):
    if kind == "sim":
        from vector_quantize_pytorch import SimVQ

        return SimVQ(dim=8, codebook_size=16)
    from vector_quantize_pytorch import VectorQuantize

    return VectorQuantize(dim=8, codebook_size=16, decay=0.8, kmeans_init=kind == "kmeans", kmeans_iters=3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("sim", "kmeans"), required=True)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    torch.manual_seed(arguments.seed)
    encoder, decoder = nn.Linear(6, 8), nn.Linear(8, 6)
    middle = quantizer(arguments.kind)
    optimizer = torch.optim.Adam([*encoder.parameters(), *middle.parameters(), *decoder.parameters()], lr=3e-3)
    for step in range(8):
        inputs = torch.randn(4, 10, 6)
        codes, indices, commitment = middle(encoder(inputs))
        loss = nn.functional.mse_loss(decoder(codes), inputs) + commitment.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} codes {indices.unique().numel()}")


main()
