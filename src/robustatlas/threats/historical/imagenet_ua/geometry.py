"""The updates of the published attacks, where they are not those of a box or a ball."""

from dataclasses import dataclass

from torch import Tensor

from robustatlas.threats.imagenet_ua.geometry import EuclideanBall, shrink


@dataclass(frozen=True)
class SignBall(EuclideanBall):
    """Steps go along the signs of the gradient, in a Euclidean ball."""

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient.sign()


@dataclass(frozen=True)
class ClippedBall(EuclideanBall):
    """After a step the numbers are shrunk to the ball, and then clipped to [0, 1]."""

    def project(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        return shrink(latent, epsilon).clamp(0, 1)


@dataclass(frozen=True)
class ReflectedBall(EuclideanBall):
    """After a step the numbers are shrunk to the ball, and those below 0 change their signs."""

    def project(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        return shrink(latent, epsilon).abs()


SIGN_BALL, CLIPPED_BALL, REFLECTED_BALL = SignBall(), ClippedBall(), ReflectedBall()
