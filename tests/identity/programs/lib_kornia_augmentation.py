"""Augmentations of kornia as modules in the training loop, its losses and filters."""

# farm: needs kornia
import kornia
import kornia.augmentation as K
import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss

torch.manual_seed(0)
augment = nn.Sequential(
    K.RandomHorizontalFlip(p=0.5), K.RandomAffine(10.0, p=0.7), K.ColorJitter(0.1, 0.1, 0.1, 0.1, p=0.8),
    K.RandomErasing(p=0.5), K.Normalize(torch.tensor([0.5] * 3), torch.tensor([0.2] * 3)),
)  # fmt: skip
model = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
for step in range(4):
    with torch.no_grad():
        x = augment(torch.rand(3, 3, 16, 16))
    out = model(x)
    loss = F.cross_entropy(out, torch.randint(0, 4, (3,))) + kornia.losses.total_variation(x).mean() * 1e-4
    loss = loss + kornia.losses.ssim_loss(kornia.filters.gaussian_blur2d(x, (3, 3), (1.0, 1.0)), x, 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    show("batch", x)
show_end(model=model)
