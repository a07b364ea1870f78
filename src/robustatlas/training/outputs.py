"""What is trained of networks that return more than logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import warn
from robustatlas.models.classifier.outputs import logits_in


@contextmanager
def logits_alone(net: nn.Module) -> Iterator[None]:
    """Inside, ``net`` returns its logits [B, C] and nothing else: neither auxiliary heads, which a warning names once,
    nor a batch of one image without its dimension.

    Example:
        >>> class Pair(nn.Module):
        ...     def forward(self, x):
        ...         return x, "more"
        >>> with logits_alone(net := Pair()):
        ...     net(torch.zeros(2, 3)).shape
        torch.Size([2, 3])
    """
    told = False

    def first(module: nn.Module, given: tuple[Any, ...], output: Any) -> Tensor | None:
        nonlocal told
        if isinstance(output, Tensor) and output.dim() > 1:
            return None
        parts = [part for part in output if isinstance(part, Tensor)] if isinstance(output, (tuple, list)) else []
        if len(parts) > 1 and not told:
            told = True
            warn(
                f"The network returns {len(parts)} tensors while it is trained, of which the logits alone are trained: "
                "auxiliary heads have no part in the loss."
            )
        return logits_in(output, len(given[0]))

    if isinstance(net, torch.jit.ScriptModule):  # takes no hooks, and returns what it declares
        yield
        return
    handle = net.register_forward_hook(first)
    try:
        yield
    finally:
        handle.remove()
