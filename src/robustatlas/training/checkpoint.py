"""State of a training in one safetensors file, which is written completely or not at all; nothing is pickled."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.files import write_atomically

CHECKPOINT = "checkpoint.safetensors"
_PROGRESS = "progress"


@dataclass
class Position:
    """Progress of a training.

    Attributes:
        step: number of finished batches of all epochs.
        history: a record for each finished epoch.
        warnings: sentences that were shown so far.
        best: epoch (from 1) and held-out accuracy in percent of the best weights so far.
        seconds: duration so far.
    """

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    best: tuple[int, float] | None = None
    seconds: float = 0.0


Groups = Mapping[str, Mapping[str, Tensor]]
"""Tensors by group ("net", "optimizer", "ema", "best", "memory", "epoch") and name."""


def write_checkpoint(folder: Path, groups: Groups, position: Position) -> None:
    """Replace the checkpoint in ``folder``."""
    tensors = {f"{group}/{name}": tensor for group, part in groups.items() for name, tensor in part.items()}
    write_tensors(folder / CHECKPOINT, tensors, {_PROGRESS: json.dumps(vars(position))})


def read_checkpoint(folder: Path) -> tuple[dict[str, dict[str, Tensor]], Position] | None:
    """Return the checkpoint in ``folder``, or None if there is none yet."""
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    groups: dict[str, dict[str, Tensor]] = {}
    try:
        with safe_open(path, "pt") as file:
            position = Position(**json.loads(file.metadata()[_PROGRESS]))
            for key in file.keys():  # noqa: SIM118  # no mapping, though it looks like one
                group, _, name = key.partition("/")
                groups.setdefault(group, {})[name] = file.get_tensor(key)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a checkpoint of a training ({error}); remove the folder to begin anew, or give another one."
        ) from error
    position.best = None if position.best is None else (position.best[0], position.best[1])
    return groups, position


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file completely or not at all.

    Each tensor is copied first, as the format does not support tied weights, which share memory. Python writes the
    bytes, so that a full disk raises an ``OSError``.
    """
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    content = save(copies, metadata)

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_atomically(path, write)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as named tensors, without learning rates, which the schedule determines."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{key}": value
        for index, entries in state.items()
        for key, value in entries.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give ``optimizer`` the state of :func:`optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
