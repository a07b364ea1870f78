"""What a threat model is: a parameterised family of nested sets of perturbed inputs."""

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


def beyond_images(name: str, size: float, threat: ThreatModel, x: Tensor, unit: str = "") -> str:
    """What is wrong with a ``size`` of ``threat`` that images shaped like ``x`` [B, ...] cannot differ by.

    Args:
        name: of the attack.
        size: of its changes.
        threat: its threat model.
        x: images.
        unit: of the size, in words.

    Example:
        >>> import torch
        >>> from robustatlas.threats.lp import Linf
        >>> beyond_images("linf", 8.0, Linf(), torch.zeros(1, 4), "change of a pixel value")
        'linf=8 is not a strength for images in [0, 1], which differ by at most 1 (change of a pixel value); for 8 of \
255 give 8/255.'
    """
    most = threat.most(x)
    if falling_scale_start(name) is not None:
        return (
            f"{name}={format_strength(size, attack=name)} is not a strength; give at least "
            f"{format_strength(most, attack=name)}."
        )
    of_255 = threat.in_pixels and 2 * most <= size < 255 * most
    remedy = f"for {size:g} of 255 give {size:g}/255" if of_255 else f"give at most {most:.4g}"
    at_most = f"{most:.4g}{f' ({unit})' if unit else ''}"
    return f"{name}={size:g} is not a strength for images in [0, 1], which differ by at most {at_most}; {remedy}."


class ThreatModel(ABC):
    """A family of sets around an input, in terms of a parameter theta.

    Shapes: ``x`` is ``[B, ...]`` in [0, 1], ``epsilon`` is ``[B]``, one strength per sample. ``theta`` holds all that
    belongs to a sample: a tensor ``[B, ...]`` like ``x`` in dtype and device, or a tree of such tensors (see
    :mod:`robustatlas.common.bundle`). What is drawn once and never optimised is
    :class:`~robustatlas.common.bundle.Fixed` in it.

    Every method treats samples independently of the rest of the batch. Implementations are immutable (frozen
    dataclasses) and hold settings only. None of these methods but :meth:`apply` needs a gradient.

    Example:
        >>> import torch
        >>> from robustatlas.threats.lp import Linf
        >>> x, theta = torch.full((1, 4), 0.5), torch.tensor([[0.3, -0.1, 0.0, 0.2]])
        >>> inside = Linf().project(x, theta, epsilon=torch.tensor([0.2]))
        >>> Linf().apply(x, inside), Linf().size(x, inside)
        (tensor([[0.7000, 0.4000, 0.5000, 0.7000]]), tensor([0.2000]))
    """

    additive: ClassVar[bool] = False
    """theta is the change of the input itself, a tensor shaped like it: ``apply`` is x + theta in [0, 1]."""
    levels: ClassVar[tuple[float, ...]] = ()
    """The only strengths that there are; empty: every positive number is one."""
    optimised: ClassVar[bool] = True
    """Something of theta is not :class:`~robustatlas.common.bundle.Fixed`."""

    in_pixels: ClassVar[bool] = False
    """Its size is in pixel values, of 8-bit images in parts of 255."""
    largest_size: ClassVar[float] = math.inf
    """:meth:`most` of all images, where it is the same."""

    @property
    def has_whole_sizes(self) -> bool:
        """Sizes are said in whole numbers, such as pixels: strengths between them are looked at where they are asked
        for."""
        return False

    @property
    def chooses(self) -> bool:
        """What is drawn and never optimised is chosen among several draws, by :meth:`choose`, for each run that begins
        elsewhere than at an example."""
        return False

    def check(self, x: Tensor) -> None:
        """Raise :class:`UnsupportedInputError`, in one clear sentence, where ``x`` does not fit (channels, size)."""

    def bound_to(self, model: Classifier) -> ThreatModel:
        """The threat model for attacks on ``model``; another one only where the set depends on the model."""
        return self

    def for_data(self, first: Tensor) -> ThreatModel:
        """The threat model for data that begin with ``first`` [M, ...]; another one where the set depends on them."""
        return self

    def most(self, x: Tensor) -> float:
        """The size from which on the sets around inputs shaped like ``x`` [B, ...] grow no more, or hold what is no
        change of an image in [0, 1] any more; inf where there is no such size."""
        return self.largest_size

    @abstractmethod
    def neutral(self, x: Tensor) -> Tree:
        """The theta that leaves ``x`` as it is."""

    @abstractmethod
    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tree:
        """A random theta of the set of size ``epsilon``."""

    def typical(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tree:
        """A theta as it comes up where nobody looks for the worst; by default a :meth:`start`."""
        return self.start(x, epsilon, noise)

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> Tree:
        """The :meth:`neutral` theta, with the most promising of several draws as what is never optimised in it.

        The draws have the support of those of :meth:`start`; ``gradient``, shaped like ``x``, is that of the run's
        objective at the clean input, by which they are compared.
        """
        return self.neutral(x)

    @abstractmethod
    def apply(self, x: Tensor, theta: Tree) -> Tensor:
        """The perturbed input, shaped like ``x``, in [0, 1]; differentiable in ``theta``."""

    @abstractmethod
    def project(self, x: Tensor, theta: Tree, epsilon: Tensor) -> Tree:
        """A point of the set of size ``epsilon`` near ``theta``; points of the set stay where they are."""

    @abstractmethod
    def steepest(self, x: Tensor, gradient: Tree) -> Tree:
        """Ascent direction for the ``gradient`` of an objective with respect to theta, built like theta.

        Scaled so that a step of length ``epsilon`` crosses the set from its centre to its border.
        """

    @abstractmethod
    def size(self, x: Tensor, theta: Tree) -> Tensor:
        """``[B]``: the smallest epsilon whose set contains ``theta``."""

    def reference(self, x: Tensor) -> Tree:
        """What sizes are measured from where that is not ``x`` itself, a row per sample: computed once for a run."""
        return ()

    @contextmanager
    def measuring(self, model: Classifier, reference: Tree) -> Iterator[Callable[[Tensor, Tree], Tensor]]:
        """Yields what measures the thetas that ``model`` is run at inside, like :meth:`size`.

        A size that the model's own pass nearly gives may look at it, and be differentiable in theta.
        """
        yield self.size

    def move(self, x: Tensor, theta: Tree, direction: Tree, length: Tensor) -> Tree:
        """Theta after a step of ``length`` [B] along ``direction`` (before :meth:`project`)."""
        return map_tensors(lambda at, along: (per_sample(length, at) * along).add_(at), theta, direction)


class EachBounded(ThreatModel):
    """A threat model that bounds every number of theta by itself: the steepest direction is that of the signs."""

    def steepest(self, x: Tensor, gradient: Tree) -> Tree:
        return map_tensors(torch.sign, gradient)
