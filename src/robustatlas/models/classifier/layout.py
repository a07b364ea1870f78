"""Images channels-last, on which convolutions are faster in half precision and on a processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class ChannelsLast:
    """``net`` on batches of images [B, C, H, W] whose channels are next to each other in memory; others as they are.

    A network that takes them apart by ``view`` cannot do that; it gets its images as they are from then on.

    Example:
        >>> net = ChannelsLast(lambda x: x.view(len(x), -1))
        >>> net(torch.rand(2, 3, 4, 4)).shape, net.fits
        (torch.Size([2, 48]), False)
    """

    def __init__(self, net: Callable[[Tensor], Any]) -> None:
        self.net, self.fits = net, True

    def __call__(self, x: Tensor) -> Any:
        """What the network returns for a batch."""
        if not self.fits or x.dim() != 4:
            return self.net(x)
        try:
            return self.net(x.contiguous(memory_format=torch.channels_last))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            answer = self.net(x)  # raises where the fault is not the layout's
            self.fits = False
            return answer
