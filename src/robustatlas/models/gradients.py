"""Gradients in place of those that a function does not have (BPDA: Athalye et al. 2018)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from robustatlas.common.errors import UserError

Function = Callable[[Tensor], Tensor]


def straight_through(function: Function) -> Function:
    """Return ``function`` with the gradient of the identity.

    It is for rounding, compressing and denoising, which hardly change the input but whose gradient is useless. Attacks
    then see through them instead of stalling in front.

    Args:
        function: a tensor to one of the same shape; it may leave torch meanwhile.

    Returns:
        a function with the values of ``function`` and the gradient of the identity.

    Raises:
        UserError: later, when it returns another shape (then see :func:`surrogate`).

    Example:
        >>> coarse = straight_through(lambda x: (x * 4).round() / 4)
        >>> x = torch.tensor([0.3], requires_grad=True)
        >>> y = coarse(x)
        >>> y.backward()
        >>> y.item(), x.grad.item()
        (0.25, 1.0)
    """
    return surrogate(function, lambda x: x)


def surrogate(function: Function, approximation: Function) -> Function:
    """Return ``function`` with the gradient of ``approximation``.

    Args:
        function: a tensor to a tensor, computed forward; it may leave torch meanwhile.
        approximation: differentiable, and returns the shape that ``function`` does.

    Returns:
        a function with the values of ``function`` and the gradient of ``approximation``.

    Raises:
        UserError: later, when their shapes differ.

    Example:
        >>> step = surrogate(lambda x: (x > 0.5).float(), lambda x: torch.sigmoid(10 * (x - 0.5)))
        >>> x = torch.tensor([0.5], requires_grad=True)
        >>> step(x).backward()
        >>> x.grad
        tensor([2.5000])
    """

    def combined(x: Tensor) -> Tensor:
        with torch.no_grad():
            exact = function(x.detach())
        if not (x.requires_grad and torch.is_grad_enabled()):
            return exact
        smooth = approximation(x)
        if smooth.shape != exact.shape:
            raise UserError(
                f"The function returns shape {tuple(exact.shape)}, and what stands for its gradient "
                f"{tuple(smooth.shape)}; expected the same. Give surrogate(function, approximation) an approximation "
                "of that shape."
            )
        replaced: Tensor = _Replaced.apply(smooth, exact.to(smooth.dtype))  # type: ignore[no-untyped-call]
        return replaced

    return combined


class _Replaced(torch.autograd.Function):
    """Returns the second argument; the gradient goes to the first."""

    @staticmethod
    def forward(ctx: Any, smooth: Tensor, exact: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None
