"""The model and the data that a diagnosis or an audit is about: given, or found by what a run records of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.data import load_dataset
from robustatlas.evaluation.identity import model_record
from robustatlas.evaluation.request import Data, Samples
from robustatlas.evaluation.samples import ChosenSamples, choose_samples, open_data
from robustatlas.models.classifier import Classifier
from robustatlas.models.loading import load_model
from robustatlas.results.result import Result, load_result

Model = Classifier | nn.Module | Callable[[Tensor], Any]
Subject = Model | Result | str | Path
"""A model, or a result or the folder of a run. The model of a run is loaded from the source that the run records."""


@dataclass(frozen=True)
class KnownSubject:
    """A model and its data, with the result that they belong to (None: the subject is a model)."""

    model: Classifier
    data: Data
    work: ChosenSamples
    result: Result | None


def resolve_subject(
    subject: Subject, data: Data | None, model: Model | None = None, samples: Samples = None
) -> KnownSubject:
    """Return the model and the data of a subject; of a torch data set no more items are read than hold `samples`."""
    if isinstance(subject, (str, Path)):
        subject = load_result(subject)
    if not isinstance(subject, Result):
        if data is None:
            raise UserError("A model needs data to be looked at with: give data, such as ra.load_dataset('digits').")
        classifier = subject if isinstance(subject, Classifier) else Classifier(subject)
        data = open_data(data, samples)
        return KnownSubject(classifier, data, choose_samples(data, None), None)
    given = model if isinstance(model, Classifier) or model is None else Classifier(model)
    classifier = _with_draws_of_run(_load_model(subject) if given is None else given, subject)
    found = open_data(data, subject.index) if data is not None else _load_data(subject)
    work = choose_samples(found, None)
    known = KnownSubject(classifier, found, _samples_of_run(work, subject), subject)
    _check_identity(known, subject)
    return known


def _samples_of_run(work: ChosenSamples, result: Result) -> ChosenSamples:
    rows = np.flatnonzero(np.isin(work.index, result.index))
    if len(rows) < result.samples:
        raise UserError(f"The data lack samples of the run ({len(rows)} of {result.samples} are there); give its data.")
    return samples_of_rows(work, rows)


def samples_of_rows(work: ChosenSamples, rows: Any) -> ChosenSamples:
    """Return some rows of the samples."""
    return work.select(torch.from_numpy(np.asarray(rows, np.int64)))


def _load_model(result: Result) -> Classifier:
    source = result.identity.model.source if result.identity is not None else ""
    if not source:
        raise UserError("The run does not say where its model comes from; give the model as well (model=...).")
    try:
        return load_model(source)
    except UserError as error:
        raise UserError(
            f"The model of the run, {source!r}, cannot be loaded ({error}); give it (model=...)."
        ) from error


def _with_draws_of_run(model: Classifier, result: Result) -> Classifier:
    """Return the model with the draws of the run, unless it has draws of its own."""
    draws: Any = next((r.protocol["draws"] for r in result.records.values() if "draws" in r.protocol), None)
    if draws is None or model.draws is not None:
        return model
    return Classifier(model, draws=draws["search"], threshold=draws["threshold"])


def _load_data(result: Result) -> Data:
    try:
        return load_dataset(result.data)
    except UserError as error:
        raise UserError(
            f"The data of the run, {result.data!r}, are not found by name; give them (data=...)."
        ) from error


def _check_identity(known: KnownSubject, result: Result) -> None:
    if result.identity is None:
        return
    differences = result.identity.data.differences(known.work.record)
    differences += result.identity.model.differences(model_record(known.model, known.work.rows.shape[1:]))
    if differences:
        raise UserError(
            f"The model and data at hand are not those of the run: {'; '.join(differences)}. Give those of the run "
            "(model=..., data=...; on the command line --weights, --data)."
        )
