"""Randomised models by two rules: what most draws say, and what any of n draws says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.files import named
from robustatlas.common.tabular import Grid, Tabular, objects
from robustatlas.common.wording import strength
from robustatlas.evaluation.auditing import evaluated_and_audited
from robustatlas.evaluation.plan import Attacks, Data
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from robustatlas.results.result import Result

_DRAWS = 20


@dataclass(frozen=True, repr=False)
class ByRules(Tabular):
    """Robust accuracies of a randomised model by each rule, with clean accuracy by the same rule.

    Attributes:
        results: rule, ``"majority"`` or ``"any of N"``, -> the result by it.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("broken:noise"), ra.load_dataset("digits")
        >>> few = {"samples": 4, "strengths": {"linf": [0.1]}, "effort": "low", "progress": False, "diagnose": False}
        >>> list(ra.evaluate_by_rules(model, data, "linf", any_of=5, draws=4, **few).results)
        ['majority', 'any of 5']
    """

    results: Mapping[str, Result]

    def _rows(self) -> Iterable[tuple[str, float, str, float, float]]:
        for rule, result in self.results.items():
            for attack in result.attacks:
                found = result.correct(attack).mean(0)
                for at, share in zip(result.strengths(attack).tolist(), found.tolist(), strict=True):
                    yield rule, result.clean_accuracy, attack, at, 100 * share

    def _grid(self) -> Grid:
        rows = [
            (rule, f"{c:.1f}", attack, strength(s, of=attack), f"{r:.1f}") for rule, c, attack, s, r in self._rows()
        ]
        return Grid("accuracies in %", ("rule", "clean", "attack", "strength", "robust"), rows, (1, 3, 4))

    def _columns(self) -> dict[str, NDArray[Any]]:
        rule, clean, attack, strength, robust = zip(*self._rows(), strict=True)
        return {
            "rule": objects(rule),
            "clean": np.array(clean),
            "attack": objects(attack),
            "strength": np.array(strength),
            "robust": np.array(robust),
        }


def evaluate_by_rules(
    model: Any, data: Data, attacks: Attacks | None = None, *, any_of: int = 10, draws: int = _DRAWS, **options: Any
) -> ByRules:
    """Evaluate a randomised model by what most draws say, and by what any of ``any_of`` draws says.

    By the first rule a sample errs where more than half of the draws err. By the second it errs where the chance is
    more than a half that at least one of ``any_of`` draws does. Given enough draws the second brings every randomised
    model to 0, on clean samples as well: so read its robust accuracy beside its clean accuracy, by the same rule.

    Args:
        model: as of :func:`robustatlas.evaluate`; it draws random numbers with torch.
        data, attacks: as there.
        any_of: draws of the second rule.
        draws: over how many draws gradients are averaged.
        options: others of :func:`robustatlas.evaluate`; ``run`` is a folder, in which each rule has one of its own.

    Returns:
        the result by each rule.

    Raises:
        UserError: fewer than two draws, or what :func:`robustatlas.evaluate` raises.

    Source: DiffBreak (any of n); Cohen et al. 2019 (majority).

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("broken:noise"), ra.load_dataset("digits")
        >>> few = {"samples": 6, "strengths": {"linf": [0.1]}, "effort": "low", "progress": False, "diagnose": False}
        >>> found = evaluate_by_rules(model, data, "linf", any_of=10, draws=4, **few).results
        >>> found["any of 10"].clean_accuracy <= found["majority"].clean_accuracy
        True
    """
    return evaluated_by_rules(Classifier(model, draws=draws), data, Request(attacks=attacks, **options), any_of)


def evaluated_by_rules(model: Classifier, data: Data, request: Request, any_of: int) -> ByRules:
    """The same of a model that says over how many draws it is averaged (20 where it does not)."""
    if not isinstance(any_of, int) or any_of < 2:
        raise UserError(f"any_of={any_of!r}; expected how many draws, at least 2.")
    results = {}
    for rule, threshold in (("majority", 0.5), (f"any of {any_of}", 1 - 0.5 ** (1 / any_of))):
        drawn = Classifier(model, draws=_DRAWS if model.draws is None else model.draws, threshold=threshold)
        folder = None if request.run is None else named(str(request.run)) / rule.replace(" ", "-")
        results[rule] = evaluated_and_audited(drawn, data, replace(request, run=folder))
    return ByRules(results)
