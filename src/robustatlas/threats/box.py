"""Threat models whose theta lies in a box around the neutral one: every number at most epsilon away from 0."""

from abc import abstractmethod

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded, UnsupportedInputError


def require_colour(x: Tensor, what: str) -> None:
    """Raise unless ``x`` holds RGB images ``[B, 3, H, W]``; ``what`` names the threat model in the message."""
    if x.dim() != 4 or x.shape[1] != 3:
        raise UnsupportedInputError(
            f"{what} changes colours and needs RGB images [B, 3, H, W]; got shape {tuple(x.shape)}: "
            "leave this attack out for these images, or repeat a grey channel three times."
        )


def require_grey_or_colour(x: Tensor, what: str, least: int = 1) -> None:
    """Raise unless ``x`` holds grey or RGB images of ``least`` by ``least`` pixels; ``what`` names the threat model."""
    if x.dim() != 4 or x.shape[1] not in (1, 3) or min(x.shape[2:]) < least:
        size = f" of at least {least}x{least} pixels" if least > 1 else ""
        raise UnsupportedInputError(
            f"{what} needs grey or RGB images [B, 1 or 3, H, W]{size}; got shape {tuple(x.shape)}: "
            "leave this attack out for this data."
        )


def require_images(x: Tensor, what: str) -> None:
    """Raise unless ``x`` holds images ``[B, C, H, W]`` of 2x2 pixels or more; ``what`` names the threat model."""
    if x.dim() != 4 or min(x.shape[2:]) < 2:
        raise UnsupportedInputError(
            f"{what} needs images [B, C, H, W] of at least 2x2 pixels; got shape {tuple(x.shape)}: "
            "leave this attack out for this data."
        )


class BoxThreat(EachBounded):
    """max_i |theta_i| <= epsilon, where theta = 0 leaves the image as it is."""

    @abstractmethod
    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of theta of one sample of ``x``."""

    def neutral(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), *self.shape(x))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        theta = noise.symmetric(*self.shape(x), dtype=x.dtype)
        return theta * per_sample(epsilon, theta)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        bound = per_sample(epsilon, theta)
        return torch.minimum(torch.maximum(theta, -bound), bound)

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return theta.abs().flatten(1).amax(1)


class OneNumber(BoxThreat):
    """A box of one number per sample: theta is ``[B, 1]``."""

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (1,)
