"""Defenses by input transformation, and a network behind some of them."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from robustatlas.models.classifier.backward import (
    Backward,
    check_transformation_backward,
    going_back,
    transformation_backward,
)
from robustatlas.models.gradients import straight_through, surrogate


class Transformation(nn.Module, ABC):
    """Images in [0, 1] to images in [0, 1] of the same shape; base of all such defenses.

    The values are always those of :meth:`exact`. What an attack gets as its gradient is chosen by ``backward``, or by
    the attack itself (the suite ``input-transformation`` tries all of them).

    Args:
        backward: ``"identity"`` (default), ``"surrogate"``, or ``"true"``, which for rounding is zero: attacks then
            stall in front of the defense, and its robustness is only apparent.

    Example:
        >>> import torch
        >>> from robustatlas.models.defenses import BitDepthReduction
        >>> x = torch.tensor([0.3], requires_grad=True)
        >>> for backward in ("true", "identity", "surrogate"):
        ...     y = BitDepthReduction(2, backward=backward)(x)
        ...     print(f"{y.item():.2f} {torch.autograd.grad(y.sum(), x)[0].item():.2f}")
        0.33 0.00
        0.33 1.00
        0.33 0.27
    """

    def __init__(self, backward: Backward = "identity") -> None:
        super().__init__()
        check_transformation_backward(backward)
        self.backward = backward

    @abstractmethod
    def exact(self, x: Tensor) -> Tensor:
        """Return the transformed ``x``, ``[B, ...]`` to ``[B, ...]``."""

    @abstractmethod
    def smooth(self, x: Tensor) -> Tensor:
        """Return a differentiable stand-in of the same shape, for gradients."""

    def forward(self, x: Tensor) -> Tensor:
        """Return :meth:`exact` with the gradient that is asked for."""
        backward = transformation_backward(self.backward)
        if backward == "true":
            return self.exact(x)
        if backward == "surrogate":
            return surrogate(self.exact, self.smooth)(x)
        return straight_through(self.exact)(x)


class Defended(nn.Module):
    """A network behind input transformations, from which attacks can also take the gradient of the network alone.

    ``nn.Sequential(transformation, net)`` computes the same; there ``"bare"`` is taken for ``"identity"``.

    Args:
        net: images in [0, 1] to logits.
        transformations: in the order in which they are applied.
        backward: see :class:`Transformation`, and ``"bare"``: gradients of ``net`` at the untransformed input. None:
            what each transformation says.

    Example:
        >>> import torch
        >>> from robustatlas.models.defenses import BitDepthReduction, MedianSmoothing
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> Defended(net, BitDepthReduction(4), MedianSmoothing(3))(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(self, net: nn.Module, *transformations: nn.Module, backward: Backward | None = None) -> None:
        super().__init__()
        check_transformation_backward(backward)
        self.transformations = nn.Sequential(*transformations)
        self.net = net
        self.backward = backward

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[B, C]`` of the transformed ``x`` ``[B, ...]``, whatever the gradient."""
        backward = transformation_backward(self.backward)
        if backward == "bare":
            return surrogate(self._transformed_logits, self.net)(x)
        with going_back(backward):
            return self._transformed_logits(x)

    def _transformed_logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(self.transformations(x))
        return logits
