"""How many channels a network takes."""

from typing import Any

from torch import nn

_IMAGES = 4
"""Sides of a batch of images."""


def channels_taken(net: Any) -> int | None:
    """Channels of images that a network takes, by its first convolution or its ``shape`` [B, C, H, W]; None: unknown.

    >>> channels_taken(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())), channels_taken(nn.Linear(4, 2)) is None
    (3, True)
    """
    modules = net.modules() if isinstance(net, nn.Module) else ()
    for module in modules:
        if isinstance(module, nn.Conv2d):
            return module.in_channels
    shape = getattr(net, "shape", ())
    return shape[1] or None if isinstance(shape, tuple) and len(shape) == _IMAGES else None
