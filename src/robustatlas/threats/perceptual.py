"""Perceptual distance of images, and all images within such a distance (Laidlaw et al. 2021)."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast, get_args

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, per_sample, select
from robustatlas.common.errors import UserError
from robustatlas.common.host import is_sync_free
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.features import ActivationFeatures, Backbone, Features, load_features
from robustatlas.threats.lp import to_box

_START_DEVIATION = 0.01
_NEWTON_ROUNDS = 5
_USUAL_ROUNDS = 2  # that a full batch takes
_TRIALS = 12
_AIM = 0.995  # just inside of the border: the distance rounds, and rounds differently in another batch


class PerceptualDistance:
    """d(x, x') = ||phi(x) - phi(x')||_2, where phi are the activations of a network (Laidlaw et al. 2021, eq. 2).

    Each activation is normalised over its channels at every place and divided by the root of the number of places.

    Args:
        features: from images to activations, e.g. :class:`~robustatlas.threats.features.ActivationFeatures`.

    Example:
        >>> distance = PerceptualDistance(lambda x: [x])
        >>> x = torch.ones(1, 2, 4, 4)
        >>> distance(x, x), distance(x, torch.stack([x[:, 0], 0 * x[:, 0]], 1))
        (tensor([0.]), tensor([0.7654]))
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._last: tuple[weakref.ref[Tensor], int, Tensor] | None = None

    def on(self, device: torch.device) -> PerceptualDistance:
        """The same distance with its network on ``device``; features that are a plain function stay where they are."""
        if not isinstance(self.features, ActivationFeatures) or self.features.model.device == device:
            return self
        moved = copy.copy(self)
        moved.features, moved._last = self.features.on(device), None
        return moved

    def embed(self, x: Tensor) -> Tensor:
        """phi(x), ``[B, D]``; differentiable."""
        return _embedded(self.features(x))

    @contextmanager
    def of_passes(self, model: Classifier) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yields what embeds like :meth:`embed` the images of which ``model`` has just made a pass inside, without one
        of its own where the features are those of that very pass."""
        if not isinstance(self.features, ActivationFeatures) or type(self).embed is not PerceptualDistance.embed:
            yield self.embed
            return
        with self.features.of_passes(model) as activations:
            yield self.embed if activations is None else lambda x: _embedded(activations())

    def reference(self, x: Tensor) -> Tensor:
        """phi(x) without a gradient; remembered while one and the same tensor is asked for again."""
        if self._last is not None:
            remembered, version, embedded = self._last
            if remembered() is x and version == x._version:
                return embedded
        with torch.no_grad():
            embedded = self.embed(x)
        self._last = (weakref.ref(x), x._version, embedded)
        return embedded

    def __call__(self, x: Tensor, other: Tensor) -> Tensor:
        """``[B]``: the distance; differentiable in ``other``."""
        distance: Tensor = torch.linalg.vector_norm(self.embed(other) - self.reference(x), dim=1)
        return distance

    def to_record(self) -> dict[str, Any]:
        """What determines the distance, for the record of a run."""
        return {"features": self.features}

    def __repr__(self) -> str:
        return f"PerceptualDistance({self.features!r})"


def distance_by(features: str) -> PerceptualDistance:
    """The distance by a network of others, ``ARCHITECTURE=FILE`` such as ``alexnet=alexnet.pth``.

    Raises:
        UserError: not understood, or the file does not fit.

    Example:
        >>> distance_by("alexnet=nothing.pth")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: There is no weights file nothing.pth; give the path of a .safetensors ...
    """
    architecture, separator, file = features.partition("=")
    if not separator or not architecture or not file:
        raise UserError(
            f"The features {features!r} are not understood; expected ARCHITECTURE=FILE with one of "
            f"{', '.join(get_args(Backbone))}, such as alexnet=alexnet.pth."
        )
    return PerceptualDistance(load_features(cast(Backbone, architecture), file))


def _embedded(activations: Sequence[Tensor]) -> Tensor:
    return torch.cat([_normalised(activation) for activation in activations], 1)


def _normalised(activation: Tensor) -> Tensor:
    maps = activation.transpose(1, 2) if activation.dim() == 3 else activation
    maps = maps.flatten(2) if maps.dim() > 2 else maps[:, :, None]
    length: Tensor = torch.linalg.vector_norm(maps, dim=1, keepdim=True) + 1e-10
    return (maps / (length * math.sqrt(maps.shape[2]))).flatten(1)


def _unless_same(x: Tensor, other: Tensor, distance: Tensor) -> Tensor:
    """``distance`` [B] without what rounding makes of equal images."""
    same = (other == x).flatten(1).all(1)
    return distance.to(x.dtype).masked_fill(same, 0)


def small_noise(x: Tensor, noise: Noise) -> Tensor:
    """Normal noise like ``x`` with a standard deviation of .01: where Laidlaw et al. start."""
    return _START_DEVIATION * noise.normal(*x.shape[1:], dtype=x.dtype)


@dataclass(frozen=True)
class Perceptual(ThreatModel):
    """All images within a perceptual distance epsilon of ``x``; theta is the perturbation, shaped like ``x``.

    Without a ``distance`` the activations of the attacked network itself are compared: see :meth:`bound_to`.
    :meth:`project` takes Newton steps towards the border. Where these do not suffice it goes back on the line to ``x``,
    so its results are inside. After the usual rounds it looks whether all are, even on accelerators, since further
    passes take longer than that.
    """

    additive: ClassVar[bool] = True

    distance: PerceptualDistance | None = None

    def bound_to(self, model: Classifier) -> Perceptual:
        """The same threat model with its distance where ``model`` is, or else with ``model``'s own activations."""
        if self.distance is not None:
            there = self.distance.on(model.device)
            return self if there is self.distance else replace(self, distance=there)
        return replace(self, distance=PerceptualDistance(ActivationFeatures(model)))

    @property
    def phi(self) -> PerceptualDistance:
        """The distance, or a clear error where there is none."""
        if self.distance is None:
            raise UserError(
                "The lpips threat model has no features yet; call .bound_to(model) for the model's own activations, "
                "or give it a PerceptualDistance."
            )
        return self.distance

    def check(self, x: Tensor) -> None:
        with torch.no_grad():
            self.phi.embed(x[:1])

    def neutral(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self._back(x, to_box(x, small_noise(x, noise)), epsilon)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + theta).clamp(0, 1)

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        """The normalised gradient: the distance of small changes is about their l2 norm."""
        return gradient / (per_sample(torch.linalg.vector_norm(gradient.flatten(1), dim=1), gradient) + 1e-12)

    @torch.no_grad()
    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        result = self.apply(x, theta)
        return _unless_same(x, result, self.phi(x, result))

    def reference(self, x: Tensor) -> Tensor:
        return self.phi.reference(x)

    @contextmanager
    def measuring(self, model: Classifier, reference: Tree) -> Iterator[Callable[[Tensor, Tree], Tensor]]:
        """Differentiable in theta."""
        with self.phi.of_passes(model) as embedded:

            def measured(x: Tensor, theta: Tensor) -> Tensor:
                result = self.apply(x, theta)
                here = embedded(result)  # first: a pass of the reference's own would be heard as well
                origin = reference if isinstance(reference, Tensor) else self.phi.reference(x)
                return _unless_same(x, result, torch.linalg.vector_norm(here - origin, dim=1))

            yield measured

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        theta = to_box(x, theta)
        goal = _AIM * epsilon
        for done in range(_NEWTON_ROUNDS):
            distance, slope = self.linearised(x, theta)
            outside = ~(distance <= epsilon)
            worth_looking = done >= _USUAL_ROUNDS or is_sync_free(x.device)
            if worth_looking and not bool(outside.any()):
                return theta
            gradient = slope()
            length = (distance - goal) / gradient.square().flatten(1).sum(1).clamp_min(1e-12)
            theta = select(outside, to_box(x, theta - per_sample(length, theta) * gradient), theta)
        return self._back(x, theta, epsilon)

    def _back(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        """``theta`` shortened until it is inside, by false position; 0 where that fails."""
        far, distance_far = torch.ones_like(epsilon), self.size(x, theta)
        near, distance_near = torch.zeros_like(epsilon), torch.zeros_like(epsilon)
        settled = distance_far <= epsilon
        near = torch.where(settled, far, near)
        for _ in range(_TRIALS):
            if bool(settled.all()):
                break
            part = (_AIM * epsilon - distance_near) / (distance_far - distance_near)
            middle = torch.where(settled, near, near + (far - near) * part.nan_to_num(0.0).clamp(0, 1))
            distance = self.size(x, per_sample(middle, theta) * theta)
            inside = distance <= epsilon
            near, distance_near = torch.where(inside, middle, near), torch.where(inside, distance, distance_near)
            far, distance_far = torch.where(inside, far, middle), torch.where(inside, distance_far, distance)
            settled = settled | (inside & (distance >= 0.98 * epsilon))
        return per_sample(near, theta) * theta

    def linearised(self, x: Tensor, theta: Tensor) -> tuple[Tensor, Callable[[], Tensor]]:
        """The distance ``[B]`` at ``theta``, and a function that gives its gradient."""
        theta = theta.detach().requires_grad_()
        with torch.enable_grad():
            distance = self.phi(x, x + theta)

        def slope() -> Tensor:
            (gradient,) = torch.autograd.grad(distance, theta, torch.ones_like(distance))
            return gradient

        return distance.detach().to(x.dtype), slope
