"""The models of a study, ready to be evaluated: trained in it, of other sources, or behind a defense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustatlas.common.errors import UserError
from robustatlas.models import load_model
from robustatlas.models.card import CARD
from robustatlas.models.classifier import Classifier
from robustatlas.studies.planning import Step
from robustatlas.training.snapshots import EPOCHS

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished


def model_of(
    finished: Finished, name: str, seed: int | None, epoch: int | None = None, device: str | None = None
) -> Classifier:
    """A model of the study, ready, under the name that runs keep."""
    entry = finished.study.models[name]
    called = finished.label(name) if seed is None else f"{finished.label(name)} seed {seed}"
    if entry.source is not None:
        return load_model(entry.source, entry.weights, device=device, name=called, arguments=entry.arguments)
    folder = finished.folder / Step("models", entry.of or name, seed=seed).place
    place = folder if epoch is None else folder / EPOCHS / f"{epoch:04d}"
    if not (place / CARD).is_file():
        raise UserError(f"{place} holds no weights; the training of {entry.of or name} did not keep them.")
    before = "" if entry.of is None else f"defended:{entry.defense},"
    return load_model(f"{before}trained:{place}", device=device, name=called)
