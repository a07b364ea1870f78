"""The strengths at which papers give robust accuracies."""

from __future__ import annotations

from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.strengths import position_of

STANDARD = {"linf": (8 / 255, "8/255"), "l2": (0.5, "0.5"), "l1": (12.0, "12")}
"""Attack -> the strength at which papers give its robust accuracy, and how they write it."""

NEAR = 0.1
"""A strength of a grid stands for a standard one up to this relative difference."""


def usual_strength(outcome: Outcome) -> float | None:
    """The strength at which an attack is usually measured: the one that papers give, else the middle one of the
    catalogue, on large images or on small ones; None where the outcome says nothing of it.

    Example:
        >>> from robustatlas.results.result import Result
        >>> run = Result.from_arrays([0], [0], {"l2": [1.0], "mine": [0.2]}, {"l2": [0.1, 1.0], "mine": [0.3]})
        >>> usual_strength(run.outcome("l2")), usual_strength(run.outcome("mine"))
        (0.5, None)
    """
    if outcome.attack in STANDARD:
        known = [STANDARD[outcome.attack][0]]
    else:
        from robustatlas.attacks.catalogue import catalogue  # here, as torch comes with it

        attack = catalogue().get(outcome.attack)
        grids = [] if attack is None else [attack.strengths, (attack.small or attack).strengths]
        known = [grid[(len(grid) - 1) // 2] for grid in grids]
    grid = outcome.strengths.tolist()
    reached = (each for each in known if outcome.monotone and each <= grid[-1] * (1 + 1e-6))
    return next((each for each in known if position_of(each, grid) is not None), next(reached, None))
