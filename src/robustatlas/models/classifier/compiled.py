"""A network compiled for the search, and the network itself where that cannot be done."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from robustatlas.common.errors import first_line, warn

SMALLEST = 64
"""Samples of the smallest batch of a fixed size; the others have twice as many as the one before."""


class CompiledNetwork:
    """``net`` through ``torch.compile``: its kernels fused, its convolutions in the layout that the compiler chooses.

    On a processor it is compiled once for batches of every size. On other devices (``fixed``) batches are filled up to
    one of a few sizes, so that steps can be recorded and played back. Where compiling fails the network itself answers
    from then on, and a warning says so. So it does while someone listens to its modules by hooks.
    """

    def __init__(self, net: nn.Module, fixed: bool | None = None) -> None:
        own = next(net.parameters(), None)
        self.net = net
        self.fixed = (own is not None and own.device.type != "cpu") if fixed is None else fixed
        copied = copy_without_gradients(net)
        self.compiled: Callable[[Tensor], Any] | None = torch.compile(copied, dynamic=not self.fixed)

    def __call__(self, x: Tensor) -> Any:
        """Return the output of the network for a batch."""
        if self.compiled is None or any(module._forward_hooks for module in self.net.modules()):
            return self.net(x)
        try:
            return self._filled_up(self.compiled, x) if self.fixed else self.compiled(x)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            answer = self.net(x)  # raises where the fault is the network's
            self.compiled = None
            warn(f"The model could not be compiled ({first_line(error)}); the search goes on without.")
            return answer

    @staticmethod
    def _filled_up(compiled: Callable[[Tensor], Any], x: Tensor) -> Any:
        size = batch_size_filled(len(x))
        filling = x[:1].detach().expand(size - len(x), *x.shape[1:])
        return tree_map(lambda given: given[: len(x)], compiled(torch.cat([x, filling])))


def batch_size_filled(count: int) -> int:
    """Return the size of the batch that ``count`` samples are filled up to."""
    return max(SMALLEST, 1 << (count - 1).bit_length())


def copy_without_gradients(net: nn.Module) -> nn.Module:
    """Return a copy of ``net`` in eval mode on the same weights, none of which asks for a gradient.

    An attack asks for the gradient of the input alone. A network that cannot be copied is returned itself.
    """
    kept = {id(weights): nn.Parameter(weights.detach(), requires_grad=False) for weights in net.parameters()}
    kept |= {id(values): values for values in net.buffers()}  # type: ignore[misc]
    try:
        return copy.deepcopy(net, dict(kept)).eval()
    except Exception:  # of whatever its modules hold
        return net


class ChannelsLast:
    """``net`` on batches of images [B, C, H, W] whose channels are next to each other in memory; others as they are.

    A network that takes them apart by ``view`` cannot do that; it gets its images as they are from then on.

    >>> net = ChannelsLast(lambda x: x.view(len(x), -1))
    >>> net(torch.rand(2, 3, 4, 4)).shape, net.fits
    (torch.Size([2, 48]), False)
    """

    def __init__(self, net: Callable[[Tensor], Any]) -> None:
        self.net, self.fits = net, True

    def __call__(self, x: Tensor) -> Any:
        """Return the output of the network for a batch."""
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
