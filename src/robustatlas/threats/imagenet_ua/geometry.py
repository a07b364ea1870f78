"""Sets of latent numbers: boxes and Euclidean balls around 0."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import flatten, per_sample
from robustatlas.common.noise import Noise

_TINY = 1e-12


def euclidean_norms(latent: Tensor) -> Tensor:
    """Return ``[B]``: the Euclidean norms."""
    norms: Tensor = flatten(latent).norm(dim=1)
    return norms


def shrink(latent: Tensor, epsilon: Tensor) -> Tensor:
    """Return ``latent``, scaled to a norm of ``epsilon`` [B] if it is longer."""
    factor = (epsilon / euclidean_norms(latent).clamp_min(_TINY)).clamp_max(1)
    return latent * per_sample(factor, latent)


class Geometry(ABC):
    """Base of families of nested sets around 0."""

    @abstractmethod
    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        """Return ``[B, *shape]``: a random point of the set of size ``epsilon`` [B]."""

    @abstractmethod
    def project(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        """Return a point of the set near ``latent``."""

    @abstractmethod
    def direction(self, gradient: Tensor) -> Tensor:
        """Return the direction of steepest ascent; a step of length epsilon goes from 0 to the border."""

    @abstractmethod
    def size(self, latent: Tensor) -> Tensor:
        """Return ``[B]``: the smallest epsilon whose set contains ``latent``."""

    def step(self, latent: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """Return ``latent`` after a step of ``length`` [B]."""
        return latent + per_sample(length, direction) * direction


@dataclass(frozen=True)
class Rectangle(Geometry):
    """Box [-epsilon, epsilon], or [0, epsilon] if ``positive``; no number is larger than ``most``."""

    positive: bool = False
    most: float = torch.inf

    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        unit = (
            noise.uniform(*shape, dtype=epsilon.dtype)
            if self.positive
            else noise.symmetric(*shape, dtype=epsilon.dtype)
        )
        return unit * per_sample(epsilon.clamp_max(self.most), unit)

    def project(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        bound = per_sample(epsilon.clamp_max(self.most), latent)
        return torch.minimum(torch.maximum(latent, torch.zeros_like(bound) if self.positive else -bound), bound)

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def size(self, latent: Tensor) -> Tensor:
        return flatten(latent).abs().amax(1)


@dataclass(frozen=True)
class EuclideanBall(Geometry):
    """Euclidean ball of radius epsilon, without negative numbers if ``positive``; no number is larger than ``most``."""

    positive: bool = False
    most: float = torch.inf

    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        """Return points uniform in direction and norm; uniform points of a ball would all lie near its border."""
        normal = noise.child(0).normal(*shape, dtype=epsilon.dtype)
        normal = normal.abs() if self.positive else normal
        radius = epsilon * noise.child(1).uniform(dtype=epsilon.dtype)
        return self.project(normal * per_sample(radius / euclidean_norms(normal).clamp_min(_TINY), normal), epsilon)

    def project(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        if self.positive or self.most < torch.inf:
            latent = latent.clamp(0 if self.positive else -self.most, self.most)
        return shrink(latent, epsilon)

    def direction(self, gradient: Tensor) -> Tensor:
        """Return the gradient, scaled; where only positive numbers are allowed, its positive part has length 1."""
        length = euclidean_norms(gradient)
        if self.positive:
            rising = euclidean_norms(gradient.clamp_min(0))
            length = torch.where(rising > 0, rising, length)
        return gradient / per_sample(length.clamp_min(_TINY), gradient)

    def size(self, latent: Tensor) -> Tensor:
        return euclidean_norms(latent)


SIGNED = Rectangle()
POSITIVE = Rectangle(positive=True)
BALL = EuclideanBall()
POSITIVE_BALL = EuclideanBall(positive=True)
