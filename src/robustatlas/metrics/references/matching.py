"""Pairs the entries of an accuracy table with those of its reference; what does not match is an error that names it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.typed_strengths import falling_scale_start, format_strength
from robustatlas.common.wording import list_names
from robustatlas.metrics.references.reference import CLEAN, Points, Reference, point_value
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.comparable import different_points
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE, read_strength, read_strengths


@dataclass(frozen=True)
class MatchedEntries:
    """The evaluated points P of a table beside the same points of its reference, [K] each. ``attacks``: `CLEAN` for the
    unperturbed input, whose strength is 0. ``accuracy``: acc(P), ``reference``: acc*(P), in percent."""

    attacks: tuple[str, ...]
    strengths: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    reference: NDArray[np.float64]

    def select(self, mask: NDArray[np.bool_]) -> MatchedEntries:
        """Return the points where mask [K] is true."""
        attacks = tuple(attack for attack, is_selected in zip(self.attacks, mask, strict=True) if is_selected)
        return MatchedEntries(attacks, self.strengths[mask], self.accuracy[mask], self.reference[mask])

    def name(self, index: int) -> str:
        """Return the short name of a point, such as `linf@0.01`."""
        attack = self.attacks[index]
        return attack if attack == CLEAN else f"{attack}@{format_strength(float(self.strengths[index]), attack=attack)}"


def select_attacks(
    accuracies: AccuracyTable, reference: Reference | AccuracyTable, attacks: Iterable[str] | None
) -> tuple[str, ...]:
    """Return the attacks of a metric: ``attacks``, or by default all that the reference ranks.

    Raises:
        UserError: ``attacks`` is empty or names one twice; or it is None and the table has attacks that the reference
            does not have.
    """
    if attacks is None:
        ranked = reference.attacks if isinstance(reference, AccuracyTable) else reference.ranked
        unknown = [attack for attack in accuracies.attacks if attack not in reference_accuracies(reference).entries]
        if unknown:
            raise UserError(
                f"The reference has no accuracies for {list_names(unknown)}; name the attacks to compare with "
                "attacks=[...]."
            )
        return tuple(ranked)
    if not isinstance(attacks, Iterable):
        raise UserError(f"attacks={shorten(repr(attacks))}; names of attacks are expected, such as ['linf', 'l2'].")
    chosen = (attacks,) if isinstance(attacks, str) else tuple(attacks)
    if not chosen:
        raise UserError(
            "The set of attacks is empty; name at least one attack, or leave it out to use all ranked ones."
        )
    repeated = sorted({attack for attack in chosen if chosen.count(attack) > 1})
    if repeated:
        raise UserError(f"{list_names(repeated)} is given more than once among the attacks; give each attack once.")
    return chosen


def match_entries(
    accuracies: AccuracyTable,
    reference: Reference | AccuracyTable,
    attacks: Iterable[str] | None = None,
    *,
    clean: bool = True,
) -> MatchedEntries:
    """Pair every point of the table with the same point of the reference.

    Args:
        accuracies: of a model.
        reference: accuracies to compare with.
        attacks: that count; default: those that the reference ranks.
        clean: True if the unperturbed input is a point too.

    Raises:
        UserError: only one of the two has some points, which it names.
    """
    for each, kinds in ((accuracies, AccuracyTable), (reference, Reference | AccuracyTable)):
        if not isinstance(each, kinds):
            raise UserError(
                f"A {type(each).__name__} is given; metrics take result.accuracies() and a reference, such as "
                "load_reference('multirobustbench-cifar10')."
            )
    chosen = select_attacks(accuracies, reference, attacks)
    table = reference_accuracies(reference)
    accuracies.require_percent()
    accuracies.warn_of_doubts(chosen)
    table.require_percent()
    _check_same_points(accuracies, table, chosen)

    names: list[str] = []
    strengths: list[float] = []
    accuracy: list[float] = []
    best: list[float] = []
    if clean:
        for given, owner in ((accuracies.clean, "accuracy table"), (table.clean, "reference")):
            if math.isnan(given):
                raise UserError(f"The {owner} has no clean accuracy, which this metric needs; UAR does without it.")
        names.append(CLEAN)
        strengths.append(0.0)
        accuracy.append(accuracies.clean)
        best.append(table.clean)
    for attack in chosen:
        distances = table.distances(attack).tolist()
        names.extend([attack] * len(distances))
        strengths.extend(distances)
        accuracy.extend(accuracies.values(attack).tolist())
        best.extend(table.values(attack).tolist())
    return MatchedEntries(tuple(names), np.array(strengths), np.array(accuracy), np.array(best))


def restrict_training(trained_on: Mapping[str, float], among: Collection[str]) -> dict[str, float]:
    """Return the attacks and strengths of a training that are among the compared attacks.

    >>> restrict_training({"linf": 0.03, "recolor": 0.06}, ["linf", "l2"])
    {'linf': 0.03}
    """
    return {attack: strength for attack, strength in trained_on.items() if attack in among}


def training_mask(
    entries: MatchedEntries, trained_on: Mapping[str, float], reference: Reference | AccuracyTable
) -> NDArray[np.bool_]:
    """Return a mask of the points that a defense saw in training.

    They are the clean one, and its own attacks up to the strength of the training.

    Args:
        entries: points of the comparison.
        trained_on: attack -> largest strength of the training, as typed.
        reference: that must have these attacks, ranked or not.
    """
    known = reference_accuracies(reference).attacks
    if not isinstance(trained_on, Mapping):
        raise UserError(
            f"trained_on={shorten(repr(trained_on))}; attacks and the strengths of the training are expected, such as "
            "{'linf': 0.03}."
        )
    for attack, strength in trained_on.items():
        if attack not in known:
            raise UserError(
                f"The model is said to be trained on {attack!r}, which the reference does not have "
                f"({list_names(known)}); leave it out if the evaluation does not contain that attack."
            )
        if not read_strength(strength, attack) > 0:
            top = falling_scale_start(attack)
            expected = "a positive number" if top is None else f"a number below {top:g}"
            raise UserError(f"The training strength of {attack} is {shorten(repr(strength))}; {expected} is expected.")
    most = read_strengths(trained_on)
    limits = np.array([math.inf if attack == CLEAN else most.get(attack, -1.0) for attack in entries.attacks])
    return entries.strengths <= limits * (1 + STRENGTH_TOLERANCE)


def point_values(entries: MatchedEntries, points: Points) -> NDArray[np.float64]:
    """Return the numbers [K] at the points of ``entries``; NaN where there is none."""
    return np.array([point_value(points, a, float(s)) for a, s in zip(entries.attacks, entries.strengths, strict=True)])


def point_weights(entries: MatchedEntries, weights: Points | None) -> NDArray[np.float64]:
    """Return the weights [K] of the points of ``entries``: 0 of those that are not named; None: all alike."""
    if weights is None:
        return np.ones_like(entries.reference)
    found = np.nan_to_num(point_values(entries, weights))
    if not found.any():
        raise UserError("All weights are 0, so that no attack counts; give one at least a positive weight.")
    return found


def reference_accuracies(reference: Reference | AccuracyTable) -> AccuracyTable:
    """Return the accuracies of a reference."""
    return reference if isinstance(reference, AccuracyTable) else reference.accuracies


def _check_same_points(accuracies: AccuracyTable, reference: AccuracyTable, attacks: tuple[str, ...]) -> None:
    missing, extra = different_points(accuracies.distance_entries, reference.distance_entries, attacks)
    if missing or extra:
        parts = [f"{what}: {list_names(points)}" for what, points in (("missing", missing), ("extra", extra)) if points]
        raise UserError(
            f"The accuracies and the reference do not cover the same points; {'; '.join(parts)}. Evaluate the missing "
            "ones, choose attacks with attacks=[...], or restrict the tables with AccuracyTable.restrict."
        )
