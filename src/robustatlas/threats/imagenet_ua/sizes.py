"""Settings that differ between CIFAR-10 and ImageNet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

LARGE = 85
"""Images whose shorter side has at least this many pixels use ImageNet's settings, smaller ones CIFAR-10's.

Settings are published for 32 and 224 pixels only, and 85 is their geometric mean.
"""

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class BySize(Generic[T]):
    """A setting for small images and for large ones.

    Example:
        >>> import torch
        >>> BySize(4, 16).value(torch.zeros(1, 3, 224, 224))
        16
    """

    small: T
    large: T

    def value(self, x: Tensor) -> T:
        """Return the setting for images ``x`` [B, C, H, W]."""
        return self.large if is_large(x.shape[2:]) else self.small


def is_large(sides: Sequence[int]) -> bool:
    """Return whether images of these sides have ImageNet's settings."""
    return min(sides) >= LARGE
