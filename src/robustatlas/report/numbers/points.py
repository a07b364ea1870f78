"""The strengths at which headlines and unions stand: only such that were searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, format_strength, value_as_typed
from robustatlas.common.wording import list_names, suggestion
from robustatlas.outcomes.bounds import command_to_search, describe_unsearched
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE, levels_hint, listed_strengths, strength_position
from robustatlas.outcomes.table import OutcomeTable


def headline_strength(outcome: Outcome) -> float:
    """The strength at which an attack counts for a headline or a union: one that was searched.

    That is the strength at which papers give its accuracy, or the next larger one that was searched, or the largest;
    of an attack without such a strength the middle one of all, of two the larger.

    >>> from robustatlas.results.result import Result
    >>> grids = {"l2": [0.1, 1.0], "linf": [1 / 255, 2 / 255], "mine": [0.3, 0.6], "fog": [1, 2, 4]}
    >>> run = Result.from_arrays([0], [0], dict.fromkeys(grids, [0.2]), grids)
    >>> [format_strength(headline_strength(run.outcome(attack)), attack=attack) for attack in grids]
    ['1', '2/255', '0.6', '2']
    """
    grid = searched_grid(outcome)
    if outcome.attack in STANDARD_STRENGTHS:
        return searched_from(outcome, STANDARD_STRENGTHS[outcome.attack][0]) or grid[-1]
    return grid[(len(grid) - 1) // 2] if len(grid) > 2 else grid[-1]


def points_of_headline(table: OutcomeTable) -> dict[str, float]:
    """Attack -> its :func:`headline_strength`."""
    return {attack: headline_strength(outcome) for attack, outcome in table.outcomes.items()}


def searched_from(outcome: Outcome, usual: float) -> float | None:
    """The first searched strength that is not below the ``usual`` one; None where there is none."""
    return next((each for each in searched_grid(outcome) if each >= usual * (1 - STRENGTH_TOLERANCE)), None)


def searched_grid(outcome: Outcome) -> list[float]:
    """The searched strengths of an attack, increasing; those of its grid where only sizes were searched."""
    searched = outcome.searched_strengths
    return [float(each) for each in (searched if searched.size else outcome.strengths)]


def searched_points(
    asked: Mapping[str, float], grids: Mapping[str, Sequence[float]], option: str, sign: str = "="
) -> dict[str, float]:
    """Attack -> the strength of its grid that is asked for. ``grids``: attack -> its strengths. ``option``: that asks,
    for messages, with the ``sign`` between name and strength.

    Raises:
        UserError: an attack that is not there, or a strength that was not searched.
    """
    found = {}
    for attack, most in asked.items():
        if attack not in grids:
            there = suggestion(attack, grids, f"give one of {list_names(grids) or 'none'}")
            raise UserError(f"{option} names {attack!r}, which is not evaluated{there}")
        grid, given = grids[attack], f"{option} {attack}{sign}{format_strength(most, attack=attack)}"
        place = strength_position(most, grid)
        if place is None:
            point = ((attack, value_as_typed(attack, most)),)
            if meant := levels_hint(most, grid[-1]):
                raise UserError(f"{given} is beyond every strength of {attack}; {meant}.")
            near = [*[each for each in grid if each < most][-1:], *[each for each in grid if each > most][:1]]
            raise UserError(
                f"{given}: {describe_unsearched(point)}; searched next to it: {listed_strengths(near, attack)}. Run: "
                f"{command_to_search(point)}"
            )
        found[attack] = grid[place]
    return found
