"""Weights with their card, written at the end of a training and after some of its epochs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from robustatlas.models.card import WEIGHTS, Card, TrainingIdentity, training_circumstances
from robustatlas.outcomes import sha256_of_tensors
from robustatlas.training.checkpoint import write_tensors
from robustatlas.training.run import TrainingRun

EPOCHS = "epochs"
"""Name of the folder of weights after some of the epochs."""


@dataclass(frozen=True)
class CardFacts:
    """Facts of a card that are known before the training."""

    identity: TrainingIdentity
    architecture: str
    trained_on: Mapping[str, float]
    notes: tuple[str, ...] = ()


def make_card(
    run: TrainingRun, facts: CardFacts, epoch: int, accuracies: Mapping[str, float], weights: Mapping[str, Tensor]
) -> Card:
    """Return the card of the ``weights`` after an epoch (from 1)."""
    return Card(
        architecture=facts.architecture,
        parameters=sum(p.numel() for p in run.net.parameters() if p.requires_grad),
        trained_on=dict(facts.trained_on),
        identity=facts.identity,
        epoch=epoch,
        accuracies=dict(accuracies),
        warnings=tuple(run.position.warnings),
        notes=facts.notes,
        weights_sha256=sha256_of_tensors(weights),
        seconds=run.position.seconds,
        **training_circumstances(),
    )


def write_network(
    folder: Path,
    run: TrainingRun,
    facts: CardFacts,
    epoch: int,
    accuracies: Mapping[str, float],
    card: Card | None = None,
) -> None:
    """Write weights and card into ``folder``: the network's own as ``card``, averaged ones if there are any."""
    weights = run.net.state_dict() if card is not None else (run.ema or run.net.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / WEIGHTS, weights, {"recipe": run.recipe.name})
    (card or make_card(run, facts, epoch, accuracies, weights)).write(folder)
