"""Small networks without normalisation layers: images in [0, 1] to logits."""

import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.common.errors import UserError


def digits_cnn(channels: int = 1, size: int = 8, classes: int = 10) -> nn.Sequential:
    """Two convolutions and two linear layers; 21,706 parameters for 8x8 grey images."""
    side = (size + 1) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * side * side, 48),
        nn.ReLU(),
        nn.Linear(48, classes),
    )


class SmallCNN(nn.Module):
    """Two strided 4x4 convolutions (16 and 32 channels) and two linear layers (100 units): the network of Wong and
    Kolter (2018), and of the robustness curves of Göpfert et al. (2020).

    166,406 parameters for 28x28 grey images, 214,918 for 32x32 colour images.
    """

    def __init__(self, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 4, stride=2, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 4, stride=2, padding=1)
        self.fc1 = nn.Linear(32 * (size // 4) ** 2, 100)
        self.fc2 = nn.Linear(100, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        logits: Tensor = self.fc2(F.relu(self.fc1(x.flatten(1))))
        return logits


def small_cnn(channels: int = 1, size: int = 28, classes: int = 10) -> SmallCNN:
    """:class:`SmallCNN`, for images in [0, 1]."""
    return SmallCNN(channels, size, classes)


def trades_cnn(channels: int = 1, size: int = 28, classes: int = 10) -> nn.Sequential:
    """The SmallCNN of TRADES (Zhang et al. 2019): four 3x3 convolutions without padding, three linear layers.

    Dropout of one half after the first linear layer; the last one begins at zero. 312,202 parameters for 28x28 grey.
    """
    side = ((size - 4) // 2 - 4) // 2
    if side < 1:
        raise UserError(f"trades-cnn needs images of at least 16x16 pixels, got {size}x{size}; use small-cnn.")
    last = nn.Linear(200, classes)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * side * side, 200),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(200, 200),
        nn.ReLU(),
        last,
    )
