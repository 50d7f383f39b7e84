"""Made-up images: a bright patch whose place tells the class, in noise. The same ones in every run."""

import os

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

# How many images of training and of tests there are; the programs end by themselves after few steps.
TRAIN = int(os.environ.get("PUBLIC_IMAGES", "512"))
TEST = TRAIN // 4


class _MadeUp(Dataset):
    """`size` by `size` pixels with `channels` channels, of `classes` classes."""

    size, channels, classes = 28, 1, 10

    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False, **_):
        self.root, self.train = root, train
        self.transform, self.target_transform = transform, target_transform
        count = TRAIN if train else TEST
        generator = np.random.default_rng(int(train))
        self.targets = torch.from_numpy(generator.integers(0, self.classes, count))
        pixels = generator.integers(0, 60, (count, self.size, self.size, self.channels)).astype(np.uint8)
        step = self.size // 5
        for image, label in zip(pixels, self.targets.tolist(), strict=True):
            row, column = divmod(label % 10, 5)
            image[row * 2 * step + 1 : (row * 2 + 2) * step, column * step : (column + 1) * step] += 180
        self.data = torch.from_numpy(pixels[..., 0] if self.channels == 1 else pixels)
        self.classes_names = [str(each) for each in range(self.classes)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        image, target = Image.fromarray(self.data[index].numpy()), int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


class MNIST(_MadeUp): ...


class FashionMNIST(_MadeUp): ...


class CIFAR10(_MadeUp):
    size, channels = 32, 3


class CIFAR100(CIFAR10):
    classes = 100


class STL10(CIFAR10):
    size = 96

    def __init__(self, root=None, split="train", **settings):
        super().__init__(root, train=split.startswith(("train", "unlabeled")), **settings)


class CelebA(_MadeUp):
    size, channels = 64, 3

    def __init__(self, root=None, split="train", **settings):
        super().__init__(root, train=split != "test", **settings)


class FakeData(_MadeUp):
    """As the real one, of the size and number of classes that are asked for, but of few images."""

    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, target_transform=None):
        self.channels, self.size = image_size[0], image_size[1]
        self.classes = num_classes
        super().__init__(train=size > TEST, transform=transform, target_transform=target_transform)


class ImageFolder(_MadeUp):
    """As if a folder held such images."""

    size, channels = 64, 3

    def __init__(self, root, transform=None, target_transform=None):
        super().__init__(root, "val" not in str(root), transform, target_transform)
        self.imgs = self.samples = [(f"{index}.png", int(target)) for index, target in enumerate(self.targets)]
        self.class_to_idx = {str(each): each for each in range(10)}
