"""Residual networks for images of about 32x32 pixels (He et al. 2016)."""

import torch.nn.functional as F
from torch import Tensor, nn

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def initialise(net: nn.Module) -> None:
    """Convolutions by He et al. (2015) with the fan-out; other layers keep torch's defaults."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class _PaddedBlock(nn.Module):
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

    Shortcuts have no parameters (option A): 269,722 parameters with 3 blocks (ResNet-20), 853,018 with 9 (ResNet-56).
    Convolutions and the linear layer begin as in Kang et al. (2019): He's normal distribution.
    """

    def __init__(self, blocks: int = 5, classes: int = 10, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._layer(16, 16, blocks, 1)
        self.layer2 = self._layer(16, 32, blocks, 2)
        self.layer3 = self._layer(32, 64, blocks, 2)
        self.linear = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)

    @staticmethod
    def _layer(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
        first = _PaddedBlock(channels_in, channels, stride)
        return nn.Sequential(first, *(_PaddedBlock(channels, channels, 1) for _ in range(blocks - 1)))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def resnet20(channels: int = 3, size: int = 32, classes: int = 10) -> CifarResNet:
    """ResNet-20 of He et al. for CIFAR-10."""
    return CifarResNet(3, classes, channels)


def resnet32() -> tuple[nn.Module, tuple[float, ...], tuple[float, ...]]:
    """The CIFAR-10 ResNet-32 (0.46 million parameters) with the mean and deviation of ImageNet's pixels."""
    return CifarResNet(blocks=5), IMAGENET_MEAN, IMAGENET_STD


def resnet56(channels: int = 3, size: int = 32, classes: int = 10) -> CifarResNet:
    """ResNet-56 of He et al. for CIFAR-10: the network of UAR's references."""
    return CifarResNet(9, classes, channels)


def _projection(channels_in: int, channels: int, stride: int) -> nn.Module:
    if stride == 1 and channels_in == channels:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))


class _Basic(nn.Module):
    """Two 3x3 convolutions; 1x1 convolution in the shortcut where the shape changes."""

    expansion = 1

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = _projection(channels_in, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(residual + self.shortcut(x))


class _Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride) and 1x1 convolutions, four times as many channels at the end."""

    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, 4 * channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * channels)
        self.shortcut = _projection(channels_in, 4 * channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(inner)) + self.shortcut(x))


def _stage(block: type[_Basic] | type[_Bottleneck], before: int, width: int, count: int, stride: int) -> nn.Sequential:
    after = width * block.expansion
    return nn.Sequential(block(before, width, stride), *(block(after, width, 1) for _ in range(count - 1)))


class ResNet(nn.Module):
    """The ImageNet networks of He et al. (2016) with a 3x3 stem and no pooling, as used on 32x32 images; ``blocks`` per
    stage of 64, 128, 256 and 512 channels."""

    def __init__(
        self,
        block: type[_Basic] | type[_Bottleneck],
        blocks: tuple[int, int, int, int],
        classes: int = 10,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(block, 64, 64, blocks[0], 1)
        self.layer2 = _stage(block, 64 * block.expansion, 128, blocks[1], 2)
        self.layer3 = _stage(block, 128 * block.expansion, 256, blocks[2], 2)
        self.layer4 = _stage(block, 256 * block.expansion, 512, blocks[3], 2)
        self.linear = nn.Linear(512 * block.expansion, classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def resnet18(channels: int = 3, size: int = 32, classes: int = 10) -> ResNet:
    """ResNet-18 for CIFAR-10, 11,173,962 parameters: the network of MultiRobustBench's references."""
    return ResNet(_Basic, (2, 2, 2, 2), classes, channels)


def resnet50(channels: int = 3, size: int = 32, classes: int = 10) -> ResNet:
    """ResNet-50 for CIFAR-10, 23,520,842 parameters."""
    return ResNet(_Bottleneck, (3, 4, 6, 3), classes, channels)


def resnet34(channels: int = 3, size: int = 32, classes: int = 10) -> ResNet:
    """ResNet-34 for CIFAR-10, 21,282,122 parameters."""
    return ResNet(_Basic, (3, 4, 6, 3), classes, channels)


def resnet101(channels: int = 3, size: int = 32, classes: int = 10) -> ResNet:
    """ResNet-101 for CIFAR-10, 42,512,970 parameters."""
    return ResNet(_Bottleneck, (3, 4, 23, 3), classes, channels)
