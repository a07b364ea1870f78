"""An audit: a random part of the samples, searched again by every kind of attack that fits, at high effort.

What it finds is kept apart, in a run beside the run, so that the numbers of the run stay what its own search found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from robustatlas.attacks.catalogue import catalogue, single_optimizer_attack
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.effort import scale_effort
from robustatlas.attacks.passes import maximal_passes
from robustatlas.checks.indicators import DiagnosedSamples
from robustatlas.checks.remedies import find_gradient_remedies, model_with_estimated_gradient
from robustatlas.common.errors import UserError, warn
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluate_request
from robustatlas.evaluation.preparation import Model
from robustatlas.evaluation.records import recorded_attack
from robustatlas.evaluation.request import Data, Request
from robustatlas.evaluation.samples import choose_samples, open_data
from robustatlas.evaluation.workers.share import WHOLE, Share
from robustatlas.models.classifier import Classifier, seeded, undisturbed
from robustatlas.outcomes import Run
from robustatlas.outcomes.locks import part_lock
from robustatlas.results.result import Result

SAMPLES = 50
"""Samples of an audit, by default."""
_OWN_SAMPLES = 32
"""Samples on which an attack of one's own is held against this package's on the same threat model."""
_SHARE = 0.1
"""Share of the passes of an evaluation up to which an audit is made by default."""
_ALONE = ("pgd", "apgd", "adam")
"""Optimizers that also search threat models that have no other attacks in the catalogue."""
_DRAW = 0x5EED
_LOOKED_AT = 32


def evaluated_and_audited(model: Model, data: Data, request: Request) -> Result:
    """:func:`robustatlas.evaluate`, of a request, with the audit that it asks for."""
    data = open_data(data, request.samples)
    result = evaluate_request(model, data, request)
    count = request.audit
    if count is None:
        count = SAMPLES if request.part == WHOLE and _cheap(result) else 0
    if count:
        return search_again(result, model, data, count, request.seed, request.share)
    asked = request.diagnose and request.audit is None and request.part == WHOLE
    if asked and result.run is not None and (own := _user_attacks(result)):
        return _hold_own_attacks(result, model, data, own, request.seed)
    return result


def _audited_as(result: Result) -> dict[str, str]:
    """Return the attacks of a result that an audit searches again, each with this package's attack that does so."""
    own = {record.name: record.counterpart for record in result.records.values() if record.counterpart}
    return {name: own.get(name, name) for name in result.attacks if name in own or name in catalogue()}


def _user_attacks(result: Result) -> dict[str, str]:
    """Return the attacks of one's own that no audit has looked at, each with this package's on its threat model."""
    audited = result.audit_sentences()
    own = {record.name for record in result.records.values() if record.counterpart}
    return {name: ours for name, ours in _audited_as(result).items() if name in own and name not in audited}


def _hold_own_attacks(result: Result, model: Model, data: Data, own: Mapping[str, str], seed: int) -> Result:
    """Hold attacks of one's own against this package's on the same threat models, on a few samples."""
    assert result.run is not None
    positions = _positions(result, data, _OWN_SAMPLES, seed)
    beside = result.run.begin_audit()
    with part_lock(beside.path, WHOLE.number, WHOLE.of):
        for name, ours in own.items():
            attack = _recorded(name, result, ours)
            try:
                found = evaluate_request(model, data, _request(attack, name, attack, positions, beside, seed))
            except UserError as error:
                warn(f"{name} could not be held against {ours}: {error}")
                continue
            beside.describe({f"kinds {name}": {ours: _count_improved(found, result, name)}})
    held = result.reread()
    for name in own:
        if (said := held.unproven.get(name)) is not None:
            warn(said)
    return held


def _positions(result: Result, data: Data, samples: int, seed: int) -> list[int]:
    """Return where so many samples of a result stand in its data, drawn at random."""
    drawn = _audit_positions(result.index, samples, seed)
    positions: list[int] = np.flatnonzero(np.isin(choose_samples(data, None).index, drawn)).tolist()
    return positions


def _request(attack: Attack, name: str, audited: Attack, positions: Sequence[int], beside: Run, seed: int) -> Request:
    """Return the request of a search by `attack` under the name, threat model and strengths of the audited one."""
    same = replace(attack, threat=audited.threat, eight_bit=audited.eight_bit, typical=0)
    renamed = replace(same, name=name, strengths=audited.strengths)
    return Request(attacks=renamed, samples=positions, seed=seed, run=beside, diagnose=False, progress=False)


