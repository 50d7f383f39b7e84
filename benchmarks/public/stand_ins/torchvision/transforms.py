"""Transforms of Pillow images into tensors, with torch's generator where something is drawn."""

import sys

import numpy as np
import torch
from PIL import Image
from torch import nn

transforms = sys.modules[__name__]  # a module of this name lies within the real package, too


class InterpolationMode:
    NEAREST, BILINEAR, BICUBIC = Image.NEAREST, Image.BILINEAR, Image.BICUBIC


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Lambda:
    def __init__(self, lambd):
        self.function = lambd

    def __call__(self, image):
        return self.function(image)


class ToTensor:
    def __call__(self, image):
        pixels = np.array(image)
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        tensor = torch.from_numpy(np.ascontiguousarray(pixels))
        return tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor.float()


class ToPILImage:
    def __call__(self, image):
        pixels = (image * 255).byte().numpy()
        return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))


class Normalize(nn.Module):
    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std = torch.tensor(mean), torch.tensor(std)

    def forward(self, image):
        return (image - self.mean.view(-1, 1, 1)) / self.std.view(-1, 1, 1)


class Resize(nn.Module):
    def __init__(self, size, interpolation=Image.BILINEAR, **_):
        super().__init__()
        self.size, self.interpolation = size, interpolation

    def forward(self, image):
        if isinstance(self.size, int):
            short = min(image.size)
            size = tuple(round(side * self.size / short) for side in image.size)
        else:
            size = (self.size[1], self.size[0])
        return image.resize(size, self.interpolation)


class CenterCrop(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = _pair(size)

    def forward(self, image):
        left, top = (image.width - self.size[1]) // 2, (image.height - self.size[0]) // 2
        return image.crop((left, top, left + self.size[1], top + self.size[0]))


class RandomCrop(nn.Module):
    def __init__(self, size, padding=0, **_):
        super().__init__()
        self.size, self.padding = _pair(size), padding

    def forward(self, image):
        width, height = image.width + 2 * self.padding, image.height + 2 * self.padding
        left = int(torch.randint(0, width - self.size[1] + 1, ())) - self.padding
        top = int(torch.randint(0, height - self.size[0] + 1, ())) - self.padding
        return image.crop((left, top, left + self.size[1], top + self.size[0]))


class Pad(nn.Module):
    def __init__(self, padding):
        super().__init__()
        self.padding = padding

    def forward(self, image):
        left = top = self.padding
        return image.crop((-left, -top, image.width + left, image.height + top))


class RandomResizedCrop(nn.Module):
    def __init__(self, size, scale=(0.08, 1.0), ratio=(1.0, 1.0), interpolation=Image.BILINEAR, **_):
        super().__init__()
        self.size, self.scale, self.interpolation = _pair(size), scale, interpolation

    def forward(self, image):
        area = float(torch.empty(()).uniform_(*self.scale))
        width, height = (max(1, round(side * area**0.5)) for side in image.size)
        left = int(torch.randint(0, image.width - width + 1, ()))
        top = int(torch.randint(0, image.height - height + 1, ()))
        size = (self.size[1], self.size[0])
        return image.resize(size, self.interpolation, (left, top, left + width, top + height))


class RandomHorizontalFlip(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, image):
        return image.transpose(Image.FLIP_LEFT_RIGHT) if float(torch.rand(())) < self.p else image


class ColorJitter(nn.Module):
    """Brightness alone, which is enough to make two views of an image differ."""

    def __init__(self, brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0):
        super().__init__()
        self.brightness = brightness

    def forward(self, image):
        factor = float(torch.empty(()).uniform_(1 - self.brightness, 1 + self.brightness))
        return image.point(lambda value: min(255, int(value * factor)))


class RandomApply(nn.Module):
    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, image):
        if float(torch.rand(())) < self.p:
            for transform in self.transforms:
                image = transform(image)
        return image


class RandomGrayscale(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.p = p

    def forward(self, image):
        return image.convert("L").convert(image.mode) if float(torch.rand(())) < self.p else image
