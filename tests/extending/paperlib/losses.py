"""Losses."""

import torch


def focal_loss(logits, targets, gamma=2.0, alpha=0.25):
    """Lin et al. (2017), Focal Loss for Dense Object Detection, section 3."""
    p = torch.sigmoid(logits)
    near = torch.where(targets > 0, p, 1 - p)
    weight = torch.where(targets > 0, alpha, 1 - alpha)
    return (-weight * (1 - near) ** gamma * torch.log(near)).mean()
