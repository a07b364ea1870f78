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
from robustatlas.threats.lp import clip_to_box

_START_DEVIATION = 0.01
_NEWTON_ROUNDS = 5
_USUAL_ROUNDS = 2  # a full batch seldom converges earlier
_TRIALS = 12
_AIM = 0.995  # aim just inside of the border, as the rounding of the distance depends on the batch


class PerceptualDistance:
    """Distance d(x, x') = ||phi(x) - phi(x')||_2, where phi are the activations of a network (Laidlaw et al. 2021, eq.
    2).

    Each activation is normalised over its channels at every place, and divided by the square root of the number of
    places.

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

    def to_device(self, device: torch.device) -> PerceptualDistance:
        """Return the same distance with its network on ``device``; features that are a plain function stay where they
        are.
        """
        if not isinstance(self.features, ActivationFeatures) or self.features.model.device == device:
            return self
        moved = copy.copy(self)
        moved.features, moved._last = self.features.to_device(device), None
        return moved

    def embed(self, x: Tensor) -> Tensor:
        """Return phi(x), ``[B, D]``; differentiable."""
        return _embed(self.features(x))

    @contextmanager
    def share_passes(self, model: Classifier) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield a function like :meth:`embed` for images that ``model`` has just evaluated in this context.

        It needs no forward pass of its own if the features are the activations of that pass.
        """
        if not isinstance(self.features, ActivationFeatures) or type(self).embed is not PerceptualDistance.embed:
            yield self.embed
            return
        with self.features.share_passes(model) as activations:
            yield self.embed if activations is None else lambda x: _embed(activations())

    def reference(self, x: Tensor) -> Tensor:
        """Return phi(x) without a gradient; remembered while one and the same tensor is asked for again."""
        if self._last is not None:
            remembered, version, embedded = self._last
            if remembered() is x and version == x._version:
                return embedded
        with torch.no_grad():
            embedded = self.embed(x)
        self._last = (weakref.ref(x), x._version, embedded)
        return embedded

    def __call__(self, x: Tensor, other: Tensor) -> Tensor:
        """Return ``[B]``: the distance; differentiable in ``other``."""
        distance: Tensor = torch.linalg.vector_norm(self.embed(other) - self.reference(x), dim=1)
        return distance

    def to_record(self) -> dict[str, Any]:
        """Return the settings that determine the distance, for the record of a run."""
        return {"features": self.features}

    def __repr__(self) -> str:
        return f"PerceptualDistance({self.features!r})"


def load_distance(features: str) -> PerceptualDistance:
    """Return the distance by a network of others, ``ARCHITECTURE=FILE`` such as ``alexnet=alexnet.pth``.

    Raises:
        UserError: not understood, or the file does not fit.

    Example:
        >>> load_distance("alexnet=nothing.pth")  # doctest: +ELLIPSIS
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


def _embed(activations: Sequence[Tensor]) -> Tensor:
    return torch.cat([_normalise(activation) for activation in activations], 1)


def _normalise(activation: Tensor) -> Tensor:
    maps = activation.transpose(1, 2) if activation.dim() == 3 else activation
    maps = maps.flatten(2) if maps.dim() > 2 else maps[:, :, None]
    length: Tensor = torch.linalg.vector_norm(maps, dim=1, keepdim=True) + 1e-10
    return (maps / (length * math.sqrt(maps.shape[2]))).flatten(1)


def _zero_if_equal(x: Tensor, other: Tensor, distance: Tensor) -> Tensor:
    """Return ``distance`` [B], but exactly 0 for equal images, where rounding could give more."""
    same = (other == x).flatten(1).all(1)
    return distance.to(x.dtype).masked_fill(same, 0)


def small_noise(x: Tensor, noise: Noise) -> Tensor:
    """Return normal noise like ``x`` with a standard deviation of .01, the start of Laidlaw et al. 2021."""
    return _START_DEVIATION * noise.normal(*x.shape[1:], dtype=x.dtype)


@dataclass(frozen=True)
class Perceptual(ThreatModel):
    """Set of all images within a perceptual distance epsilon of ``x``; theta is the perturbation, shaped like ``x``.

    Without a ``distance`` the activations of the attacked network itself are compared: see :meth:`for_model`.
    :meth:`project` takes Newton steps towards the border. If these do not suffice, it shortens theta, so that its
    results are inside. After the usual rounds it checks whether all are, even on accelerators: waiting for the device
    takes less time than further passes.
    """

    additive: ClassVar[bool] = True

    distance: PerceptualDistance | None = None

    def for_model(self, model: Classifier) -> Perceptual:
        """Return the threat model with its distance on the device of ``model``, or with the activations of
        ``model``.
        """
        if self.distance is not None:
            there = self.distance.to_device(model.device)
            return self if there is self.distance else replace(self, distance=there)
        return replace(self, distance=PerceptualDistance(ActivationFeatures(model)))

    @property
    def phi(self) -> PerceptualDistance:
        """The distance, or a clear error where there is none."""
        if self.distance is None:
            raise UserError(
                "The lpips threat model has no features yet; call .for_model(model) for the model's own activations, "
                "or give it a PerceptualDistance."
            )
        return self.distance

    def check(self, x: Tensor) -> None:
        with torch.no_grad():
            self.phi.embed(x[:1])

    def neutral(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self._shorten(x, clip_to_box(x, small_noise(x, noise)), epsilon)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + theta).clamp(0, 1)

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        """Return the normalised gradient: the distance of small changes is about their l2 norm."""
        return gradient / (per_sample(torch.linalg.vector_norm(gradient.flatten(1), dim=1), gradient) + 1e-12)

    @torch.no_grad()
    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        result = self.apply(x, theta)
        return _zero_if_equal(x, result, self.phi(x, result))

    def reference(self, x: Tensor) -> Tensor:
        return self.phi.reference(x)

    @contextmanager
    def measuring(self, model: Classifier, reference: Tree) -> Iterator[Callable[[Tensor, Tree], Tensor]]:
        """Yield a measuring function that is differentiable in theta."""
        with self.phi.share_passes(model) as embedded:

            def measured(x: Tensor, theta: Tensor) -> Tensor:
                result = self.apply(x, theta)
                here = embedded(result)  # before the reference, whose pass would replace these activations
                origin = reference if isinstance(reference, Tensor) else self.phi.reference(x)
                return _zero_if_equal(x, result, torch.linalg.vector_norm(here - origin, dim=1))

            yield measured

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        theta = clip_to_box(x, theta)
        goal = _AIM * epsilon
        for number in range(_NEWTON_ROUNDS):
            distance, slope = self.linearised(x, theta)
            outside = ~(distance <= epsilon)
            may_check = number >= _USUAL_ROUNDS or is_sync_free(x.device)
            if may_check and not bool(outside.any()):
                return theta
            gradient = slope()
            length = (distance - goal) / gradient.square().flatten(1).sum(1).clamp_min(1e-12)
            theta = select(outside, clip_to_box(x, theta - per_sample(length, theta) * gradient), theta)
        return self._shorten(x, theta, epsilon)

    def _shorten(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        """Return ``theta`` shortened until it is inside, by the method of false position; 0 if that fails."""
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
        """Return the distance ``[B]`` at ``theta``, and a function that gives its gradient."""
        theta = theta.detach().requires_grad_()
        with torch.enable_grad():
            distance = self.phi(x, x + theta)

        def slope() -> Tensor:
            (gradient,) = torch.autograd.grad(distance, theta, torch.ones_like(distance))
            return gradient

        return distance.detach().to(x.dtype), slope
