"""Networks of the literature by name, as plain ``nn.Module``: images in [0, 1] to logits.

Normalisation, where a network wants any, is its first layer (:class:`Normalised`): strengths are in pixels of [0, 1].
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from robustatlas.common.errors import unknown_name_error
from robustatlas.models.architectures.preactivated import PreActResNet, WideResNet, preact18
from robustatlas.models.architectures.residual import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CifarResNet,
    ResNet,
    resnet18,
    resnet20,
    resnet32,
    resnet34,
    resnet50,
    resnet56,
    resnet101,
)
from robustatlas.models.architectures.small import SmallCNN, digits_cnn, small_cnn, trades_cnn

__all__ = [
    "ARCHITECTURES",
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CifarResNet",
    "Normalised",
    "PreActResNet",
    "ResNet",
    "SmallCNN",
    "WideResNet",
    "architecture_named",
    "digits_cnn",
    "preact18",
    "resnet18",
    "resnet20",
    "resnet32",
    "resnet34",
    "resnet50",
    "resnet56",
    "resnet101",
    "small_cnn",
    "trades_cnn",
]

Builder = Callable[[int, int, int], nn.Module]
"""From channels, side of the images in pixels, and classes."""


def _resnet32(channels: int, size: int, classes: int) -> nn.Module:
    return CifarResNet(5, classes, channels)


ARCHITECTURES: dict[str, Builder] = {
    "digits-cnn": digits_cnn,
    "small-cnn": small_cnn,
    "trades-cnn": trades_cnn,
    "resnet20": resnet20,
    "resnet32": _resnet32,
    "resnet56": resnet56,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "resnet101": resnet101,
    "preact18": preact18,
}
"""Name to builder; besides these ``wrn-DEPTH-WIDTH``."""

_WIDE = re.compile(r"wrn-(\d+)-(\d+)")


class Normalised(nn.Module):
    """``net`` of (x - mean) / std, channel by channel.

    Example:
        >>> Normalised(nn.Identity(), (0.5,), (0.25,))(torch.ones(1, 1, 1, 1)).item()
        2.0
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net((x - self.mean) / self.std)
        return logits


def architecture_named(name: str, channels: int, size: int, classes: int) -> nn.Module:
    """A network of that name with fresh weights (drawn from torch's global generator).

    Args:
        name: one of :data:`ARCHITECTURES`, or ``wrn-DEPTH-WIDTH`` such as ``wrn-28-10``.
        channels: of the images.
        size: their side in pixels.
        classes: number of logits.

    Example:
        >>> sum(p.numel() for p in architecture_named("small-cnn", 3, 32, 10).parameters())
        214918
    """
    wide = _WIDE.fullmatch(name)
    if wide:
        return WideResNet(int(wide[1]), int(wide[2]), channels, classes)
    if name not in ARCHITECTURES:
        there = f"known are {', '.join(ARCHITECTURES)}, wrn-DEPTH-WIDTH, timm:NAME and path/file.py:function"
        raise unknown_name_error("architecture", name, [*ARCHITECTURES, "wrn-28-10"], there)
    return ARCHITECTURES[name](channels, size, classes)
