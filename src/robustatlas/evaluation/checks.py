"""What ``evaluate`` is given, looked at before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch

from robustatlas.errors import UserError, brief
from robustatlas.progress import Progress
from robustatlas.scalars import whole


def check_arguments(
    *,
    seed: Any,
    run: Any,
    batch_size: Any,
    exclude: Any,
    shard_size: Any,
    keep_adversarial: Any,
    progress: Any,
    workers: Any,
    devices: Any,
) -> tuple[int, int | Literal["auto"] | None, int | None, int | None]:
    """``seed``, ``batch_size``, ``shard_size`` and ``workers`` as plain integers, where they are such.

    Raises:
        UserError: an argument of ``evaluate`` is of another kind than it says.
    """
    number = checked_seed(seed)
    size: int | Literal["auto"] | None = "auto"
    if not isinstance(batch_size, str) or batch_size != "auto":
        size = _count("batch_size", batch_size)
    counts = _count("shard_size", shard_size), _count("workers", workers)
    if run is not None and not isinstance(run, (str, os.PathLike)):
        raise UserError(f"run={run!r}; expected the path of a folder, or None to keep the run in memory.")
    if run is not None and not os.fspath(run):
        raise UserError("run is empty; expected the path of a folder, or None to keep the run in memory.")
    if isinstance(exclude, (str, bytes, Mapping)) or not hasattr(exclude, "__iter__"):
        raise UserError(f"exclude={exclude!r}; expected a list of names, such as ['lpips'].")
    if devices is not None and (
        isinstance(devices, str)
        or not hasattr(devices, "__iter__")
        or not list(devices)
        or not all(isinstance(device, (str, torch.device)) for device in devices)
    ):
        raise UserError(f"devices={devices!r}; expected a list of devices, such as ['cuda:0', 'cuda:1'].")
    if not isinstance(keep_adversarial, (bool, np.bool_)):
        raise UserError(f"keep_adversarial={keep_adversarial!r}; expected True or False.")
    if progress is not None and not isinstance(progress, (bool, np.bool_, Progress)):
        raise UserError(f"progress={progress!r}; expected True, False, None or an object of robustatlas.progress.")
    return number, size, *counts


def checked_seed(seed: Any) -> int:
    """``seed`` as a plain integer; :class:`UserError` where it is none, or has more than 64 bits."""
    number = whole(seed)
    if number is None:
        raise UserError(f"seed={brief(repr(seed))}; expected an integer.")
    if not -(2**63) <= number < 2**63:
        raise UserError(f"seed={brief(number)}; expected an integer of at most 64 bits.")
    return number


def _count(name: str, value: Any) -> int | None:
    count = whole(value)
    if value is not None and (count is None or count < 1):
        raise UserError(f"{name}={brief(repr(value))}; expected an integer of at least 1.")
    return count
