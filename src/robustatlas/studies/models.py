"""The models of a study, ready to be evaluated: trained in it, of other sources, or behind a defense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.models import load_model
from robustatlas.models.card import CARD
from robustatlas.models.classifier import Classifier
from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing
from robustatlas.models.networks import load_trained
from robustatlas.studies.description import ModelEntry
from robustatlas.studies.planning import Step
from robustatlas.training.snapshots import EPOCHS

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished

_DEFENSES: Mapping[str, Callable[[int], nn.Module]] = {
    "jpeg": JPEGCompression,
    "bits": BitDepthReduction,
    "median": MedianSmoothing,
}


def model_of(
    finished: Finished, name: str, seed: int | None, epoch: int | None = None, device: str | None = None
) -> Classifier:
    """A model of the study, ready, under the name that runs keep."""
    entry = finished.study.models[name]
    called = finished.label(name) if seed is None else f"{finished.label(name)} seed {seed}"
    if entry.of is not None:
        inner = model_of(finished, entry.of, seed, epoch, device)
        return Classifier(Defended(inner.net, *defenses(entry)), inner.mean, inner.std, device=device, name=called)
    if entry.source is not None:
        return load_model(entry.source, entry.weights, device=device, name=called, arguments=entry.arguments)
    folder = finished.folder / Step("models", name, seed=seed).place
    place = folder if epoch is None else folder / EPOCHS / f"{epoch:04d}"
    if not (place / CARD).is_file():
        raise UserError(f"{place} holds no weights; the training of {name} did not keep them.")
    return Classifier(load_trained(place).net, device=device, name=called)


def defenses(entry: ModelEntry) -> list[nn.Module]:
    """What stands before a network, from ``{"jpeg": 75}``, ``{"bits": 4}``, ``{"median": 2}``.

    Raises:
        UserError: something else.
    """
    given = entry.defense or {}
    if unknown := [name for name in given if name not in _DEFENSES]:
        raise UserError(f"There is no defense {unknown[0]!r}; there are {', '.join(_DEFENSES)}.")
    return [_DEFENSES[name](value) for name, value in given.items()]
