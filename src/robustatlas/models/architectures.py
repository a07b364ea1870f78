"""Small networks of the literature, as plain ``nn.Module``: images in [0, 1] (normalised where said) to logits."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def digits_cnn() -> nn.Sequential:
    """Two convolutions and two linear layers for 8x8 grey images, 21,706 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 4 * 4, 48),
        nn.ReLU(),
        nn.Linear(48, 10),
    )


class SmallCNN(nn.Module):
    """Two strided 4x4 convolutions (16 and 32 channels) and two linear layers (100 units) for 28x28 grey images.

    The network of Wong and Kolter (2018) that provable defenses on MNIST are compared on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 4, stride=2, padding=1)
        self.fc1 = nn.Linear(32 * 7 * 7, 100)
        self.fc2 = nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``[B, 10]`` of images ``[B, 1, 28, 28]``."""
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut without parameters: every second pixel, and zeros for the new channels."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride = stride
        self.added = (channels - channels_in) // 2

    def forward(self, x: Tensor) -> Tensor:
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.added, self.added))
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(shortcut + residual)


class CifarResNet(nn.Module):
    """The residual networks for CIFAR-10 of He et al. (2016), section 4.2, with 6 * blocks + 2 layers.

    Takes normalised images ``[B, 3, H, W]``.
    """

    def __init__(self, blocks: int = 5, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._layer(16, 16, blocks, 1)
        self.layer2 = self._layer(16, 32, blocks, 2)
        self.layer3 = self._layer(32, 64, blocks, 2)
        self.linear = nn.Linear(64, classes)

    @staticmethod
    def _layer(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
        first = _BasicBlock(channels_in, channels, stride)
        return nn.Sequential(first, *(_BasicBlock(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``[B, classes]``."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def small_cnn() -> SmallCNN:
    """:class:`SmallCNN`, for images in [0, 1]."""
    return SmallCNN()


def resnet32() -> tuple[nn.Module, tuple[float, ...], tuple[float, ...]]:
    """The CIFAR-10 ResNet-32 (0.46 million parameters) with the mean and deviation of ImageNet's pixels."""
    return CifarResNet(blocks=5), IMAGENET_MEAN, IMAGENET_STD
