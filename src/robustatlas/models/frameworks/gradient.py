"""Functions of any framework that come with their gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from robustatlas.common.errors import UserError, first_line
from robustatlas.models.classifier import Classifier, Outputs
from robustatlas.models.classifier.network import Given

Pullback = Callable[[Tensor], Any]
Pullbacks = Callable[[Tensor], tuple[Any, Pullback]]

SIZES = (8, 32, 128, 256)
"""Sizes of batch that functions of other frameworks are compiled for: enough of them that filling up costs little, few
enough to compile, and none more as samples leave a batch."""


def from_gradient(
    forward: Callable[[Tensor], Any],
    vjp: Callable[[Tensor, Tensor], Any],
    mean: Given = None,
    std: Given = None,
    *,
    outputs: Outputs = "logits",
    batch_size: int | Sequence[int] | None = None,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    name: str | None = None,
) -> Classifier:
    """A model whose outputs and gradient are computed outside of torch.

    Args:
        forward: ``x`` [B, ...] in [0, 1] (less ``mean``, divided by ``std``) to logits [B, C].
        vjp: ``(x, weights)`` to the gradient of ``(forward(x) * weights).sum()`` with respect to ``x``, shaped like
            ``x``; ``weights`` is [B, C].
        mean, std, outputs, batch_size, dtype, name: see :class:`Classifier`.
        device: where the tensors handed to both lie.

    Both get tensors that carry no gradient (``x.numpy()``, or DLPack) and return tensors, NumPy arrays, or whatever
    offers DLPack.

    Returns:
        the model, which attacks ask for outputs and gradients as they ask a network of torch.

    Raises:
        UserError: later, when what they return has another shape than expected.

    Example:
        >>> weight = np.eye(3, 4, dtype=np.float32)
        >>> model = from_gradient(lambda x: x.numpy() @ weight.T, lambda x, weights: weights.numpy() @ weight)
        >>> x = torch.rand(2, 4, requires_grad=True)
        >>> torch.autograd.grad(model.logits(x)[:, 1].sum(), x)[0][0]
        tensor([0., 1., 0., 0.])
    """

    def with_pullback(x: Tensor) -> tuple[Any, Pullback]:
        return forward(x), lambda weights: vjp(x, weights)

    net = Foreign(forward, with_pullback)
    called = name or getattr(forward, "__name__", type(forward).__name__)
    return Classifier(net, mean, std, outputs=outputs, batch_size=batch_size, dtype=dtype, device=device, name=called)


class Foreign:
    """A function of tensors that is computed elsewhere: ``forward`` gives the outputs; ``with_pullback`` the outputs
    and what takes weights for them to the gradient."""

    def __init__(self, forward: Callable[[Tensor], Any], with_pullback: Pullbacks) -> None:
        self.forward, self.with_pullback = forward, with_pullback

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs, differentiable once."""
        if x.requires_grad and torch.is_grad_enabled():
            return _Foreign.apply(x, self.with_pullback)  # type: ignore[no-untyped-call,no-any-return]
        return as_tensor(self.forward(x.detach().contiguous()), x)


class _Foreign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, with_pullback: Pullbacks) -> Tensor:
        outputs, pullback = with_pullback(x.detach().contiguous())
        ctx.pullback, ctx.like = pullback, x.detach()
        return as_tensor(outputs, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None]:
        try:
            gradient = as_tensor(ctx.pullback(weights.contiguous()), ctx.like)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"The gradient of the model failed on a batch of shape {tuple(ctx.like.shape)}: {first_line(error)}."
            ) from error
        if gradient.shape != ctx.like.shape:
            raise UserError(
                f"The gradient of the model has shape {tuple(gradient.shape)}; expected that of its inputs, "
                f"{tuple(ctx.like.shape)}."
            )
        return gradient, None


def as_tensor(values: Any, like: Tensor) -> Tensor:
    """``values`` of any framework as a tensor on the device of ``like``; floating point in its dtype."""
    if isinstance(values, Tensor):
        tensor = values.detach()
    elif isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        tensor = torch.as_tensor(np.array(values))
    else:
        tensor = from_dlpack(values)
    return tensor.to(like.device, like.dtype if tensor.is_floating_point() else None)