def search_again(result: Result, model: Model, data: Data, samples: int, seed: int = 0, part: Share = WHOLE) -> Result:
    """The result of a run with so many of its samples, chosen by ``seed`` whatever their order, searched again; what is
    found is kept beside the run, and :meth:`~robustatlas.results.result.Result.audited` says what would be left.

    ``part``: of the run that the result is about; no other command may audit samples of it meanwhile.

    Raises:
        UserError: numbers that are of no run; another command audits them.
    """
    if result.run is None:
        raise UserError("These numbers are of no run, so nothing can be kept beside them; give evaluate a run.")
    classifier = model if isinstance(model, Classifier) else Classifier(model)
    positions = _positions(result, data, samples, seed)
    beside = result.run.begin_audit()
    with part_lock(beside.path, part.number, part.of):
        for name, ours in _audited_as(result).items():
            fallen: dict[str, int] = {}
            attack = _recorded(name, result, ours)
            for kind, through, other in _kinds(attack, classifier, data, positions, blind=name in result.invalid):
                found = evaluate_request(through, data, _request(other, name, attack, positions, beside, seed))
                fallen[kind] = _count_improved(found, result, name)
            beside.describe({f"kinds {name}": fallen})
    return result.reread()


def _audit_positions(index: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.int64]:
    order = np.random.default_rng([seed % 2**63, _DRAW]).permutation(np.sort(index))
    return np.sort(order[:samples])


def _count_improved(found: Result, result: Result, name: str) -> int:
    """Return the number of samples that the audit broke at a smaller strength than the run."""
    rows = np.flatnonzero(np.isin(result.index, found.index))
    before = dict(zip(result.index[rows].tolist(), result.outcome(name).minimal_strength[rows].tolist(), strict=True))
    after = zip(found.index.tolist(), found.outcome(name).minimal_strength.tolist(), strict=True)
    return sum(strength < before[position] for position, strength in after)


def _kinds(
    attack: Attack, model: Classifier, data: Data, positions: Sequence[int], blind: bool
) -> Iterator[tuple[str, Classifier, Attack]]:
    """Yield name, model and attack of each search of an audit. If gradients mislead, some models have others."""
    yield "high effort", model, scale_effort(attack, "high")
    for other in _attacks_of_threat(attack):
        yield other.name, model, other
    if not blind:
        return
    with undisturbed(), seeded(0, model.device), model.evaluating():
        work = choose_samples(data, list(positions[:_LOOKED_AT]))
        x, labels = work.rows[:_LOOKED_AT].to(model.device, model.dtype), work.labels.to(model.device)
        noise = Noise.for_samples(0, torch.from_numpy(work.index).to(model.device), "repair")
        ways = find_gradient_remedies(model, DiagnosedSamples(model, x, labels, noise))
    for way in ways:
        yield way.name, way.model, attack
    yield "estimated gradient", model_with_estimated_gradient(model), _shortened(attack)


def _attacks_of_threat(attack: Attack) -> list[Attack]:
    """Return the other attacks with this threat model."""
    same = [other for other in catalogue().values() if other.threat == attack.threat and other.name != attack.name]
    if same or not attack.threat.optimised:
        return same
    return [single_optimizer_attack(optimizer, catalogue()[attack.name]) for optimizer in _ALONE]


def _recorded(name: str, result: Result, ours: str) -> Attack:
    """Return the attack `ours` with the threat model and the strengths that a result has under `name`."""
    records = [record.model_copy(update={"name": ours}) for record in result.records.values() if record.name == name]
    return replace(recorded_attack(ours, records), strengths=tuple(result.distances(name).tolist()))


def _shortened(attack: Attack) -> Attack:
    """Return the attack with one bounding run and one ascent, for gradients that cost many passes."""
    search, plan = attack.searches[0], attack.plan(attack.searches[0])
    first = [*plan.runs_in("bound")[:1], *plan.runs_in("ascend")[:1]]
    runs = tuple(replace(run, count=1, searches=()) for run in first or plan.runs)
    return replace(attack, runs=runs, search_order=(search,))


def _cheap(result: Result) -> bool:
    """Return if an audit costs at most a tenth of what the run has cost."""
    spent = sum(sum(result.passes(name)) for name in result.attacks) * result.samples
    dear = sum(_passes_per_sample(name, ours, result) for name, ours in _audited_as(result).items())
    return result.run is not None and SAMPLES * dear <= _SHARE * spent


def _passes_per_sample(name: str, ours: str, result: Result) -> float:
    """Return the passes that the audit of a sample takes at most."""
    attack = _recorded(name, result, ours)
    kinds: Mapping[str, Attack] = {"": scale_effort(attack, "high")} | {
        each.name: each for each in _attacks_of_threat(attack)
    }
    classes = len(result.identity.model.probe[0]) if result.identity is not None else 2
    first = [(each, each.searches[0]) for each in kinds.values()]
    count = len(attack.strengths)
    return float(sum(maximal_passes(a.plan(by), by, count, classes, a.threat.chooses) for a, by in first))
