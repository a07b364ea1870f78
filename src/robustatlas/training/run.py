"""A training at work: all that it holds, from the beginning or from a checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.files import write_text
from robustatlas.common.noise import Noise
from robustatlas.data import Dataset
from robustatlas.training.checkpoint import (
    Position,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
    write_checkpoint,
)
from robustatlas.training.devices import Workers
from robustatlas.training.given import Images, network_dtype
from robustatlas.training.recipes import Recipe
from robustatlas.training.settings import Settings


@dataclass(frozen=True)
class EpochDraws:
    """Random numbers of an epoch (from 0); a resumed training draws the same.

    Attributes:
        epoch: from 0.
        order: [N], the training images in the order of this epoch.
        augmentation: a stream for each training image.
        crafting: for each update of a batch, a stream for each training image.
        shared: for each update of a batch, a stream for each batch of the epoch.
    """

    epoch: int
    order: Tensor
    augmentation: Noise
    crafting: tuple[Noise, ...]
    shared: tuple[Noise, ...]

    @classmethod
    def draw(cls, seed: int, index: Tensor, epoch: int, batches: int, updates: int) -> EpochDraws:
        """Draw for images with the positions ``index`` [N] in the data, in ``batches`` batches of ``updates``
        updates.
        """
        keys = Noise.for_samples(seed, index, "order").child(epoch).uniform(1, dtype=torch.float64)
        images = Noise.for_samples(seed, index, "training").child(epoch)
        steps = torch.arange(epoch * batches, (epoch + 1) * batches, device=index.device)
        whole = Noise.for_samples(seed, steps, "batch")
        return cls(
            epoch=epoch,
            order=keys.squeeze(1).argsort(stable=True),
            augmentation=images.child(0),
            crafting=tuple(images.child(1 + part) for part in range(updates)),
            shared=tuple(whole.child(part) for part in range(updates)),
        )


@dataclass
class TrainingRun:
    """A training at work."""

    net: nn.Module
    recipe: Recipe
    settings: Settings
    workers: Workers
    optimizer: torch.optim.Optimizer
    images: Images
    held: Images
    extra: Images | None
    classes: int
    ema: dict[str, Tensor]
    """Averaged weights, where any are (ema, swa_from)."""
    best: dict[str, Tensor]
    memory: dict[str, Tensor]
    position: Position
    sums: Tensor
    """Sums over the images of the current epoch: float64 [3 + A].

    Their number, loss, correctness, and correctness at the examples of each of A attacks (NaN: unknown).
    """
    draws: EpochDraws | None = None
    """Random numbers of the current epoch."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches of an epoch."""
        return math.ceil(len(self.images) / self.settings.batch_size)

    @property
    def steps(self) -> int:
        """Number of batches of all epochs."""
        return self.settings.epochs * self.steps_per_epoch


def begin(
    net: nn.Module,
    data: Dataset,
    recipe: Recipe,
    settings: Settings,
    team: Workers,
    held: Tensor,
    classes: int,
    extra: Dataset | None = None,
) -> TrainingRun:
    """Return the beginning of a training."""
    dtype = network_dtype(net)
    images, kept = (Images(data, mask.nonzero()[:, 0], team.device, dtype) for mask in (~held, held))
    more = None if extra is None else Images(extra, torch.arange(len(extra)), team.device, dtype)
    averaged = bool(settings.ema) or settings.swa_from is not None
    start = Noise.for_samples(
        settings.seed, torch.zeros(1, dtype=torch.int64, device=team.device), f"memory/{recipe.name}"
    )
    return TrainingRun(
        net=net,
        recipe=recipe,
        settings=settings,
        workers=team,
        optimizer=_optimizer(net, settings),
        images=images,
        held=kept,
        extra=more,
        classes=classes,
        ema={name: value.detach().clone() for name, value in net.state_dict().items()} if averaged else {},
        best={},
        memory=dict(recipe.remember(net, images.batch(torch.zeros(1, dtype=torch.int64, device=team.device)), start)),
        position=Position(),
        sums=torch.zeros(3 + len(recipe.against), dtype=torch.float64, device=team.device),
    )


def _optimizer(net: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    trained = [p for p in net.parameters() if p.requires_grad]
    if settings.decay_vectors:
        groups: list[dict[str, Any]] = [{"params": trained}]
    else:
        groups = [
            {"params": [p for p in trained if p.dim() > 1]},
            {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
        ]
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, rate, settings.momentum, weight_decay=decay, nesterov=settings.nesterov)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, rate, weight_decay=decay)
    return torch.optim.Adam(groups, rate, weight_decay=decay)


def restore(run: TrainingRun, folder: Path) -> None:
    """Go on from the checkpoint in ``folder``, if there is one."""
    found = read_checkpoint(folder)
    if found is None:
        return
    groups, run.position = found
    run.net.load_state_dict(groups["net"])
    sums = groups["epoch"]["sums"].to(run.workers.device)
    run.sums[:] = torch.nan  # where a checkpoint does not tell it of each attack
    run.sums[: len(sums)] = sums
    restore_optimizer(run.optimizer, groups.get("optimizer", {}))
    for target, name in ((run.ema, "ema"), (run.best, "best"), (run.memory, "memory")):
        target.update({key: value.to(run.workers.device) for key, value in groups.get(name, {}).items()})


def save(run: TrainingRun, folder: Path) -> None:
    """Write checkpoint and log."""
    groups = {
        "net": run.net.state_dict(),
        "optimizer": optimizer_tensors(run.optimizer),
        "ema": run.ema,
        "best": run.best,
        "memory": run.memory,
        "epoch": {"sums": run.sums},
    }
    write_checkpoint(folder, groups, run.position)
    write_log(folder, run.position.history)


LOG = "log.jsonl"


def write_log(folder: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write ``log.jsonl``: always the epochs of the checkpoint, whatever an interrupted run had written."""
    text = "".join(json.dumps(record) + "\n" for record in history)
    write_text(folder / LOG, text)


class Events:
    """TensorBoard's events in ``folder/tensorboard``; does nothing where TensorBoard is not installed."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.writer: Any = None
        else:
            self.writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, record: Mapping[str, Any]) -> None:
        """The figures of an epoch."""
        if self.writer is not None:
            for name, value in record.items():
                if isinstance(value, float):
                    self.writer.add_scalar(name, value, record["epoch"])
            self.writer.flush()
