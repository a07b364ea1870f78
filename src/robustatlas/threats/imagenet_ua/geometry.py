"""The sets that latent numbers lie in: boxes and Euclidean balls around 0."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import flatten, per_sample
from robustatlas.common.noise import Noise

_TINY = 1e-12


def lengths(latent: Tensor) -> Tensor:
    """``[B]``: the Euclidean norms."""
    norms: Tensor = flatten(latent).norm(dim=1)
    return norms


def shrunk(latent: Tensor, epsilon: Tensor) -> Tensor:
    """``latent`` scaled to a norm of ``epsilon`` [B] where it is longer."""
    factor = (epsilon / lengths(latent).clamp_min(_TINY)).clamp_max(1)
    return latent * per_sample(factor, latent)


class Geometry(ABC):
    """A family of nested sets around 0."""

    @abstractmethod
    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        """``[B, *shape]``: a random point of the set of size ``epsilon`` [B]."""

    @abstractmethod
    def within(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        """A point of the set near ``latent``."""

    @abstractmethod
    def direction(self, gradient: Tensor) -> Tensor:
        """Steepest ascent; a step of length epsilon goes from 0 to the border."""

    @abstractmethod
    def size(self, latent: Tensor) -> Tensor:
        """``[B]``: the smallest epsilon whose set contains ``latent``."""

    def moved(self, latent: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """``latent`` after a step of ``length`` [B]."""
        return latent + per_sample(length, direction) * direction


@dataclass(frozen=True)
class Rectangle(Geometry):
    """Every number in [-epsilon, epsilon]; ``positive``: in [0, epsilon]. None is larger than ``most``."""

    positive: bool = False
    most: float = torch.inf

    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        unit = (
            noise.uniform(*shape, dtype=epsilon.dtype)
            if self.positive
            else noise.symmetric(*shape, dtype=epsilon.dtype)
        )
        return unit * per_sample(epsilon.clamp_max(self.most), unit)

    def within(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        bound = per_sample(epsilon.clamp_max(self.most), latent)
        return torch.minimum(torch.maximum(latent, torch.zeros_like(bound) if self.positive else -bound), bound)

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def size(self, latent: Tensor) -> Tensor:
        return flatten(latent).abs().amax(1)


@dataclass(frozen=True)
class EuclideanBall(Geometry):
    """Euclidean norm at most epsilon; ``positive``: no number below 0. None is larger than ``most``."""

    positive: bool = False
    most: float = torch.inf

    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        """Uniform in direction, and in the norm (a uniform point of the ball lies at its border)."""
        normal = noise.child(0).normal(*shape, dtype=epsilon.dtype)
        normal = normal.abs() if self.positive else normal
        radius = epsilon * noise.child(1).uniform(dtype=epsilon.dtype)
        return self.within(normal * per_sample(radius / lengths(normal).clamp_min(_TINY), normal), epsilon)

    def within(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        if self.positive or self.most < torch.inf:
            latent = latent.clamp(0 if self.positive else -self.most, self.most)
        return shrunk(latent, epsilon)

    def direction(self, gradient: Tensor) -> Tensor:
        """The gradient, scaled; where only positive numbers are allowed, its positive part has length 1."""
        length = lengths(gradient)
        if self.positive:
            rising = lengths(gradient.clamp_min(0))
            length = torch.where(rising > 0, rising, length)
        return gradient / per_sample(length.clamp_min(_TINY), gradient)

    def size(self, latent: Tensor) -> Tensor:
        return lengths(latent)


SIGNED = Rectangle()
POSITIVE = Rectangle(positive=True)
BALL = EuclideanBall()
POSITIVE_BALL = EuclideanBall(positive=True)
