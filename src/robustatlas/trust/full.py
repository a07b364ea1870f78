"""The full diagnosis: attacks of several kinds are run on the samples, and the indicators asked that look at them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.checks.indicators import INDICATORS, Indicator, LookedAt
from robustatlas.checks.indicators.binarisation import Binarisation
from robustatlas.checks.indicators.carlini import BlackBoxWins
from robustatlas.checks.indicators.paths import path
from robustatlas.checks.indicators.searched import OWN, SEED, PlantedTest, Searched
from robustatlas.checks.remedies import distilled
from robustatlas.checks.sanity import ways_back
from robustatlas.common.errors import RobustnessWarning
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluated
from robustatlas.evaluation.reading import reading_of
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.failing import with_what_gradient_it_has
from robustatlas.outcomes.readings import DiagnosisRecord, Reading
from robustatlas.trust.binarised import binarisation
from robustatlas.trust.subject import KnownSubject

_USUAL = 8 / 255
_BATCH = 512
_OTHERS = ("fab", "fmn", "square", "hop-skip-jump")
_WITHOUT_GRADIENTS = ("square", "hop-skip-jump")
_IMAGE_ATTACKS = ("stadv", "elastic")
_NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
PLANTED = 24
"""Images of a binarisation test, at most."""


def read_in_full(known: KnownSubject, record: DiagnosisRecord, attacks: Sequence[Attack], seed: int) -> DiagnosisRecord:
    """The record with what the indicators of a full diagnosis read of the same samples.

    Args:
        known: the model and its data.
        record: of the indicators that are always read.
        attacks: whose numbers are to be judged; the first that goes by gradients is looked at.
        seed: of the searches.
    """
    chosen = [attack for attack in attacks if ways_back(attack.plans[attack.searches[0]])]
    if not chosen or not record.index or known.model.knowledge != "gradients":
        return record
    attack, model = chosen[0], with_what_gradient_it_has(known.model, known.work.rows[:2])
    rows = torch.tensor([int(np.flatnonzero(known.work.index == i)[0]) for i in record.index])
    x, labels = known.work.rows[rows].to(model.device, model.dtype), known.work.labels[rows].to(model.device)
    with warnings.catch_warnings(), model.counting() as passes:
        warnings.simplefilter("ignore", RobustnessWarning)
        look = _looked_at(known, model, attack, x, labels, record.index, seed)
        read = [_reading(indicator, look) for indicator in _indicators(look)]
    return record.model_copy(
        update={
            "readings": (*record.readings, *read),
            "forward": round(record.forward + passes.forward / len(rows), 2),
            "backward": round(record.backward + passes.backward / len(rows), 2),
        }
    )


def _indicators(look: LookedAt) -> list[Indicator]:
    """All of a full diagnosis; the binarisation test once for each attack that it was made of."""
    assert look.searched is not None
    left_out = {Binarisation} | (set() if look.searched.black_box else {BlackBoxWins})
    found = [kind() for kind in INDICATORS.usable().values() if kind.part != "always" and kind not in left_out]
    return [*found, *(Binarisation(attack) for attack in look.searched.binarised)]


def _reading(indicator: Indicator, look: LookedAt) -> Reading:
    assert look.searched is not None
    found, severity = indicator.measure(look), indicator.severity
    if not isinstance(indicator, Binarisation):
        return reading_of(indicator, found, severity)
    test = look.searched.binarised[indicator.attack]
    if test.informative and test.convex:
        return reading_of(indicator, found, severity)
    chance = float(test.by_chance[test.set_up].float().mean()) if bool(test.set_up.any()) else 1.0
    why = "sound networks do so too" if test.informative else f"random points find {100 * chance:.0f} % of them"
    told = reading_of(indicator, found, "note")
    return told.model_copy(update={"means": f"{indicator.means}, which says little: {why}", "decides": False})


def _looked_at(
    known: KnownSubject, model: Classifier, attack: Attack, x: Tensor, labels: Tensor, index: Sequence[int], seed: int
) -> LookedAt:
    noise = Noise.of(seed, torch.tensor(index, device=x.device), "full diagnosis")
    ways = ways_back(attack.plans[attack.searches[0]]) or {None}
    strength = float(attack.strengths[len(attack.strengths) // 2])
    sizes = _sizes(model, attack, x, labels, seed)
    searched = Searched(
        epsilon=strength if attack.threat == attack_named("linf").threat else _USUAL,
        strengths=torch.tensor(attack.strengths, device=x.device, dtype=x.dtype),
        sizes=sizes,
        black_box=frozenset(f"{kind}-{attack.name}" for kind in _WITHOUT_GRADIENTS) & set(sizes),
        transferred=_transferred(known, model, x, labels, noise, strength),
        nearest=_nearest(known, model, x, labels, _NORMS.get(attack.name)),
        binarised=_binarised(model, x[:PLANTED], attack, strength, seed),
    )
    return LookedAt(model, x, labels, noise, ways, searched)


def _sizes(model: Classifier, attack: Attack, x: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    """Kind -> [B] sizes that it finds."""
    kinds = {OWN: (attack, seed), SEED: (attack, seed + 1)}
    for kind in (f"{kind}-{attack.name}" for kind in _OTHERS):
        if kind in catalogue():
            kinds[kind] = (replace(attack_named(kind), strengths=attack.strengths), seed)
    return {kind: _found(model, each, x, labels, number) for kind, (each, number) in kinds.items()}


def _found(model: Classifier, attack: Attack, x: Tensor, labels: Tensor, seed: int) -> Tensor:
    asked = Request(attacks=[attack], seed=seed, diagnose=False, progress=False, effort="default")
    return torch.from_numpy(evaluated(model, (x, labels), asked).minimal_size(attack.name)).to(x)


def _transferred(
    known: KnownSubject, model: Classifier, x: Tensor, labels: Tensor, noise: Noise, epsilon: float
) -> Tensor:
    """[B] 1 where an example against a distilled network leaves the model as it is, 0 where it does not, -1: no
    example."""
    student = Classifier(distilled(model, known.work.rows[: len(known.work.labels)]))
    on_student = path(LookedAt(student, x.float(), labels, noise), epsilon)
    with torch.no_grad():
        right = model.logits(on_student.end.to(x.dtype), verifying=True).argmax(1) == labels
    return torch.where(on_student.wrong[-1], right.to(x.dtype), -1.0)


def _nearest(known: KnownSubject, model: Classifier, x: Tensor, labels: Tensor, norm: float | None) -> Tensor:
    """[B] distance in the norm to the nearest data point that the model puts into another class."""
    nearest = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
    if norm is None:
        return nearest
    for first in range(0, len(known.work.labels), _BATCH):
        rows = known.work.rows[first : first + _BATCH].to(x)
        with torch.no_grad():
            found = model.logits(rows, verifying=True).argmax(1)
        distances = torch.cdist(x.flatten(1), rows.flatten(1), p=norm)
        nearest = nearest.minimum(distances.masked_fill(found[None] == labels[:, None], torch.inf).amin(1))
    return nearest


def _binarised(model: Classifier, x: Tensor, attack: Attack, strength: float, seed: int) -> dict[str, PlantedTest]:
    """The binarisation test of the attack, and of two of images."""
    tested: dict[str, PlantedTest] = {}
    others: Collection[str] = [name for name in _IMAGE_ATTACKS if name in catalogue() and x.dim() == 4]
    for each, epsilon in [(attack, strength), *((attack_named(name), None) for name in others)]:
        middle = each.strengths[len(each.strengths) // 2]
        found = binarisation(model, x, each, float(middle if epsilon is None else epsilon), seed)
        if found is not None:
            tested[each.name] = found
    return tested
