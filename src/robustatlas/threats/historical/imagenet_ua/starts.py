"""Random starts of the published attacks."""

from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.geometry import euclidean_norms


def draw_positive(shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
    """Return ``[B, *shape]``: every number uniform in [0, epsilon]."""
    unit = noise.uniform(*shape, dtype=epsilon.dtype)
    return unit * per_sample(epsilon, unit)


def draw_on_sphere(shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
    """Return ``[B, *shape]``: a uniform vector of the unit cube, scaled to a norm of epsilon."""
    cube = noise.uniform(*shape, dtype=epsilon.dtype)
    return cube * per_sample(epsilon / euclidean_norms(cube).clamp_min(1e-12), cube)


def draw_radial(shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
    """Return :func:`draw_on_sphere` scaled to a norm that is uniform in [0, epsilon]."""
    return draw_on_sphere(shape, epsilon * noise.child(1).uniform(dtype=epsilon.dtype), noise.child(0))
