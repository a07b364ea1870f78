"""Weights with their card, as a training leaves them in a folder: at its end, and after epochs on its way."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from robustatlas.models.card import WEIGHTS, Card, TrainingIdentity, training_circumstances
from robustatlas.outcomes import sha256_of_tensors
from robustatlas.training.checkpoint import write_tensors
from robustatlas.training.run import TrainingRun

EPOCHS = "epochs"
"""Folder of the weights after epochs on the way."""


@dataclass(frozen=True)
class Told:
    """What a card says that is known before the training."""

    identity: TrainingIdentity
    architecture: str
    trained_on: Mapping[str, float]
    notes: tuple[str, ...] = ()


def card_of(
    run: TrainingRun, told: Told, epoch: int, accuracies: Mapping[str, float], weights: Mapping[str, Tensor]
) -> Card:
    """The card of ``weights``, which are those of an epoch (from 1)."""
    return Card(
        architecture=told.architecture,
        parameters=sum(p.numel() for p in run.net.parameters() if p.requires_grad),
        trained_on=dict(told.trained_on),
        identity=told.identity,
        epoch=epoch,
        accuracies=dict(accuracies),
        warnings=tuple(run.position.warnings),
        notes=told.notes,
        weights_sha256=sha256_of_tensors(weights),
        seconds=run.position.seconds,
        **training_circumstances(),
    )


def write_network(
    folder: Path,
    run: TrainingRun,
    told: Told,
    epoch: int,
    accuracies: Mapping[str, float],
    card: Card | None = None,
) -> None:
    """Write weights and card into ``folder``: the network's own as ``card``, averaged ones where any are kept."""
    weights = run.net.state_dict() if card is not None else (run.ema or run.net.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / WEIGHTS, weights, {"recipe": run.recipe.name})
    (card or card_of(run, told, epoch, accuracies, weights)).write(folder)
