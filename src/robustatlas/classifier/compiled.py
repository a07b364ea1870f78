"""A network compiled for the search, and the network itself where that cannot be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.errors import first_line, warn


class Compiled:
    """``net`` through ``torch.compile``: its kernels fused, its convolutions in the layout that the compiler chooses.

    Compiled once for batches of every size, at the first batch. Where that fails the network itself answers, now and
    from then on, and a warning says so. So it does while someone listens to its modules by hooks, which a compiled
    network does not call.

    Example:
        >>> import warnings
        >>> net = Compiled(nn.Linear(4, 3))
        >>> net.compiled = lambda x: 1 / 0
        >>> with warnings.catch_warnings(record=True) as said:
        ...     net(torch.rand(2, 4)).shape, len(said)
        (torch.Size([2, 3]), 1)
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.compiled: Callable[[Tensor], Any] | None = torch.compile(net, dynamic=True)

    def __call__(self, x: Tensor) -> Any:
        """What the network returns for a batch."""
        if self.compiled is None or any(module._forward_hooks for module in self.net.modules()):
            return self.net(x)
        try:
            return self.compiled(x)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            answer = self.net(x)  # raises where the fault is the network's
            self.compiled = None
            warn(f"The model could not be compiled ({first_line(error)}); the search goes on without.")
            return answer
