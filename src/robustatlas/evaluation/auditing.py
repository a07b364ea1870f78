"""An audit: a random part of the samples, searched again by every kind of attack that fits, at high effort.

What it finds is kept apart, in a run beside the run, so that the numbers of the run stay what its own search found.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.effort import scale_effort
from robustatlas.attacks.passes import maximal_passes
from robustatlas.checks.indicators import LookedAt
from robustatlas.checks.remedies import around, estimated
from robustatlas.common.errors import UserError, warn
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluated
from robustatlas.evaluation.plan import Data, attack_as_recorded, opened, samples_of
from robustatlas.evaluation.prepared import Model
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.workers.share import WHOLE, Share
from robustatlas.models.classifier import Classifier, seeded, undisturbed
from robustatlas.outcomes import Run
from robustatlas.outcomes.locks import part_lock
from robustatlas.results.result import Result

SAMPLES = 50
"""Of an audit, by default."""
_OWN_SAMPLES = 32
"""On which an attack of one's own is held against this package's on the same threat model."""
_SHARE = 0.1
"""Of the passes of an evaluation, up to which an audit is made by default."""
_ALONE = ("pgd", "apgd", "adam")
"""Optimizers that also search threat models that have no other attacks in the catalogue."""
_DRAW = 0x5EED
_LOOKED_AT = 32


def evaluated_and_audited(model: Model, data: Data, request: Request) -> Result:
    """:func:`robustatlas.evaluate`, of a request, with the audit that it asks for."""
    data = opened(data)
    result = evaluated(model, data, request)
    count = request.audit
    if count is None:
        count = SAMPLES if request.part == WHOLE and _cheap(result) else 0
    if count:
        return search_again(result, model, data, count, request.seed, request.share)
    asked = request.diagnose and request.audit is None and request.part == WHOLE
    if asked and result.run is not None and (own := _own(result)):
        return _hold_own(result, model, data, own, request.seed)
    return result


def _own(result: Result) -> dict[str, str]:
    """Return the attacks of one's own that no audit has looked at, each with this package's on its threat model."""
    audited = result.audit_sentences()
    own = {record.name for record in result.records.values() if record.counterpart}
    return {name: ours for name, ours in _searched_as(result).items() if name in own and name not in audited}


def _hold_own(result: Result, model: Model, data: Data, own: Mapping[str, str], seed: int) -> Result:
    """Hold attacks of one's own against this package's on the same threat models, on a few samples."""
    assert result.run is not None
    positions = _positions(result, data, _OWN_SAMPLES, seed)
    beside = result.run.begin_audit()
    with part_lock(beside.path, WHOLE.number, WHOLE.of):
        for name, ours in own.items():
            attack = _recorded(name, result, ours)
            try:
                found = _searched(attack, name, attack, model, data, positions, beside, seed)
            except UserError as error:
                warn(f"{name} could not be held against {ours}: {error}")
                continue
            beside.describe({f"kinds {name}": {ours: _more_by(found, result, name)}})
    held = result.reread()
    for name in own:
        if (said := held.unproven.get(name)) is not None:
            warn(said)
    return held


def _positions(result: Result, data: Data, samples: int, seed: int) -> list[int]:
    """Return where so many samples of a result stand in its data, drawn at random."""
    drawn = _drawn(result.index, samples, seed)
    positions: list[int] = np.flatnonzero(np.isin(samples_of(data, None).index, drawn)).tolist()
    return positions


def _searched(
    attack: Attack,
    name: str,
    like: Attack,
    model: Model,
    data: Data,
    positions: Sequence[int],
    beside: Run,
    seed: int,
) -> Result:
    """Search samples by an attack under the name, the threat model and the strengths of the audited one."""
    same = replace(attack, threat=like.threat, eight_bit=like.eight_bit, typical=0)
    renamed = replace(same, name=name, strengths=like.strengths)
    asked = Request(attacks=renamed, samples=positions, seed=seed, run=beside, diagnose=False, progress=False)
    return evaluated(model, data, asked)


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
        for name, ours in _searched_as(result).items():
            fallen: dict[str, int] = {}
            attack = _recorded(name, result, ours)
            for kind, through, other in _kinds(attack, classifier, data, positions, blind=name in result.invalid):
                found = _searched(other, name, attack, through, data, positions, beside, seed)
                fallen[kind] = _more_by(found, result, name)
            beside.describe({f"kinds {name}": fallen})
    return result.reread()


def _drawn(index: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.int64]:
    order = np.random.default_rng([seed % 2**63, _DRAW]).permutation(np.sort(index))
    return np.sort(order[:samples])


def _more_by(found: Result, result: Result, name: str) -> int:
    """How many samples the dear search broke at a smaller strength than the run."""
    rows = np.flatnonzero(np.isin(result.index, found.index))
    before = dict(zip(result.index[rows].tolist(), result.minimal_strength(name)[rows].tolist(), strict=True))
    after = zip(found.index.tolist(), found.minimal_strength(name).tolist(), strict=True)
    return sum(strength < before[position] for position, strength in after)


def _kinds(
    attack: Attack, model: Classifier, data: Data, positions: Sequence[int], blind: bool
) -> Iterator[tuple[str, Classifier, Attack]]:
    """What a sample is searched by: name, model (with a gradient that leads, where its own misleads), attack."""
    yield "high effort", model, scale_effort(attack, "high")
    for other in _others(attack):
        yield other.name, model, other
    if not blind:
        return
    with undisturbed(), seeded(0, model.device), model.evaluating():
        work = samples_of(data, list(positions[:_LOOKED_AT]))
        x, labels = work.rows[:_LOOKED_AT].to(model.device, model.dtype), work.labels.to(model.device)
        noise = Noise.of(0, torch.from_numpy(work.index).to(model.device), "repair")
        ways = around(model, LookedAt(model, x, labels, noise))
    for way in ways:
        yield way.name, way.model, attack
    yield "estimated gradient", estimated(model), _shortened(attack)


def _others(attack: Attack) -> list[Attack]:
    """Other kinds of attack with the same threat model."""
    same = [other for other in catalogue().values() if other.threat == attack.threat and other.name != attack.name]
    if same or not attack.threat.optimised:
        return same
    return [attack_named(f"{optimizer}-{attack.name}") for optimizer in _ALONE]


def _recorded(name: str, result: Result, ours: str) -> Attack:
    """Return the attack `ours` with the threat model and the strengths that a result has under `name`."""
    records = [record.model_copy(update={"name": ours}) for record in result.records.values() if record.name == name]
    return replace(attack_as_recorded(ours, records), strengths=tuple(result.strengths(name).tolist()))


def _shortened(attack: Attack) -> Attack:
    """The attack with one bounding run and one ascent, for gradients that cost many passes."""
    search, plan = attack.searches[0], attack.plan(attack.searches[0])
    first = [*plan.runs_in("bound")[:1], *plan.runs_in("ascend")[:1]]
    runs = tuple(replace(run, count=1, searches=()) for run in first or plan.runs)
    return replace(attack, runs=runs, search_order=(search,))


def _cheap(result: Result) -> bool:
    """Whether an audit costs at most a tenth of what the run has cost."""
    spent = sum(sum(result.passes(name)) for name in result.attacks) * result.samples
    dear = sum(_most(name, ours, result) for name, ours in _searched_as(result).items())
    return result.run is not None and SAMPLES * dear <= _SHARE * spent


def _searched_as(result: Result) -> dict[str, str]:
    """Return the attacks of a result that an audit searches again, each with this package's attack that does so."""
    own = {record.name: record.counterpart for record in result.records.values() if record.counterpart}
    return {name: own.get(name, name) for name in result.attacks if name in own or name in catalogue()}


def _most(name: str, ours: str, result: Result) -> float:
    """Passes that the audit of a sample takes at most."""
    attack = _recorded(name, result, ours)
    kinds: Mapping[str, Attack] = {"": scale_effort(attack, "high")} | {each.name: each for each in _others(attack)}
    classes = len(result.identity.model.probe[0]) if result.identity is not None else 2
    first = [(each, each.searches[0]) for each in kinds.values()]
    count = len(attack.strengths)
    return float(sum(maximal_passes(a.plan(by), by, count, classes, a.threat.chooses) for a, by in first))
