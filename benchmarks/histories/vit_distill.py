"""vit-pytorch: a small vision transformer learns from labels and from a frozen convolutional teacher."""

import argparse

import torch
from torch import nn
from vit_pytorch.distill import DistillableViT, DistillWrapper


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hard", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    teacher = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))
    student = DistillableViT(image_size=16, patch_size=4, num_classes=4, dim=32, depth=2, heads=2, mlp_dim=48)
    wrapper = DistillWrapper(student=student, teacher=teacher, temperature=3, alpha=0.3, hard=arguments.hard)
    trained = [each for name, each in wrapper.named_parameters() if not name.startswith("teacher")]
    optimizer = torch.optim.Adam(trained, lr=1e-3)
    for step in range(8):
        labels = torch.randint(0, 4, (8,))
        images = torch.randn(8, 3, 16, 16) + labels.view(-1, 1, 1, 1)
        loss = wrapper(images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


main()
