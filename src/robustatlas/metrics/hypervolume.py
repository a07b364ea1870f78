"""Adversarial hypervolume: the confidence that a model keeps, over all perturbation sizes up to a limit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import real_array, real_or_nan
from robustatlas.outcomes.outcome import percent
from robustatlas.outcomes.strengths import read_places


@dataclass(frozen=True, eq=False)
class AdversarialHypervolume:
    """Adversarial hypervolume of a set of samples.

    Attributes:
        per_sample: [N] in [0, 1].
        frontier: [N, L] F_i, the confidence kept against perturbations up to i * epsilon / L, in [0, 1], falling.
        clean: [N] F_0, the confidence on the clean input; 1, its largest value, where it was not given.
        corrected: percentage of samples at which the attack found a higher margin at a larger size, so that the margin
            of a smaller size had to be carried over; much of it says that the attack is too weak.

    Example:
        >>> volume = adversarial_hypervolume([[0.8, 0.5], [0.6, -0.2]])
        >>> volume.per_sample, volume.mean
        (array([0.65, 0.3 ]), 0.475)
    """

    per_sample: NDArray[np.float64]
    frontier: NDArray[np.float64]
    clean: NDArray[np.float64]
    corrected: float

    @property
    def mean(self) -> float:
        """Mean over all samples, those misclassified clean included as 0."""
        return float(self.per_sample.mean())

    @property
    def std(self) -> float:
        """Standard deviation over all samples (divided by N)."""
        return float(self.per_sample.std())

    @property
    def levels(self) -> int:
        """Number of perturbation sizes L."""
        return int(self.frontier.shape[1])

    @property
    def error_bound(self) -> float:
        """Bound on the difference of the mean and the integral that it approximates: mean of (F_0 - F_L) / L.

        The frontier falls, so its integral lies between the sum over right end points (the hypervolume) and the sum
        over left end points. Where this is too much for a comparison, evaluate at more levels.
        """
        return float(np.mean(self.clean - self.frontier[:, -1]) / self.levels)


def adversarial_hypervolume(
    margins: ArrayLike,
    clean_margin: ArrayLike | None = None,
    strengths: ArrayLike | None = None,
    *,
    attack: str = "",
) -> AdversarialHypervolume:
    """Return the adversarial hypervolume from the lowest margins found within growing perturbation sizes.

    AH(x) = (1 / L) * sum over i = 1..L of F_i, with F_i = max(0, lowest margin found within i * epsilon / L): the
    area under the adversarial frontier, with sizes in units of epsilon. A sample that is misclassified clean has 0.
    The frontier of nested sets falls, so a margin found at a smaller size also stands for the larger ones.

    Args:
        margins: [N, L] lowest p_y - max of the other p_k, probabilities, found within the sizes epsilon / L,
            2 * epsilon / L, ..., epsilon; in [-1, 1]. The paper's are L = 10 and epsilon = 8/255 (linf) or 0.5 (l2) on
            CIFAR-10, 4/255 (linf) on ImageNet. NaN after a margin <= 0 means that it was not searched any more. For
            another confidence than the margin see `normalised_cross_entropy`.
        clean_margin: [N] margins of the clean inputs. Without them clean errors show at the first level.
        strengths: [L] perturbation sizes of the levels, to check that they are equal steps up to epsilon.
        attack: name of the attack, by which strengths are read as people type them; needed where typed strengths fall.

    Returns:
        the hypervolume of each sample and its mean, in [0, 1].

    Raises:
        UserError: where strengths are not equal steps from 0, or margins lie outside [-1, 1] (they may be of logits) or
            are NaN before the first margin <= 0.

    Source: Guo et al. 2024, "Exploring the Adversarial Frontier: Quantifying Robustness via Adversarial Hypervolume",
    Algorithm 1, with the loop's size read as i * epsilon / N and the margin clipped at 0.

    Example:
        >>> volume = adversarial_hypervolume([[0.8, 0.5, 0.2, -0.1], [0.6, 0.3, 0.4, 0.1]])
        >>> volume.per_sample, volume.corrected
        (array([0.375, 0.325]), 50.0)
    """
    found = real_array(margins, "margins")
    if found.ndim != 2 or found.size == 0:
        raise UserError(f"Margins [samples, levels] are expected; given an array of shape {found.shape}.")
    if strengths is not None:
        _check_equal_steps(read_places(strengths, attack), found.shape[1])
    clean = _clean_margins(clean_margin, len(found))
    _check_margins(found, "the margins")

    with_clean = np.column_stack([clean, found])
    settled = np.minimum.accumulate(np.where(np.isnan(with_clean), np.inf, with_clean), axis=1)
    gaps = np.isnan(found) & (settled[:, :-1] > 0)
    if gaps.any():
        sample, level = np.argwhere(gaps)[0]
        raise UserError(
            f"The margin of sample {sample} at level {level + 1} is NaN although no adversarial example was found "
            "before; search every level, for example with the search 'frontier'."
        )
    frontier = np.maximum(settled[:, 1:], 0.0)
    rises = ((found > settled[:, :-1]) & (settled[:, :-1] > 0)).any(axis=1)
    per_sample = frontier.mean(axis=1)
    return AdversarialHypervolume(
        per_sample, frontier, np.clip(clean, 0.0, 1.0), float(percent(np.sum(rises), len(found)))
    )


def hypervolume_at_levels(margins: ArrayLike, clean_margin: ArrayLike | None = None) -> dict[int, float]:
    """Return the mean hypervolume for every number of levels that the given margins contain: how it converges with L.

    Args:
        margins: [N, L] as for `adversarial_hypervolume`.
        clean_margin: [N] as for `adversarial_hypervolume`.

    Returns:
        number of levels (every divisor of L) -> mean hypervolume. It grows with the number of levels.

    Source: Guo et al. 2024, Figure 5, where 20 levels stand for the integral.

    Example:
        >>> hypervolume_at_levels([[0.75, 0.5, 0.5, 0.25]])
        {1: 0.25, 2: 0.375, 4: 0.5}
    """
    frontier = adversarial_hypervolume(margins, clean_margin).frontier
    levels = frontier.shape[1]
    means = frontier.mean(axis=0)
    return {
        count: float(means[levels // count - 1 :: levels // count].mean())
        for count in range(1, levels + 1)
        if levels % count == 0
    }


@dataclass(frozen=True)
class ConvergenceRate:
    """Fit of the error e(N) of the hypervolume at N levels.

    Attributes:
        factor: c of the fit c / N, by least squares.
        slope: of log e over log N, by least squares; NaN where fewer than two errors are above 0.

    Example:
        >>> round(convergence_rate({1: 0.2, 2: 0.4, 20: 0.6}).factor, 6)
        0.4
    """

    factor: float
    slope: float


def convergence_rate(by_levels: Mapping[int, float]) -> ConvergenceRate:
    """Fit how the error of the hypervolume falls with the number of levels; the largest number stands for the integral.

    Args:
        by_levels: number of levels N -> mean hypervolume, as :func:`hypervolume_at_levels` gives it.

    Returns:
        the fit.

    Raises:
        UserError: fewer than two numbers of levels.

    Source: Guo et al. 2024, section V-G and Figure 5: the error against N = 20, with the bound of equation 8, whose
    constant is fitted by least squares. The slope is ours.

    Example:
        >>> convergence_rate({1: 0.2, 2: 0.4, 20: 0.6}).slope
        -1.0
    """
    errors = hypervolume_errors(by_levels)
    if not errors:
        raise UserError("The error needs the hypervolume at two numbers of levels at least; evaluate at more levels.")
    levels, found = (np.array(values, dtype=np.float64) for values in zip(*errors.items(), strict=True))
    factor = float((found / levels).sum() / (1 / levels**2).sum())
    above = found > 0
    slope = np.polyfit(np.log(levels[above]), np.log(found[above]), 1)[0] if above.sum() > 1 else np.nan
    return ConvergenceRate(factor, round(float(slope), 12))


def hypervolume_errors(by_levels: Mapping[int, float]) -> dict[int, float]:
    """Return the error of the mean hypervolume at each number of levels against the largest one, which is left out.

    Args:
        by_levels: number of levels N -> mean hypervolume.

    Returns:
        N -> absolute difference to the hypervolume at the largest N.

    Example:
        >>> hypervolume_errors({1: 0.25, 2: 0.375, 4: 0.5})
        {1: 0.25, 2: 0.125}
    """
    finest = max(by_levels, default=0)
    return {count: abs(by_levels[finest] - by_levels[count]) for count in sorted(by_levels) if count != finest}


def normalised_cross_entropy(true_probability: ArrayLike, classes: int) -> NDArray[np.float64]:
    """Return the confidence in [-1, 1] by the cross-entropy: 1 if certain, 0 for a uniform guess, below 0 for worse.

    1 + log(p_y) / log(C), clipped below at -1; in place of the margin in `adversarial_hypervolume`. Unlike the margin
    it may be above 0 where the input is misclassified, and 0 does not mark the decision boundary.

    Args:
        true_probability: [...] probability of the true class.
        classes: number of classes C, at least 2.

    Returns:
        confidences [...] in [-1, 1].

    Raises:
        UserError: a probability outside of [0, 1], or fewer than 2 classes.

    Source: the formula is ours; Guo et al. 2024, section V-G, name a normalised cross-entropy and print none.

    Example:
        >>> normalised_cross_entropy([1.0, 0.5, 0.0], classes=4)
        array([ 1. ,  0.5, -1. ])
    """
    probability = real_array(true_probability, "probabilities")
    if not real_or_nan(classes) >= 2 or not ((probability >= 0) & (probability <= 1)).all():
        raise UserError("Probabilities in [0, 1] of the true class and at least 2 classes are expected.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(1 + np.log(probability) / np.log(classes), -1.0))


def equal_steps(strengths: ArrayLike) -> bool:
    """Return True if strengths [L] are equal steps from 0, as the hypervolume requires.

    >>> equal_steps([0.1, 0.2, 0.3]), equal_steps([0.1, 0.3])
    (True, False)
    """
    grid = np.asarray(strengths, dtype=np.float64)
    return np.allclose(grid, grid[-1] * np.arange(1, grid.size + 1) / grid.size, rtol=1e-4, atol=0)


def _check_equal_steps(strengths: NDArray[np.float64], levels: int) -> None:
    if strengths.shape != (levels,) or not equal_steps(strengths):
        raise UserError(
            f"The hypervolume is taken over {levels} equal steps epsilon / {levels}, ..., epsilon; the strengths are "
            f"{', '.join(f'{strength:g}' for strength in strengths)}."
        )


def _clean_margins(clean_margin: ArrayLike | None, samples: int) -> NDArray[np.float64]:
    if clean_margin is None:
        return np.full(samples, np.inf)
    clean = np.asarray(clean_margin, dtype=np.float64)
    if clean.shape != (samples,) or np.isnan(clean).any():
        raise UserError(
            f"One clean margin, not NaN, for each of the {samples} samples is expected; given {clean.shape}."
        )
    _check_margins(clean, "the clean margins")
    return clean


def _check_margins(margins: NDArray[np.float64], what: str) -> None:
    worst = np.nanmax(np.abs(margins), initial=0.0)
    if worst > 1 + 1e-6:
        raise UserError(
            f"{what} reach {worst:g}; margins of probabilities in [-1, 1] are expected: apply softmax first."
        )
