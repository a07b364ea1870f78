"""The full diagnosis: attacks of several kinds, a binarisation test, and the indicators that read their results."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.checks.indicators import INDICATORS, DiagnosedSamples, Indicator
from robustatlas.checks.indicators.attack_failures import pgd_path
from robustatlas.checks.indicators.binarisation import Binarisation
from robustatlas.checks.indicators.carlini import BlackBoxWins
from robustatlas.checks.indicators.search_results import OWN, SEED, PlantedTest, SearchResults
from robustatlas.checks.remedies import distill
from robustatlas.checks.sanity import backward_rules
from robustatlas.common.errors import RobustnessWarning
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluate_request
from robustatlas.evaluation.reading import indicator_reading
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.probing import drop_failing_gradient
from robustatlas.outcomes.records import DiagnosisRecord, Reading
from robustatlas.trust.binarisation import planted_test
from robustatlas.trust.subject import KnownSubject

_USUAL_LINF = 8 / 255
"""Strength of the paths of PGD in L-inf, if the diagnosed attack has another threat model."""
_BATCH = 512
_OTHER_KINDS = ("fab", "fmn", "square", "hop-skip-jump")
_KINDS_WITHOUT_GRADIENTS = ("square", "hop-skip-jump")
_IMAGE_ATTACKS = ("stadv", "elastic")
_NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
PLANTED = 24
"""Largest number of images in a binarisation test."""


def read_in_full(known: KnownSubject, record: DiagnosisRecord, attacks: Sequence[Attack], seed: int) -> DiagnosisRecord:
    """Return the record with what the indicators of a full diagnosis read at its samples.

    Args:
        known: model and data of the record.
        record: diagnosis of the samples themselves.
        attacks: whose numbers are to be judged; the first that goes by gradients is looked at.
        seed: of the searches and of the random points.
    """
    by_gradients = [attack for attack in attacks if backward_rules(attack.plan(attack.searches[0]))]
    if not by_gradients or not record.index or known.model.knowledge != "gradients":
        return record
    attack, model = by_gradients[0], drop_failing_gradient(known.model, known.work.rows[:2])
    rows = torch.tensor([int(np.flatnonzero(known.work.index == i)[0]) for i in record.index])
    x, labels = known.work.rows[rows].to(model.device, model.dtype), known.work.labels[rows].to(model.device)
    with warnings.catch_warnings(), model.counting() as passes:
        warnings.simplefilter("ignore", RobustnessWarning)
        samples = _search_samples(known, model, attack, x, labels, record.index, seed)
        readings = [_read_indicator(indicator, samples) for indicator in _indicators(samples)]
    return record.model_copy(
        update={
            "readings": (*record.readings, *readings),
            "forward": round(record.forward + passes.forward / len(rows), 2),
            "backward": round(record.backward + passes.backward / len(rows), 2),
        }
    )


def _indicators(samples: DiagnosedSamples) -> list[Indicator]:
    """Return all indicators of a full diagnosis; the binarisation test once for each attack that it was made of."""
    left_out = {Binarisation} | (set() if samples.searched.black_box else {BlackBoxWins})
    found = [kind() for kind in INDICATORS.load_usable().values() if kind.part != "always" and kind not in left_out]
    return [*found, *(Binarisation(attack) for attack in samples.searched.binarised)]


def _read_indicator(indicator: Indicator, samples: DiagnosedSamples) -> Reading:
    """Return the reading of an indicator. A binarisation test that sound networks fail too is only a note."""
    found, severity = indicator.measure(samples), indicator.severity
    if not isinstance(indicator, Binarisation):
        return indicator_reading(indicator, found, severity)
    test = samples.searched.binarised[indicator.attack]
    if test.informative and test.convex:
        return indicator_reading(indicator, found, severity)
    chance = float(test.by_chance[test.set_up].float().mean()) if bool(test.set_up.any()) else 1.0
    why = "sound networks do so too" if test.informative else f"random points find {100 * chance:.0f} % of them"
    note = indicator_reading(indicator, found, "note")
    return note.model_copy(update={"means": f"{indicator.means}, which says little: {why}", "decides": False})


def _search_samples(
    known: KnownSubject, model: Classifier, attack: Attack, x: Tensor, labels: Tensor, index: Sequence[int], seed: int
) -> DiagnosedSamples:
    """Return the samples with the results of all attacks that a full diagnosis runs on them."""
    noise = Noise.for_samples(seed, torch.tensor(index, device=x.device), "full diagnosis")
    rules = backward_rules(attack.plan(attack.searches[0])) or {None}
    strength = float(attack.strengths[len(attack.strengths) // 2])
    sizes = _sizes_by_kind(model, attack, x, labels, seed)
    results = SearchResults(
        epsilon=strength if attack.threat == attack_named("linf").threat else _USUAL_LINF,
        strengths=torch.tensor(attack.strengths, device=x.device, dtype=x.dtype),
        sizes=sizes,
        black_box=frozenset(f"{kind}-{attack.name}" for kind in _KINDS_WITHOUT_GRADIENTS) & set(sizes),
        transferred=_transfer_failures(known, model, x, labels, noise, strength),
        nearest=_distances_to_other_classes(known, model, x, labels, _NORMS.get(attack.name)),
        binarised=_planted_tests(model, x[:PLANTED], attack, strength, seed),
    )
    return DiagnosedSamples(model, x, labels, noise, rules, results)


def _sizes_by_kind(model: Classifier, attack: Attack, x: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    kinds = {OWN: (attack, seed), SEED: (attack, seed + 1)}
    for kind in (f"{kind}-{attack.name}" for kind in _OTHER_KINDS):
        if kind in catalogue():
            kinds[kind] = (replace(attack_named(kind), strengths=attack.strengths), seed)
    return {kind: _minimal_sizes(model, each, x, labels, number) for kind, (each, number) in kinds.items()}


def _minimal_sizes(model: Classifier, attack: Attack, x: Tensor, labels: Tensor, seed: int) -> Tensor:
    request = Request(attacks=[attack], seed=seed, diagnose=False, progress=False, effort="default")
    return torch.from_numpy(evaluate_request(model, (x, labels), request).outcome(attack.name).minimal_size).to(x)


def _transfer_failures(
    known: KnownSubject, model: Classifier, x: Tensor, labels: Tensor, noise: Noise, epsilon: float
) -> Tensor:
    """Return [B]: 0 if an example against a distilled network fools the model, 1 if not, -1 without an example."""
    student = Classifier(distill(model, known.work.rows[: len(known.work.labels)]))
    on_student = pgd_path(DiagnosedSamples(student, x.float(), labels, noise), epsilon)
    with torch.no_grad():
        right = model.logits(on_student.end.to(x.dtype), verifying=True).argmax(1) == labels
    return torch.where(on_student.wrong[-1], right.to(x.dtype), -1.0)


def _distances_to_other_classes(
    known: KnownSubject, model: Classifier, x: Tensor, labels: Tensor, norm: float | None
) -> Tensor:
    """Return the distance [B] in the norm to the nearest data point that the model puts into another class."""
    nearest = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
    if norm is None:
        return nearest
    for first in range(0, len(known.work.labels), _BATCH):
        rows = known.work.rows[first : first + _BATCH].to(x)
        with torch.no_grad():
            predictions = model.logits(rows, verifying=True).argmax(1)
        distances = torch.cdist(x.flatten(1), rows.flatten(1), p=norm)
        nearest = nearest.minimum(distances.masked_fill(predictions[None] == labels[:, None], torch.inf).amin(1))
    return nearest


def _planted_tests(model: Classifier, x: Tensor, attack: Attack, strength: float, seed: int) -> dict[str, PlantedTest]:
    """Return the binarisation tests of the attack and, for images, of two attacks that are no lp balls."""
    others = [attack_named(name) for name in _IMAGE_ATTACKS if name in catalogue() and x.dim() == 4]
    strengths = [(attack, strength), *((other, other.strengths[len(other.strengths) // 2]) for other in others)]
    tests = {each.name: planted_test(model, x, each, float(epsilon), seed) for each, epsilon in strengths}
    return {name: test for name, test in tests.items() if test is not None}
