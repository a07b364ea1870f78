"""The samples of an evaluation: those of a data set that a request names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from robustatlas.checks.sanity import NOT_KNOWN, ClassesHeld, check_inputs
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.host import check_default_device
from robustatlas.common.scalars import integer_or_none
from robustatlas.data import Beginning, Dataset, Fingerprint, InMemory, Rows, from_torch
from robustatlas.data.arrays import to_tensor
from robustatlas.data.labels import choose_positions, class_numbers, is_sorted
from robustatlas.evaluation.request import Data, Samples
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes import DataRecord, Run
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.storage import is_run


@dataclass(frozen=True)
class ChosenSamples:
    """Samples of an evaluation.

    Attributes:
        rows: ``[N, ...]`` images in [0, 1], perhaps on disk.
        labels: ``[N]`` labels.
        index: ``[N]`` positions in the data set.
        record: record of the data set.
        first: first samples of the data set, whichever are evaluated.
        classes: classes that the data set has.
    """

    rows: Rows
    labels: Tensor
    index: Integers
    record: DataRecord
    first: Beginning
    classes: ClassesHeld = NOT_KNOWN

    def select(self, positions: Tensor) -> ChosenSamples:
        """Return the samples at some positions [M]."""
        chosen = {"labels": self.labels[positions], "index": self.index[positions.numpy()]}
        return replace(self, rows=self.rows.subset(positions), **chosen)

    def load(self, model: Classifier, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return images and labels at some positions [M], on the device of a model."""
        return self.rows[positions].to(model.device, model.dtype), self.labels[positions].to(model.device)


def open_data(data: Data, samples: Samples = None) -> Data:
    """Return data that can be read several times at the cost of once: items of a torch data set are read here, and of
    ``samples`` no more than it takes to find them."""
    if not isinstance(data, torch.utils.data.Dataset):
        return data
    return from_torch(data, first=None if samples is None else _first_holding(samples))


def _first_holding(samples: Samples) -> int | None:
    """Return how many of the first items of a data set hold ``samples``; None where these are nothing to count."""
    if (count := integer_or_none(samples)) is not None:
        return count if count > 0 else None
    try:
        positions = np.asarray(samples)
    except ValueError:
        return None
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or not len(positions):
        return None
    return int(positions.max()) + 1 if int(positions.min()) >= 0 else None


def choose_samples(
    data: Data, samples: Samples = None, seed: int = 0, run: str | Path | Run | None = None
) -> ChosenSamples:
    """Return the samples of ``data`` that ``samples`` names: positions, a mask, or their number."""
    check_default_device()
    all_samples = _all_samples(open_data(data, samples))
    positions = select_positions(all_samples, samples, seed, run)
    return all_samples if positions is None else all_samples.select(positions)


def _all_samples(data: Data) -> ChosenSamples:
    """Return all samples of ``data``."""
    if isinstance(data, Dataset):
        record = DataRecord(name=data.name, **vars(data.fingerprint))
        classes = ClassesHeld(data.classes_present, data.classes)
        return ChosenSamples(data.rows, data.labels.long(), data.index.numpy(), record, data.beginning, classes)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        rows = InMemory(check_inputs(to_tensor(data[0]), data[1]))
        labels, index = torch.from_numpy(class_numbers(data[1], "Labels")), torch.arange(len(rows))
        record = DataRecord(name="arrays", **vars(Fingerprint.compute(rows, labels)))
        classes = ClassesHeld(len(torch.unique(labels)))
        return ChosenSamples(rows, labels, index.numpy(), record, Beginning.read(rows, labels, index), classes)
    raise UserError(
        f"data is a {type(data).__name__}; expected a Dataset (see load_dataset) or a pair (images, labels)."
    )


def select_positions(
    work: ChosenSamples, samples: Samples, seed: int, run: str | Path | Run | None = None
) -> Tensor | None:
    """Return the positions of the samples that ``samples`` names, among all of a data set; None: all.

    A number of samples means the first ones. If the data are sorted by class, it means a random choice by ``seed`` with
    the classes in their proportions, unless ``run`` was begun with the first ones.

    Raises:
        UserError: neither positions nor a mask nor a number that the data has.
    """
    if samples is None:
        return None
    positions = torch.from_numpy(positions_from_request(samples, len(work.rows)))
    if integer_or_none(samples) is None:
        return positions
    return choose_positions(
        work.labels, torch.from_numpy(work.index), len(positions), seed, _stratification(work.labels, run)
    )


def take_samples(
    data: Dataset, count: int | None, stratified: bool | None, seed: int, run: str | Path | Run | None
) -> Dataset:
    """Return ``count`` samples of ``data``, as :func:`select_positions` does unless ``stratified`` is given."""
    if count is not None and stratified is None:
        stratified = _stratification(data.labels, run)
    return data.take(count, stratified, seed)


def _stratification(labels: Tensor, run: str | Path | Run | None) -> bool | None:
    """Return False if a run of sorted data was begun with the first samples, else None: sorted data are stratified."""
    return False if is_sorted(labels) and began_with_first_samples(run, len(labels)) else None


def began_with_first_samples(run: str | Path | Run | None, count: int) -> bool:
    """Return if a run was begun with the first samples of data that has ``count``."""
    if run is None or not (isinstance(run, Run) or is_run(run)):
        return False
    begun = run if isinstance(run, Run) else Run.open(run)
    asked = [plan.index() for plan in begun.plans()] + [
        begun.certificates.stored_samples(each) for each in begun.certificates.records()
    ]
    return bool(asked) and len(asked[0]) < count and np.array_equal(asked[0], np.arange(len(asked[0])))


def positions_from_request(samples: Samples, count: int) -> Integers:
    """Return the positions [M] that ``samples`` names among ``count``: the first ones, a list, or a boolean mask.

    Raises:
        UserError: neither positions nor a mask nor a number that the data has.
    """
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
            f"samples is {shorten(repr(samples))}; expected how many, their positions, or a mask of those to take."
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
