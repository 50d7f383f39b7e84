"""Transforms that turn made-up images into tensors; those that augment leave them as they are."""

import numpy as np
import torch


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Lambda:
    def __init__(self, function):
        self.function = function

    def __call__(self, image):
        return self.function(image)


class ToTensor:
    def __call__(self, image):
        pixels = np.asarray(image)
        scaled = torch.from_numpy(np.array(pixels, dtype=np.float32)) / (255 if pixels.dtype == np.uint8 else 1)
        return scaled.unsqueeze(0) if scaled.dim() == 2 else scaled.permute(2, 0, 1)


class _Same(torch.nn.Module):
    """An augmentation or a change of size that is not needed for images that already are as they should be."""

    def __init__(self, *settings, **named_settings):
        super().__init__()

    def forward(self, image):
        return image


class Normalize(_Same):
    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = torch.as_tensor(mean), torch.as_tensor(std)

    def forward(self, image):
        return (image - self.mean.view(-1, 1, 1)) / self.std.view(-1, 1, 1)


class Resize(_Same): ...


class CenterCrop(_Same): ...


class RandomHorizontalFlip(_Same): ...


class RandomResizedCrop(_Same): ...


class RandomGrayscale(_Same): ...


class ColorJitter(_Same): ...


class GaussianBlur(_Same): ...


class ToPILImage(_Same): ...
