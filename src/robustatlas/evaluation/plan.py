"""What an evaluation has to do: the attacks, samples and strengths that were asked for, minus what the run has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.counterparts import counterpart_of
from robustatlas.attacks.definition import Attack, Effort, Search
from robustatlas.attacks.description import to_plain_data
from robustatlas.attacks.effort import scale_effort
from robustatlas.attacks.everyday import with_edges
from robustatlas.attacks.search import search_named
from robustatlas.attacks.search.plan import MINIMUM_SIZE
from robustatlas.attacks.suites import SUITES, attacks_of
from robustatlas.attacks.table import run_in_words
from robustatlas.checks.sanity import NOT_KNOWN, ClassesHeld, check_inputs
from robustatlas.common.errors import UserError, brief
from robustatlas.common.host import check_default_device
from robustatlas.common.scalars import real, whole
from robustatlas.common.wording import FALLING, instead, typed
from robustatlas.data import Beginning, Dataset, Fingerprint, InMemory, Rows, of_torch
from robustatlas.data.arrays import array_of, tensor_of
from robustatlas.data.sampling import is_sorted, some_of
from robustatlas.engine.numerics import NUMERICS
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes import AttackRecord, DataRecord, Run
from robustatlas.outcomes.draws import LOOKS
from robustatlas.outcomes.records import GradientRecord
from robustatlas.outcomes.storage import is_run
from robustatlas.outcomes.strengths import check_strengths, merged_strengths, position_of
from robustatlas.threats.base import UnsupportedInputError, beyond_images

if TYPE_CHECKING:
    from robustatlas.evaluation.request import Request

Pixels = Literal["any", "8bit"]
"""Which inputs count as found: any, or those alone that an 8-bit file can hold."""
EIGHT_BIT: Pixels = "8bit"
PIXELS = "pixels"
"""In the recorded threat model of an attack: which inputs it holds, where these are not any."""
Samples = int | Sequence[int] | NDArray[np.int64] | NDArray[np.bool_] | None
Strengths = Mapping[str, Sequence[float] | NDArray[np.float64]]
Attacks = str | Attack | Sequence[str | Attack]
Data = Dataset | tuple[Tensor | NDArray[Any], Tensor | NDArray[Any]] | torch.utils.data.Dataset[Any]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Work:
    """The samples of an evaluation: ``rows`` [N, ...] in [0, 1], ``labels`` [N], ``index`` [N] in the data set, the
    data set's ``record``, its ``first`` samples, whichever are evaluated, and its ``classes``."""

    rows: Rows
    labels: Tensor
    index: Integers
    record: DataRecord
    first: Beginning
    classes: ClassesHeld = NOT_KNOWN

    def at(self, positions: Tensor) -> Work:
        """Those at some positions [M]."""
        chosen = {"labels": self.labels[positions], "index": self.index[positions.numpy()]}
        return replace(self, rows=self.rows.chosen(positions), **chosen)

    def on(self, model: Classifier, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Images and labels of those at some positions [M], where the model computes."""
        return self.rows[positions].to(model.device, model.dtype), self.labels[positions].to(model.device)


@dataclass(frozen=True)
class Task:
    """One attack at some strengths by one search, as a run records it; ``certified``: positions of samples, increasing,
    and up to which size nothing can be found of each."""

    attack: Attack
    search: Search
    record: AttackRecord
    certified: tuple[Integers, NDArray[np.float64]] | None = field(default=None, compare=False)

    def certified_at(self, index: Integers) -> NDArray[np.float64] | None:
        """``[M]``: sizes up to which nothing can be found of the samples ``index``; None: nothing is certified."""
        if self.certified is None:
            return None
        known, sizes = self.certified
        at = np.searchsorted(known, index).clip(max=len(known) - 1)
        return np.where(known[at] == index, sizes[at], 0.0)

    @property
    def told(self) -> tuple[str, ...]:
        """Columns that are read of what a run has already."""
        return ("minimal_size", "seconds", *(() if self.record.monotone else ("fooled",)))

    @property
    def held(self) -> int:
        """Inputs that a sample takes the memory of."""
        return len(self.attack.strengths) + 1 if search_named(self.search).shares else 1


def opened(data: Data) -> Data:
    """``data`` for whoever looks at it several times: of a data set of torch all items are read for each
    :func:`samples_of`, of what comes back once."""
    return of_torch(data) if isinstance(data, torch.utils.data.Dataset) else data


def samples_of(data: Data, samples: Samples = None, seed: int = 0, run: str | Path | Run | None = None) -> Work:
    """The samples of ``data`` that ``samples`` names: positions, a mask, or so many, see :func:`positions_of`."""
    check_default_device()
    everything = _all_of(opened(data))
    positions = positions_of(everything, samples, seed, run)
    return everything if positions is None else everything.at(positions)


def _all_of(data: Data) -> Work:
    """All samples of ``data``."""
    if isinstance(data, Dataset):
        record = DataRecord(name=data.name, **vars(data.fingerprint))
        classes = ClassesHeld(data.held, data.classes)
        return Work(data.rows, data.labels.long(), data.index.numpy(), record, data.beginning, classes)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        images, labels = map(tensor_of, data)
        rows, index = InMemory(check_inputs(images, labels)), torch.arange(len(images))
        record = DataRecord(name="arrays", **vars(Fingerprint.of(rows, labels)))
        classes = ClassesHeld(len(torch.unique(labels)))
        return Work(rows, labels.long(), index.numpy(), record, Beginning.of(rows, labels, index), classes)
    raise UserError(
        f"data is a {type(data).__name__}; expected a Dataset (see load_dataset) or a pair (images, labels)."
    )


def positions_of(work: Work, samples: Samples, seed: int, run: str | Path | Run | None = None) -> Tensor | None:
    """Positions among all samples of a data set of those that ``samples`` names; None: all.

    A number of samples is the first ones, or of data that are sorted by class a random choice by ``seed`` with the
    classes in their proportions, unless ``run`` was begun with the first ones.

    Raises:
        UserError: neither positions nor a mask nor a number that the data has.
    """
    if samples is None:
        return None
    positions = torch.from_numpy(positions_among(samples, len(work.rows)))
    if whole(samples) is None:
        return positions
    return some_of(work.labels, torch.from_numpy(work.index), len(positions), seed, _by_class(work.labels, run))


def subset(
    data: Dataset, count: int | None, stratified: bool | None, seed: int, run: str | Path | Run | None
) -> Dataset:
    """So many samples of ``data``, as :func:`positions_of` takes them where ``stratified`` is not said."""
    if count is not None and stratified is None:
        stratified = _by_class(data.labels, run)
    return data.take(count, stratified, seed)


def _by_class(labels: Tensor, run: str | Path | Run | None) -> bool | None:
    """Whether samples are taken by class: not where a run of sorted data was begun with the first ones; None: where
    data are sorted."""
    return False if is_sorted(labels) and begun_with_the_first(run, len(labels)) else None


def begun_with_the_first(run: str | Path | Run | None, count: int) -> bool:
    """Whether a run was begun with the first samples of data that has ``count``."""
    if run is None or not (isinstance(run, Run) or is_run(run)):
        return False
    begun = run if isinstance(run, Run) else Run.open(run)
    asked = [plan.index() for plan in begun.plans()] + [begun.certificates.done(each) for each in begun.certified_by()]
    return bool(asked) and len(asked[0]) < count and np.array_equal(asked[0], np.arange(len(asked[0])))


def positions_among(samples: Samples, count: int) -> Integers:
    """The positions [M] that ``samples`` names among ``count``: the first so many, positions, or a boolean mask."""
    try:
        given = np.asarray(samples)
    except ValueError:
        given = np.asarray(None)
    if given.ndim == 0 and given.dtype.kind in "iu":
        if not 1 <= int(given) <= count:
            raise UserError(f"samples={samples}, but the data has {count}; expected a number from 1 to {count}.")
        return np.arange(int(given))
    if given.ndim != 1 or given.dtype.kind not in "iub":
        raise UserError(
            f"samples is {brief(repr(samples))}; expected how many, their positions, or a mask of those to take."
        )
    if given.dtype.kind == "b":
        if len(given) != count:
            raise UserError(f"samples is a mask of {len(given)}, but the data has {count} samples; give one for each.")
        given = np.flatnonzero(given)
    if not len(given) or given.min() < 0 or given.max() >= count:
        raise UserError(f"samples must be positions from 0 to {count - 1}, at least one.")
    if len(np.unique(given)) < len(given):
        raise UserError("samples names some positions twice; give each sample once.")
    return given.astype(np.int64)


def chosen_attacks(asked: Request, model: Classifier, first: Tensor) -> list[Attack]:
    """The attacks asked for, at the strengths and effort, of the pixels and with the border asked for, bound to the
    model and to data that begin with ``first`` [M, ...].

    Raises:
        UserError: an unknown name, an attack named twice, strengths that do not increase or of no attack, an effort of
            published protocols, a strength beyond what images can differ by.
    """
    protocol, effort, exclude = asked.protocol, asked.effort, asked.exclude
    if protocol != "default" and effort != "default":
        raise UserError(f"effort={effort!r} is not for protocol={protocol!r}, whose steps are those of its source.")
    sides = first.shape[2:] if first.dim() == 4 else ()
    attacks = [scale_effort(attack, effort) for attack in attacks_of(asked.attacks_on(model), protocol, sides)]
    names = [attack.name for attack in attacks]
    if unknown := [str(name) for name in exclude if name not in names]:
        there = instead(unknown[0], names, f"there are {', '.join(names)}")
        raise UserError(f"{unknown[0]!r} is to be left out, but is not among the attacks{there}")
    attacks = [attack for attack in attacks if attack.name not in exclude]
    if asked.border is not None:
        attacks = with_edges(attacks, asked.border)
    if not attacks:
        raise UserError(f"Every attack of {', '.join(names)} is left out; keep at least one.")
    if len(set(names)) < len(names):
        raise UserError(f"Some attack is named twice in {', '.join(names)}; name each once.")
    wanted = _strengths(asked.strengths, names)
    for attack in attacks:
        largest = wanted.get(attack.name, attack.strengths)[-1]
        if largest > max(attack.threat.most(first), attack.strengths[-1]):
            raise UserError(beyond_images(attack.name, largest, attack.threat, first, attack.about.unit))
    return [
        replace(
            attack,
            threat=attack.threat.for_data(first),
            eight_bit=attack.eight_bit or asked.pixels == EIGHT_BIT,
            strengths=wanted.get(attack.name, attack.strengths),
            about=replace(attack.about, calibrated="") if attack.name in wanted else attack.about,
        ).bound_to(model)
        for attack in attacks
    ]


def attack_as_recorded(name: str, records: Iterable[AttackRecord]) -> Attack:
    """The attack of the catalogue with the threat model that a run searched: of its pixels, with its border."""
    attack = attack_named(name)
    recorded = next((record.threat for record in records if record.name == name), {})
    if (border := recorded.get("border")) is not None:
        (attack,) = with_edges([attack], str(border))
    return replace(attack, eight_bit=recorded.get(PIXELS) == EIGHT_BIT)


def _strengths(given: Strengths | None, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UserError(
            f"strengths is {brief(repr(given))}; expected strengths for each attack by name, such as "
            '{"linf": [0.01, 0.02]}.'
        )
    if unknown := [str(name) for name in given if name not in names]:
        there = instead(unknown[0], names, f"there are {', '.join(names)}")
        raise UserError(f"Strengths are given for {', '.join(unknown)}, which is not among the attacks{there}")
    wanted = {}
    for name, values in given.items():
        try:
            grid = tuple(typed(name, real(value)) for value in np.atleast_1d(array_of(values)).tolist())
        except UserError:
            grid = ()
        if not grid or not all(0 < value < np.inf for value in grid) or any(a >= b for a, b in pairwise(grid)):
            expected = f"falling numbers below {FALLING[name]:g}" if name in FALLING else "positive, increasing numbers"
            raise UserError(f"The strengths of {name!r} are {brief(repr(values))}; expected {expected}.")
        check_strengths(grid, name)
        wanted[name] = grid
    return wanted


def those_that_fit(attacks: Sequence[Attack], given: Attacks, x: Tensor) -> tuple[list[Attack], list[str]]:
    """The attacks that fit inputs like ``x`` [1, ...], and a sentence for each one of a suite that does not.

    Raises:
        UnsupportedInputError: an attack that was named itself does not fit, or none of a suite does.
    """
    items = [given] if isinstance(given, (str, Attack)) else list(given)
    own = {item.name if isinstance(item, Attack) else item for item in items if item not in SUITES}
    fitting, left_out = [], []
    for attack in attacks:
        try:
            attack.threat.check(x)
        except UnsupportedInputError as error:
            if attack.name in own:
                raise
            left_out.append(f"{attack.name} is left out: {error}")
        else:
            fitting.append(attack)
    if not fitting:
        raise UnsupportedInputError(left_out[0])
    return fitting, left_out


def record_of(
    attack: Attack,
    search: Search,
    seed: int,
    precision: str,
    model: Classifier | None = None,
    effort: Effort = "default",
    gradient: GradientRecord | None = None,
    first: Tensor | None = None,
) -> AttackRecord:
    """What determines the numbers of an attack, with the draws of a randomised ``model`` and the gradients that it
    gives, and what a reader wants to know of it; ``first``: images [M, ...] of the data."""
    plan = attack.plan(search)
    protocol = {
        "search": search,
        "search_version": search_named(search).version,
        "plan": to_plain_data(plan),
        "repairs": attack.repairs,
        "seed": seed,
        "precision": precision,
        "engine": to_plain_data(NUMERICS),
    }
    if any(run.role in MINIMUM_SIZE for run in plan.runs):
        protocol["unbounded"] = attack.unbounded
    if model is not None and model.draws is not None:
        protocol["draws"] = {"search": model.draws, "looks": list(LOOKS), "threshold": model.threshold}
    if attack.typical:
        protocol["typical"] = {"draws": attack.typical}
    if attack.threat.chooses:
        protocol["chosen"] = "by each run that begins anew"
    if model is not None and model.remedy:
        protocol["remedy"] = model.remedy
    if attack.errors != "accepted":
        protocol["errors"] = attack.errors
    largest = math.inf if first is None else attack.threat.most(first)
    return AttackRecord(
        name=attack.name,
        strengths=attack.strengths,
        monotone=attack.is_monotone(search),
        threat=to_plain_data(attack.threat) | ({PIXELS: EIGHT_BIT} if attack.eight_bit else {}),
        protocol=protocol,
        gradient=gradient,
        unit=attack.about.unit,
        source=attack.about.source,
        note=attack.about.note,
        calibrated=attack.about.calibrated,
        effort="" if effort == "default" else effort,
        runs=tuple(run_in_words(run) for run in plan.runs),
        counterpart=counterpart_of(attack),
        largest=largest if math.isfinite(largest) else None,
    )


def tasks_for(task: Task, run: Run) -> list[Task]:
    """The tasks that bring a run to what ``task`` asks for, without computing anything again.

    A run that has the attack at these very strengths goes on with it. One that has it at others, searched in the same
    way, is only searched at the strengths that are new.
    """
    known = run.records()
    if task.record.key in known:
        return [replace(task, record=known[task.record.key])]
    alike = [
        record
        for record in known.values()
        if record.same_search(task.record)
        and any(position_of(strength, record.strengths) is not None for strength in task.record.strengths)
    ]
    old = merged_strengths([np.array(record.strengths) for record in alike])
    new = tuple(strength for strength in task.record.strengths if position_of(strength, old) is None)
    found = [replace(task, attack=replace(task.attack, strengths=r.strengths), record=r) for r in alike]
    if new:
        found.append(
            replace(
                task,
                attack=replace(task.attack, strengths=new),
                record=task.record.model_copy(update={"strengths": new}),
            )
        )
    return found


def found_otherwise(tasks: Sequence[Task], run: Run) -> list[str]:
    """A sentence for each task of which a run has only what other runs, rules or versions of them found, or another
    gradient of the model."""
    known = run.records().values()
    said = []
    for record in (task.record for task in tasks):
        others = [old for old in known if old.same_set(record) and old.origin == record.origin]
        if not others or any(old.same_search(record) for old in others):
            continue
        gradient = any(old.protocol == record.protocol for old in others)
        how = "another gradient of the model" if gradient else "another plan"
        said.append(f"What the run has of {record.name!r} was found by {how}; it counts, and is computed anew.")
    return said
