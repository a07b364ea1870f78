"""The case of given examples: model, samples, and the attacks of a run for which they are evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.description import to_plain_data
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.errors import UserError
from robustatlas.common.wording import pluralise
from robustatlas.data import Dataset, load_dataset
from robustatlas.evaluation.examples import Examples
from robustatlas.evaluation.records import PIXELS, recorded_attack
from robustatlas.evaluation.samples import ChosenSamples, choose_samples
from robustatlas.models.classifier import Classifier
from robustatlas.models.loading import load_model
from robustatlas.outcomes import AttackRecord, Run
from robustatlas.outcomes.strengths import merged_strengths
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L0, L1, L2, Linf

NORMS = {"linf": Linf, "l2": L2, "l1": L1, "l0": L0}


def is_size_from_images(threat: ThreatModel) -> bool:
    """Return if the size of an example follows from the image alone."""
    return isinstance(threat, tuple(NORMS.values()))


@dataclass(frozen=True, eq=False)
class Case:
    """M examples held against the N samples that they change.

    Attributes:
        store: the run.
        model: its model.
        work: the samples.
        rows: ``[M]``, the sample of each example.
        given: the examples.
        wanted: attack of the run -> its record, at all strengths that the run searched, and its threat model.
        by: who found them.
        eight_bit: they count only as they are after rounding to 8 bits.
    """

    store: Run
    model: Classifier
    work: ChosenSamples
    rows: NDArray[np.int64]
    given: Examples
    wanted: Mapping[str, tuple[AttackRecord, ThreatModel]]
    by: str
    eight_bit: bool


def model_source(store: Run) -> str:
    """Return the source of the model of a run. Raise :class:`UserError` if the model was given as an object."""
    source = store.identity.model.source
    if not source:
        raise UserError(
            f"The run was made with a model given as an object ({store.identity.model.name}); give that model."
        )
    return source


def load_run_model(store: Run, model: Classifier | nn.Module | Callable[[Tensor], Any] | str | None) -> Classifier:
    """The model given, or the one that the run names."""
    model = model_source(store) if model is None else model
    if isinstance(model, str):
        return load_model(model)
    return model if isinstance(model, Classifier) else Classifier(model)


def samples_of_examples(
    store: Run, given: Examples, data: Dataset | tuple[Any, Any] | str | None
) -> tuple[ChosenSamples, NDArray[np.int64]]:
    """The samples that the examples change, and the row of each example among them."""
    if data is None or isinstance(data, str):
        data = load_dataset(data or store.identity.data.name)
    whole = choose_samples(data, None)
    index = given.index
    if index is None:
        index = _positions(store, len(given), whole.index)
    known = {int(position): row for row, position in enumerate(whole.index)}
    if strange := [int(position) for position in index if int(position) not in known]:
        raise UserError(f"The examples change image {strange[0]}, which is not among the {len(known)} of the data.")
    positions, rows = np.unique(np.array([known[int(position)] for position in index]), return_inverse=True)
    return whole.select(torch.from_numpy(positions)), rows.reshape(-1)


def _positions(store: Run, count: int, of_data: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the images that examples without ``index`` change."""
    searched = store.table().index
    for positions in (of_data, searched):
        if len(positions) == count:
            return positions
    raise UserError(
        f"{pluralise(count, 'example')} without 'index' do not say which images they change; the data has "
        f"{len(of_data)} and the run {len(searched)}. Add an array 'index' [M] of positions in the data set."
    )


def records_to_support(
    store: Run,
    model: Classifier,
    given: Examples,
    attacks: str | Attack | Sequence[str | Attack] | None,
    first: Tensor,
) -> dict[str, tuple[AttackRecord, ThreatModel]]:
    """Attack of the run -> its record, at all strengths that the run searched, and its threat model for data that begin
    with ``first``."""
    searched: dict[str, list[AttackRecord]] = {}
    for record in store.records().values():
        if record.examples_source is None:
            searched.setdefault(record.name, []).append(record)
    place = store.path or "The run"
    if attacks is None and given.attack:
        attacks = given.attack
    if attacks is None:
        attacks = [name for name in NORMS if name in searched]
        if not attacks:
            raise UserError(
                f"{place} has none of linf, l2, l1 and l0, but {', '.join(searched) or 'nothing'}; say by 'attacks' "
                "which of these the examples are evidence for."
            )
    wanted = {}
    for attack in (_as_searched(each, searched) for each in resolve_attacks(attacks)):
        records = searched.get(attack.name)
        if not records:
            raise UserError(f"{place} has no attack {attack.name!r}; it has {', '.join(searched) or 'none'}.")
        threat = attack.threat.for_data(first).for_model(model)
        held = {key: value for key, value in records[0].threat.items() if key != PIXELS}
        if to_plain_data(threat) != held and _as_recorded(threat) != held:
            raise UserError(
                f"The run searched {attack.name!r} under another threat model than the one of that name now; give the "
                "very attack as an object."
            )
        if not records[0].monotone:
            raise UserError(
                f"{attack.name!r} was judged at each strength by itself, so the size of an example says nothing of it; "
                "only nested attacks take examples."
            )
        if not is_size_from_images(threat) and given.attack != attack.name:
            raise UserError(
                f"Whether {attack.name!r} may make an image cannot be seen from the image; give 'theta' and "
                f"'attack' ({attack.name!r}) beside it."
            )
        merged = merged_strengths([np.array(record.strengths) for record in records])
        wanted[attack.name] = (records[0].model_copy(update={"strengths": tuple(merged)}), threat)
    return wanted


def _as_searched(attack: Attack, searched: Mapping[str, Sequence[AttackRecord]]) -> Attack:
    """An attack of the catalogue with the threat model that the run searched; another one as it is."""
    ours = attack is catalogue().get(attack.name)
    return recorded_attack(attack.name, searched.get(attack.name, ())) if ours else attack


def _as_recorded(threat: ThreatModel) -> Any:
    """A threat model as a run's JSON gives it back."""
    return AttackRecord(name="threat", strengths=(1.0,), threat=to_plain_data(threat)).threat
