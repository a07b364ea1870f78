"""Accuracies that are no ratio: mean and worst case over attacks, the typical case, and success over queries."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import falling_scale_start
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.outcome import Outcome, check_minimal, percent
from robustatlas.outcomes.strengths import read_sizes, read_strength, snap_sizes


def average_accuracy(accuracies: AccuracyTable, attacks: Iterable[str] | None = None, *, clean: bool = False) -> float:
    """Return mean accuracy in percent over every (attack, strength), all weighted alike.

    Args:
        accuracies: of the model.
        attacks: the attacks to go over; all when None.
        clean: whether the clean accuracy counts as one more point.

    Returns:
        percent, in [0, 100].

    Raises:
        UserError: no attack is named, the table lacks one, or the clean accuracy is asked for and missing.

    Example:
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> average_accuracy(model), average_accuracy(model, clean=True)
        (48.75, 55.2)
    """
    table = accuracies.restrict(attacks)
    if not table.attacks:
        raise UserError("The set of attacks is empty; name at least one attack.")
    accuracies.require_percent()
    accuracies.warn_of_doubts(table.attacks)
    if clean and math.isnan(table.clean):
        raise UserError("The accuracy table has no clean accuracy; leave it out of the average with clean=False.")
    values = np.concatenate([table.values(attack) for attack in table.attacks])
    return float(np.mean(np.append(values, table.clean) if clean else values))


def union_accuracy(minimal_strengths: Mapping[str, ArrayLike], at: Mapping[str, float]) -> float:
    """Return share of samples that no nested attack breaks, each attack up to its own strength, in percent.

    Args:
        minimal_strengths: attack -> [N] least harmful strength (or size), as people type it, at which each sample was
            broken; 0 where it is misclassified clean, inf where it never was (or 100 and -inf where typed strengths
            fall). The same N samples in the same order for every attack.
        at: attack -> most harmful strength the adversary may use, as people type it; only these attacks take part. At
            a strength that was not searched the share is an upper bound only.

    Returns:
        percent, in [0, 100].

    Raises:
        UserError: for an attack without minimal strengths, different numbers of samples, or values < 0 or NaN.

    Example:
        >>> found = {"linf": [0.0, 0.02, 0.05, float("inf")], "l2": [0.0, 2.0, 0.5, 2.0]}
        >>> union_accuracy(found, {"linf": 0.03, "l2": 1.0})
        25.0
    """
    if not at:
        raise UserError("The set of attacks is empty; name at least one attack and its largest strength.")
    survives: dict[str, NDArray[np.bool_]] = {}
    for attack, strength in at.items():
        if attack not in minimal_strengths:
            raise UserError(f"There are no minimal strengths of {attack!r}; given: {', '.join(minimal_strengths)}.")
        distance, top = read_strength(strength, attack), falling_scale_start(attack)
        if not distance >= 0:
            expected = "a number >= 0" if top is None else f"a number of at most {top:g}"
            raise UserError(f"The largest strength of {attack} is {strength}; {expected} is expected.")
        minimal = check_minimal(read_sizes(minimal_strengths[attack], attack), attack)
        survives[attack] = snap_sizes(minimal, [distance]) > distance
    sizes = {attack: len(mask) for attack, mask in survives.items()}
    if len(set(sizes.values())) > 1:
        raise UserError(
            f"The attacks were run on different numbers of samples ({sizes}); give the same samples to all."
        )
    alive = np.logical_and.reduce(list(survives.values()))
    return float(percent(alive.sum(), alive.size))


def typical_accuracies(outcome: Outcome, confidence: float = 0.95) -> tuple[Interval, ...] | None:
    """Return mean share of the draws that a model gets right, at each strength, in percent.

    The interval is of the mean over all images from which the samples come. Each sample counts as one trial, however
    often it was drawn. Its share varies no more than a single draw would, so the exact interval of so many single draws
    is wide enough.

    Args:
        outcome: of an attack.
        confidence: of the intervals, in (0, 1).

    Returns:
        [S]; None where not every sample was drawn at every strength.

    Raises:
        UserError: a confidence outside of (0, 1).

    Source: Clopper and Pearson 1934, Biometrika 26(4), at the mean share.

    Example:
        >>> import numpy as np, robustatlas as ra
        >>> from dataclasses import replace
        >>> sizes, grids = {"rotation": [np.inf, 0.0]}, {"rotation": [10.0]}
        >>> found = ra.Result.from_arrays([0, 1], [0, 0], sizes, grids).outcome("rotation")
        >>> print(typical_accuracies(replace(found, typical=np.array([[1.0], [0.5]])))[0])
        75.00 [6.08, 99.98]
    """
    if outcome.typical is None:
        return None
    means = outcome.typical_accuracies()
    if not (means >= 0).all():
        return None
    low, high = proportion_bounds(means / 100 * outcome.samples, outcome.samples, confidence)
    return tuple(
        Interval(*numbers, confidence) for numbers in zip(means.tolist(), low.tolist(), high.tolist(), strict=True)
    )


def success_over_queries(queries: ArrayLike, at: Sequence[int]) -> NDArray[np.float64]:
    """Return the percentage of samples that are broken within given numbers of queries.

    Args:
        queries: [N] of each sample until its first example, -1 where there is none; a column of
            :attr:`robustatlas.Outcome.queries`.
        at: [Q] numbers of queries.

    Returns:
        [Q] percent of the samples.

    Raises:
        UserError: there are no samples, or what is given are not whole numbers.

    Example:
        >>> success_over_queries([12, 300, -1, 1], at=[1, 100, 1000]).tolist()
        [25.0, 50.0, 75.0]

    Source: the success rate at a query limit of Andriushchenko et al. 2020 (Square Attack), section 5.
    """
    given, limits = np.asarray(queries), np.asarray(at)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu" or limits.dtype.kind not in "iu":
        raise UserError(
            f"queries have shape {given.shape} and type {given.dtype}, and at has type {limits.dtype}; expected whole "
            "numbers [N] and [Q]."
        )
    return np.asarray(100.0 * ((given[:, None] >= 0) & (given[:, None] <= limits.reshape(-1))).mean(0))
