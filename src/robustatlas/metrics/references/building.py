"""References from models of one's own, by the rules of the two papers that define them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from robustatlas.common.errors import UserError
from robustatlas.metrics.references import Reference
from robustatlas.outcomes import AccuracyTable
from robustatlas.outcomes.identity import DataRecord
from robustatlas.outcomes.strengths import is_same_strength, listed_strengths

Rule = Literal["acc", "ata"]
_GUESSING = 1.5
"""A model has learned nothing if its accuracy is at most this many times that of guessing."""


def learned_nothing(accuracy: float, classes: int) -> bool:
    """Return True if an accuracy in percent is not better than guessing among ``classes`` classes.

    >>> learned_nothing(14.0, classes=10), learned_nothing(30.0, classes=10)
    (True, False)
    """
    return accuracy <= _GUESSING * 100 / classes


@dataclass(frozen=True)
class ReferenceModel:
    """Model trained for a reference, and its accuracies.

    Attributes:
        attack: that it was trained against; None for standard training.
        strength: of that training; 0 for standard training.
        seed: of that training.
        accuracies: in percent on test images, under its own attack.
    """

    attack: str | None
    strength: float
    seed: int
    accuracies: AccuracyTable


def build_reference(
    name: str,
    source: str,
    models: Sequence[ReferenceModel],
    strengths: Mapping[str, Sequence[float]],
    rule: Rule,
    notes: Sequence[str] = (),
    classes: int | None = None,
    data: DataRecord | None = None,
    warnings: Sequence[str] = (),
    threats: Mapping[str, str] | None = None,
) -> Reference:
    """Return the reference of the accuracies of ``models``.

    Args:
        models: trained against each attack, and without any for the clean accuracy.
        strengths: attack -> the strengths of the reference.
        rule: "acc" or "ata". "acc" is acc* of MultiRobustBench (Dai et al. 2023): at each strength the mean over the
            runs trained at that very strength. "ata" is adversarial training accuracy (Kang et al. 2019): at each
            strength the best of all models trained against the attack, at whatever strength.
        classes: number of classes; if known, entries of models that learned nothing are marked.
        warnings: what their trainings and evaluations warned of.
        threats: attack -> identity of its threat model, where it is known.
    """
    for model in models:
        model.accuracies.require_searched(f"The reference {name}")
    entry = _RULES[rule]
    entries = {
        attack: {
            strength: entry([m for m in models if m.attack == attack], attack, strength) for strength in sorted(grid)
        }
        for attack, grid in strengths.items()
    }
    standard = [m.accuracies.clean for m in models if m.attack is None]
    clean = (fmean(standard) if rule == "acc" else max(standard)) if standard else math.nan
    table = AccuracyTable.from_distances(clean, entries)
    marks = () if classes is None else _marks(table, models, rule, classes)
    return Reference(
        name,
        source,
        table,
        ranked=tuple(entries),
        notes=tuple(notes),
        marks=marks,
        data=data,
        warnings=tuple(warnings),
        threats=threats or {},
    )


def _marks(table: AccuracyTable, models: Sequence[ReferenceModel], rule: Rule, classes: int) -> tuple[str, ...]:
    """Return sentences about the clean accuracy and the attacks whose entries depend on models that learned nothing."""
    found = []
    if learned_nothing(table.clean, classes):
        found.append(
            f"The reference's networks without an attack have learned nothing (clean accuracy {table.clean:.0f} % of "
            f"{classes} classes), so ratios to its clean accuracy mean nothing; train longer."
        )
    for attack in table.attacks:
        lost = [m for m in models if m.attack == attack and learned_nothing(m.accuracies.clean, classes)]
        entries = [s for s in table.distances(attack).tolist() if _depends_on_models(lost, models, attack, s, rule)]
        if entries:
            clean = [model.accuracies.clean for model in lost]
            found.append(
                f"The reference's networks of {attack} at {listed_strengths(entries, attack)} have learned nothing "
                f"(clean accuracy {min(clean):.0f} to {max(clean):.0f} % of {classes} classes), so ratios there mean "
                "nothing; train them with rising strengths (--set warmup=0.5) or leave these strengths out."
            )
    return tuple(found)


def _depends_on_models(
    lost: Sequence[ReferenceModel], models: Sequence[ReferenceModel], attack: str, strength: float, rule: Rule
) -> bool:
    """Return True if the entry has its number from any of the ``lost`` models."""
    if rule == "acc":
        return any(is_same_strength(m.strength, strength) for m in lost)
    own = [m for m in models if m.attack == attack]
    best = max(m.accuracies.accuracy_at_distance(attack, strength) for m in own)
    return any(m.accuracies.accuracy_at_distance(attack, strength) == best for m in lost)


def _mean_at_own_strength(models: Sequence[ReferenceModel], attack: str, strength: float) -> float:
    own = [
        m.accuracies.accuracy_at_distance(attack, strength) for m in models if is_same_strength(m.strength, strength)
    ]
    if not own:
        at = listed_strengths([strength], attack)
        raise UserError(f"No model was trained against {attack} at {at}, so there is no acc* there.")
    return fmean(own)


def _best_of_all(models: Sequence[ReferenceModel], attack: str, strength: float) -> float:
    if not models:
        raise UserError(f"No model was trained against {attack}, so it has no ATA.")
    return max(m.accuracies.accuracy_at_distance(attack, strength) for m in models)


_RULES: dict[Rule, Callable[[Sequence[ReferenceModel], str, float], float]] = {
    "acc": _mean_at_own_strength,
    "ata": _best_of_all,
}
