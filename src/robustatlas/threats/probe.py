"""Checks of a threat model's contract on a few images, before any attack runs.

Violations are costly because they are silent: a candidate outside of the set, or of [0, 1], is rejected, and the model
looks robust.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.common.bundle import Tree
from robustatlas.common.noise import Noise
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.threats.base import ThreatModel

SAMPLES = 3
"""Number of images that are checked."""

_IDENTITY_TOLERANCE = 1e-6
"""Largest change of a pixel by the neutral theta."""
_PROJECTION_TOLERANCE = 1e-3
"""Largest change of a pixel by projecting a point of the set; projections by sorted sums round by 1e-5."""

_BATCH_TOLERANCE = 1e-2
"""Largest difference of a pixel between a sample alone and in a batch; searches in projections amplify rounding."""


def probe(
    threat: ThreatModel,
    x: Tensor,
    epsilons: Sequence[float],
    *,
    nested: bool = True,
    contains_clean: bool = True,
) -> list[str]:
    """Return a sentence for each violation of the threat model's contract; an empty list if there is none.

    Args:
        threat: the threat model, bound to its model.
        x: images ``[B, ...]`` in [0, 1]; the first three are used.
        epsilons: the strengths; the smallest, the middle and the largest are used.
        nested: the sets grow with epsilon and sizes are used; False if the last iterate is judged whatever its size.
        contains_clean: the set of size 0 is the unchanged image.

    Example:
        >>> from robustatlas.threats.lp import Linf
        >>> probe(Linf(), torch.rand(3, 1, 8, 8), (0.01, 0.1))
        []
    """
    x = x[:SAMPLES]
    ordered = sorted(epsilons)
    chosen = sorted({ordered[0], ordered[len(ordered) // 2], ordered[-1]})
    with torch.no_grad():
        found = list(_check_shapes(threat, x, chosen[-1])) or [
            *(_check_neutral(threat, x) if contains_clean else ()),
            *_check_pixels(threat, x, chosen[-1]),
            *_check_batch(threat, x, chosen[-1]),
            *(_check_sizes(threat, x, chosen) if nested else ()),
        ]
    return [f"{type(threat).__name__}{sentence}" for sentence in found]


def _noise(x: Tensor) -> Noise:
    return Noise.for_samples(0, torch.arange(len(x), device=x.device), "probe")


def _full(x: Tensor, epsilon: float) -> Tensor:
    return x.new_full((len(x),), epsilon)


def _start(threat: ThreatModel, x: Tensor, epsilon: float) -> Tree:
    return threat.start(x, _full(x, epsilon), _noise(x))


def _format_range(values: Tensor) -> str:
    return f"{float(values.min()):.4g} to {float(values.max()):.4g}"


def _check_shapes(threat: ThreatModel, x: Tensor, epsilon: float) -> Iterator[str]:
    for name, theta in (("neutral", threat.neutral(x)), ("start", _start(threat, x, epsilon))):
        for leaf in pytree.tree_leaves(theta):
            if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) != len(x):
                given = tuple(leaf.shape) if isinstance(leaf, Tensor) else type(leaf).__name__
                yield (
                    f".{name} gave a theta with {given} for {len(x)} images; expected tensors [B, ...] with a row per "
                    "image: put what belongs to all images into a field of the threat model."
                )
                return
        result = threat.apply(x, theta)
        if result.shape != x.shape:
            yield (
                f".apply made {tuple(result.shape)} of images {tuple(x.shape)}; expected the same shape: return one "
                "perturbed image for each."
            )
            return
        size = threat.size(x, theta)
        if size.shape != (len(x),):
            yield (
                f".size gave {tuple(size.shape)} for {len(x)} images; expected ({len(x)},): reduce over all dimensions "
                "but the first."
            )
            return


def _check_neutral(threat: ThreatModel, x: Tensor) -> Iterator[str]:
    theta = threat.neutral(x)
    change = float((threat.apply(x, theta) - x).abs().max())
    if not change <= _IDENTITY_TOLERANCE:
        yield (
            f".neutral changes the images by up to {change:.4g}; expected none: return the theta that leaves them as "
            "they are, or declare the attack with contains_clean=False."
        )
    size = threat.size(x, theta)
    if not bool((size == 0).all()):
        yield f".size of the neutral theta is {_format_range(size)}; expected 0: measure the distance from neutral."


def _check_pixels(threat: ThreatModel, x: Tensor, epsilon: float) -> Iterator[str]:
    result = threat.apply(x, _start(threat, x, epsilon))
    if not bool(((result >= 0) & (result <= 1)).all()):
        yield (
            f".apply made pixels from {_format_range(result)} at strength {epsilon:.4g}; expected finite ones in "
            "[0, 1], no other counts as an example: end it with .clamp(0, 1)."
        )


def _check_batch(threat: ThreatModel, x: Tensor, epsilon: float) -> Iterator[str]:
    in_batch = threat.apply(x, _start(threat, x, epsilon))
    for row in range(len(x)):
        one, noise = x[row : row + 1], Noise(_noise(x).keys[row : row + 1])
        alone = threat.apply(one, threat.start(one, _full(one, epsilon), noise))
        difference = float((alone - in_batch[row : row + 1]).abs().max())
        if not difference <= _BATCH_TOLERANCE:
            yield (
                f" makes another image of a sample alone than in a batch (they differ by {difference:.4g}); expected "
                "the same: take random numbers from the noise only, and no minimum, maximum or mean over the batch."
            )
            return


def _check_sizes(threat: ThreatModel, x: Tensor, epsilons: Sequence[float]) -> Iterator[str]:
    for epsilon in epsilons:
        start = _start(threat, x, epsilon)
        size = threat.size(x, start)
        if not bool((size <= epsilon * (1 + STRENGTH_TOLERANCE)).all()):
            yield (
                f".start drew thetas of size {_format_range(size)} at strength {epsilon:.4g}; expected at most the "
                "strength: project the start, or scale it by epsilon."
            )
            return
    largest = epsilons[-1]
    for epsilon in epsilons:
        projected = threat.project(x, start, _full(x, epsilon))
        size = threat.size(x, projected)
        if not bool((size <= epsilon * (1 + STRENGTH_TOLERANCE)).all()):
            yield (
                f".project to strength {epsilon:.4g} left thetas of size {_format_range(size)}; expected at most that: "
                "let size(project(theta, epsilon)) be within epsilon, up to rounding."
            )
            return
        image = threat.apply(x, projected)
        for again in {epsilon, largest}:
            change = float((threat.apply(x, threat.project(x, projected, _full(x, again))) - image).abs().max())
            if not change <= _PROJECTION_TOLERANCE:
                yield (
                    f".project to strength {again:.4g} moved a theta of the set of strength {epsilon:.4g} (pixels "
                    f"change by up to {change:.4g}); expected it to stay: sets must contain the smaller ones, and "
                    "projecting twice must change nothing; or declare the attack with nested=False."
                )
                return
