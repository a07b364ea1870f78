"""Residual networks with the activation before the convolution: PreAct-ResNet-18 and wide residual networks."""

import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.models.architectures.residual import initialise


class _PreActBlock(nn.Module):
    """Normalise, activate, convolve, twice; where the shape changes, a 1x1 convolution of the activated input."""

    def __init__(self, channels_in: int, channels: int, stride: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        changes = stride != 1 or channels_in != channels
        self.shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False) if changes else None
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        active = self.activation(self.bn1(x))
        shortcut: Tensor = x if self.shortcut is None else self.shortcut(active)
        residual: Tensor = self.conv2(self.activation(self.bn2(self.conv1(active))))
        return residual + shortcut


class PreActResNet(nn.Module):
    """PreAct-ResNet-18 (He et al. 2016b) with a 3x3 stem, for images of about 32x32 pixels.

    ``final_norm`` adds batch normalisation and activation before the pooling (11,172,170 parameters); MultiRobustBench
    has none there (11,171,146). ``softplus`` instead of ReLU is what E-AT trains from scratch.
    """

    def __init__(
        self, channels: int = 3, classes: int = 10, *, final_norm: bool = True, softplus: bool = False
    ) -> None:
        super().__init__()
        activation: Callable[[Tensor], Tensor] = F.softplus if softplus else F.relu
        self.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        blocks, before = [], 64
        for width, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
            for stride in (first, 1):
                blocks.append(_PreActBlock(before, width, stride, activation))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(before) if final_norm else None
        self.linear = nn.Linear(before, classes)
        self.activation = activation
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.conv1(x))
        if self.norm is not None:
            x = self.activation(self.norm(x))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def preact18(channels: int = 3, size: int = 32, classes: int = 10) -> PreActResNet:
    """PreAct-ResNet-18 with final normalisation."""
    return PreActResNet(channels, classes)


class WideResNet(nn.Module):
    """WRN-depth-width (Zagoruyko and Komodakis 2016): three groups of (depth - 4) / 6 pre-activated blocks. 28-10 has
    36,479,194 parameters, 34-10 has 46,160,474."""

    def __init__(self, depth: int, width: int, channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6 or width < 1:
            raise UserError(
                f"There is no wrn-{depth}-{width}: the depth must be 6 n + 4 with n >= 1, such as wrn-28-10 or "
                "wrn-34-10."
            )
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        blocks, before = [], 16
        for planes, first in ((16, 1), (32, 2), (64, 2)):
            for position in range((depth - 4) // 6):
                blocks.append(_PreActBlock(before, planes * width, 1 if position else first, F.relu))
                before = planes * width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(before)
        self.linear = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                deviation = math.sqrt(2 / (module.kernel_size[0] ** 2 * module.out_channels))
                nn.init.normal_(module.weight, 0, deviation)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.blocks(self.conv1(x))))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits
