"""Threat models: parameterised families of nested sets of perturbed inputs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, map_tensors, per_sample
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.common.typed_strengths import falling_scale_start, format_strength

if TYPE_CHECKING:
    from robustatlas.models.classifier import Classifier


class UnsupportedInputError(UserError):
    """The images do not fit the threat model (for instance grey images for a colour attack)."""


def oversize_message(name: str, size: float, threat: ThreatModel, x: Tensor, unit: str = "") -> str:
    """Return the message about a ``size`` that is larger than images shaped like ``x`` [B, ...] can differ by.

    Args:
        name: of the attack.
        size: of its changes.
        threat: its threat model.
        x: images.
        unit: of the size, in words.

    Example:
        >>> import torch
        >>> from robustatlas.threats.lp import Linf
        >>> oversize_message("linf", 8.0, Linf(), torch.zeros(1, 4), "change of a pixel value")
        'linf=8 is not a strength for images in [0, 1], which differ by at most 1 (change of a pixel value); for 8 of \
255 give 8/255.'
    """
    largest = threat.max_size(x)
    if falling_scale_start(name) is not None:
        return (
            f"{name}={format_strength(size, attack=name)} is not a strength; give at least "
            f"{format_strength(largest, attack=name)}."
        )
    of_255 = threat.in_pixels and 2 * largest <= size < 255 * largest
    remedy = f"for {size:g} of 255 give {size:g}/255" if of_255 else f"give at most {largest:.4g}"
    at_most = f"{largest:.4g}{f' ({unit})' if unit else ''}"
    return f"{name}={size:g} is not a strength for images in [0, 1], which differ by at most {at_most}; {remedy}."


class ThreatModel(ABC):
    """Base of families of sets around an input, described by a parameter theta.

    Shapes: ``x`` is ``[B, ...]`` in [0, 1], ``epsilon`` is ``[B]``, one strength per sample. ``theta`` contains all
    parameters of a sample: a tensor ``[B, ...]`` like ``x`` in dtype and device, or a tree of such tensors (see
    :mod:`robustatlas.common.bundle`). Parameters that are drawn once and never optimised are
    :class:`~robustatlas.common.bundle.Fixed`.

    Every method treats samples independently of the rest of the batch. Implementations are frozen
    dataclasses whose fields are settings. Only :meth:`apply` must be differentiable.

    Example:
        >>> import torch
        >>> from robustatlas.threats.lp import Linf
        >>> x, theta = torch.full((1, 4), 0.5), torch.tensor([[0.3, -0.1, 0.0, 0.2]])
        >>> inside = Linf().project(x, theta, epsilon=torch.tensor([0.2]))
        >>> Linf().apply(x, inside), Linf().size(x, inside)
        (tensor([[0.7000, 0.4000, 0.5000, 0.7000]]), tensor([0.2000]))
    """

    additive: ClassVar[bool] = False
    """True if theta is the change of the input, shaped like it: ``apply`` is x + theta in [0, 1]."""
    levels: ClassVar[tuple[float, ...]] = ()
    """All allowed strengths; empty: every positive number is allowed."""
    optimised: ClassVar[bool] = True
    """False if all parameters are :class:`~robustatlas.common.bundle.Fixed`, so that nothing is optimised."""

    in_pixels: ClassVar[bool] = False
    """True if the size is a pixel value, which 8-bit images give in parts of 255."""
    largest_size: ClassVar[float] = math.inf
    """Result of :meth:`max_size`, if it is the same for all images."""

    @property
    def has_whole_sizes(self) -> bool:
        """True if sizes are reported as integers, such as pixels; other strengths are evaluated only on request."""
        return False

    @property
    def chooses(self) -> bool:
        """True if :meth:`choose` selects the parameters that are not optimised among several draws.

        It is called for each run that does not begin at an adversarial example.
        """
        return False

    def check(self, x: Tensor) -> None:
        """Raise :class:`UnsupportedInputError` if ``x`` does not fit the threat model (channels, size)."""

    def for_model(self, model: Classifier) -> ThreatModel:
        """Return the threat model for attacks on ``model``: ``self``, unless the set depends on the model."""
        return self

    def for_data(self, first: Tensor) -> ThreatModel:
        """Return the threat model for data that begin with ``first`` [M, ...]: ``self``, unless the set depends on
        them.
        """
        return self

    def max_size(self, x: Tensor) -> float:
        """Return the largest meaningful size for inputs shaped like ``x`` [B, ...], or inf.

        Sets of larger size contain no further images in [0, 1].
        """
        return self.largest_size

    @abstractmethod
    def neutral(self, x: Tensor) -> Tree:
        """Return the theta that does not change ``x``."""

    @abstractmethod
    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tree:
        """Return a random theta of the set of size ``epsilon``."""

    def typical(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tree:
        """Return a theta as it occurs without an adversary; default: a :meth:`start`."""
        return self.start(x, epsilon, noise)

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> Tree:
        """Return the :meth:`neutral` theta with the most promising of several draws of its fixed parameters.

        The draws have the same support as those of :meth:`start`. They are compared by ``gradient``, shaped like ``x``:
        the gradient of the run's objective at the clean input.
        """
        return self.neutral(x)

    @abstractmethod
    def apply(self, x: Tensor, theta: Tree) -> Tensor:
        """Return the perturbed input in [0, 1], shaped like ``x``; differentiable in ``theta``."""

    @abstractmethod
    def project(self, x: Tensor, theta: Tree, epsilon: Tensor) -> Tree:
        """Return a point of the set of size ``epsilon`` near ``theta``; points of the set are not moved."""

    @abstractmethod
    def steepest(self, x: Tensor, gradient: Tree) -> Tree:
        """Return the ascent direction for the ``gradient`` of an objective with respect to theta, structured like it.

        It is scaled so that a step of length ``epsilon`` crosses the set from its centre to its border.
        """

    @abstractmethod
    def size(self, x: Tensor, theta: Tree) -> Tensor:
        """Return ``[B]``: the smallest epsilon whose set contains ``theta``."""

    def reference(self, x: Tensor) -> Tree:
        """Return data of ``x`` that :meth:`measuring` reuses, one row per sample; computed once for a run."""
        return ()

    @contextmanager
    def measuring(self, model: Classifier, reference: Tree) -> Iterator[Callable[[Tensor, Tree], Tensor]]:
        """Yield a function like :meth:`size` for thetas at which ``model`` was just evaluated in this context.

        It may reuse activations of that forward pass, and may be differentiable in theta.
        """
        yield self.size

    def move(self, x: Tensor, theta: Tree, direction: Tree, length: Tensor) -> Tree:
        """Return theta after a step of ``length`` [B] along ``direction``, before :meth:`project`."""
        return map_tensors(lambda at, along: (per_sample(length, at) * along).add_(at), theta, direction)


class EachBounded(ThreatModel):
    """Base of threat models that bound each number of theta separately: the steepest direction is the sign."""

    def steepest(self, x: Tensor, gradient: Tree) -> Tree:
        return map_tensors(torch.sign, gradient)
