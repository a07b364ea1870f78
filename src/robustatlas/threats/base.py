"""What a threat model is: a parameterised family of nested sets of perturbed inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor

from robustatlas.errors import UserError
from robustatlas.noise import Noise

if TYPE_CHECKING:
    from robustatlas.classifier import Classifier


class UnsupportedInputError(UserError):
    """The images do not fit the threat model (for instance grey images for a colour attack)."""


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """``values`` [B] shaped to broadcast against ``like`` [B, ...]."""
    return values.view(-1, *(1,) * (like.dim() - 1))


class ThreatModel(ABC):
    """A family of sets around an input, in terms of a parameter theta.

    Shapes: ``x`` is ``[B, ...]`` in [0, 1]; ``theta`` is one tensor ``[B, ...]`` like ``x`` in dtype and device; it
    holds all that belongs to a sample (numbers drawn once and never optimised too: :meth:`steepest` is zero there);
    ``epsilon`` is ``[B]``, one strength per sample. Every method treats samples independently of the rest of the batch.
    Implementations are immutable (frozen dataclasses), hold settings only, and none of these methods but
    :meth:`apply` needs a gradient.
    """

    def check(self, x: Tensor) -> None:
        """Raise :class:`UnsupportedInputError`, in one clear sentence, where ``x`` does not fit (channels, size)."""

    def bound_to(self, model: Classifier) -> ThreatModel:
        """The threat model for attacks on ``model``; another one only where the set depends on the model."""
        return self

    @abstractmethod
    def neutral(self, x: Tensor) -> Tensor:
        """The theta that leaves ``x`` as it is."""

    @abstractmethod
    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """A random theta of the set of size ``epsilon``."""

    @abstractmethod
    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        """The perturbed input, shaped like ``x``, in [0, 1]; differentiable in ``theta``."""

    @abstractmethod
    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        """A point of the set of size ``epsilon`` near ``theta``; points of the set stay where they are."""

    @abstractmethod
    def steepest(self, gradient: Tensor) -> Tensor:
        """Ascent direction for the ``gradient`` [B, ...] of an objective with respect to theta.

        Scaled so that a step of length ``epsilon`` crosses the set from its centre to its border.
        """

    @abstractmethod
    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        """``[B]``: the smallest epsilon whose set contains ``theta``."""

    def move(self, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """Theta after a step of ``length`` [B] along ``direction`` (before :meth:`project`)."""
        return theta + per_sample(length, theta) * direction
