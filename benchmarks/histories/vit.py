"""vit-pytorch: a small vision transformer as a classifier."""

import argparse

import torch
from torch import nn
from vit_pytorch.vit import ViT


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    torch.manual_seed(parser.parse_args().seed)
    model = ViT(
        image_size=16, patch_size=4, num_classes=4, dim=32, depth=2, heads=2, dim_head=16, mlp_dim=48, dropout=0.1
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for step in range(8):
        labels = torch.randint(0, 4, (8,))
        images = torch.randn(8, 3, 16, 16) + labels.view(-1, 1, 1, 1)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        print("classes", model(torch.randn(4, 3, 16, 16)).argmax(dim=1).tolist())


main()
