"""What ``evaluate`` is given, looked at before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from robustatlas.errors import UserError
from robustatlas.progress import Progress


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
) -> None:
    """Raise :class:`UserError` where an argument of ``evaluate`` is of another kind than it says."""
    if not _is_integer(seed):
        raise UserError(f"seed={seed!r}; expected an integer.")
    if not -(2**63) <= int(seed) < 2**63:
        raise UserError(f"seed={seed}; expected an integer of at most 64 bits.")
    counts = {"batch_size": None if batch_size == "auto" else batch_size, "shard_size": shard_size, "workers": workers}
    for name, value in counts.items():
        if value is not None and (not _is_integer(value) or value < 1):
            raise UserError(f"{name}={value!r}; expected an integer of at least 1.")
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


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
