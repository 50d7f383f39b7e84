"""A small residual network by the names of the large ones, with the parts that scripts reach for."""

import torch
from torch import nn
from torch.nn import functional as F


class ResNet18_Weights:
    DEFAULT = IMAGENET1K_V1 = "random"


ResNet50_Weights = ResNet18_Weights


class _Block(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, images):
        out = F.relu(self.bn1(self.conv1(images)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(images))


class ResNet(nn.Module):
    """Stem, two blocks, pooling and `fc`."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _Block(64, 16, 1)
        self.layer2 = _Block(16, 32, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(32, num_classes)

    def forward(self, images):
        out = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        return self.fc(torch.flatten(self.avgpool(self.layer2(self.layer1(out))), 1))


def resnet18(pretrained=False, weights=None, progress=True, num_classes=1000, **_):
    """A small one, with random weights."""
    return ResNet(num_classes)


resnet34 = resnet50 = resnet101 = resnet152 = resnet18


class VGG16_Weights:
    DEFAULT = IMAGENET1K_V1 = "random"


class VGG(nn.Module):
    """Two convolutions and a classifier; metrics of images import it."""

    def __init__(self, num_classes=1000):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.classifier = nn.Linear(32, num_classes)

    def forward(self, images):
        return self.classifier(self.features(images).mean((2, 3)))


def vgg16(pretrained=False, weights=None, progress=True, num_classes=1000, **_):
    """A small one, with random weights."""
    return VGG(num_classes)
