"""The request of an evaluation: the arguments of one call, checked once and handed on as one thing."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.attacks.definition import Attack, Effort, ProtocolName, Search
from robustatlas.attacks.suites import default_attacks
from robustatlas.common.errors import UserError, check_choice
from robustatlas.common.scalars import integer_or_none, parse_count, parse_seed
from robustatlas.data import Dataset
from robustatlas.evaluation.cores import Cores
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.workers import Cluster, parse_cluster
from robustatlas.evaluation.workers.share import Share, parse_share
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes import Identity, Run
from robustatlas.outcomes.locks import part_lock
from robustatlas.threats.everyday.change import Border

Data = Dataset | tuple[Tensor | NDArray[Any], Tensor | NDArray[Any]] | torch.utils.data.Dataset[Any]
"""A data set, or images ``[N, ...]`` in [0, 1] and labels ``[N]``."""
Samples = int | Sequence[int] | NDArray[np.int64] | NDArray[np.bool_] | None
"""Number of samples, their positions, or a mask of all; None: all."""
Attacks = str | Attack | Sequence[str | Attack]
"""Attacks, names of attacks and names of suites."""
Strengths = Mapping[str, Sequence[float] | NDArray[np.float64]]
"""Name of an attack -> its strengths, as people type them."""
Pixels = Literal["any", "8bit"]
"""Inputs that count as found: any, or only those that an 8-bit file can hold."""
EIGHT_BIT: Pixels = "8bit"


@dataclass(kw_only=True)
class Request:
    """The arguments of :func:`robustatlas.evaluate`, all but the model and the data.

    Args:
        attacks, search, protocol, strengths, samples, run, effort, exclude: as of :func:`robustatlas.evaluate`.
        pixels, border, keep_adversarial, diagnose, audit, progress, devices: as there.
        seed, batch_size, shard_size, workers: as there; numbers are kept as plain integers.
        part: as there; kept as the share that it names.
        ray: as there; kept as the cluster that it names.
        cores: of this machine, where it is known already which to use.

    Raises:
        UserError: an argument is of another kind than it says.

    Example:
        >>> Request(attacks="linf", part="1/4", seed=np.int64(3)).part.of
        4
    """

    attacks: Attacks | None = None
    search: Search | None = None
    protocol: ProtocolName = "default"
    strengths: Strengths | None = None
    samples: Samples = None
    seed: int = 0
    run: str | Path | Run | None = None
    batch_size: int | Literal["auto"] | None = None
    effort: Effort = "default"
    pixels: Pixels = "any"
    border: Border | None = None
    exclude: Sequence[str] = ()
    shard_size: int | None = None
    keep_adversarial: bool = False
    diagnose: bool = True
    audit: int | None = None
    progress: bool | Progress | None = None
    part: str | tuple[int, int] | Share | None = None
    workers: int | Literal["auto"] | None = "auto"
    devices: Sequence[str] | None = None
    ray: bool | str | Cluster | None = None
    cores: Cores | None = None

    def __post_init__(self) -> None:
        self.seed = parse_seed(self.seed)
        self.batch_size = _count_or_auto("batch_size", self.batch_size)
        self.shard_size = _count_or_none("shard_size", self.shard_size)
        self.workers = _count_or_auto("workers", self.workers)
        if self.audit != 0:
            self.audit = _count_or_none("audit", self.audit)
        _check_run(self.run)
        _check_names(self.exclude)
        _check_devices(self.devices)
        check_choice("pixels", self.pixels, get_args(Pixels))
        check_choice("border", self.border, (None, *get_args(Border)))
        _check_switch("keep_adversarial", self.keep_adversarial)
        _check_switch("diagnose", self.diagnose)
        _check_progress(self.progress)
        self.part = parse_share(self.part)
        self.ray = parse_cluster(self.ray, self._count_of_workers)

    @property
    def is_number_of_samples(self) -> bool:
        """True if a number of samples is asked for, or all, and not positions or a mask."""
        return self.samples is None or integer_or_none(self.samples) is not None

    def attacks_or_default(self, model: Classifier) -> Attacks:
        """Return the attacks that are named, or the default ones of ``model``."""
        return default_attacks(model) if self.attacks is None else self.attacks

    @property
    def _count_of_workers(self) -> int | None:
        return None if self.workers == "auto" else self.workers

    @property
    def shares(self) -> bool:
        """True if the evaluation decides how many processes share the work."""
        return self.workers == "auto" and self.devices is None and self.ray is None

    def places(self, model: Classifier) -> list[str] | Cluster:
        """Return the device of each worker, or the cluster that has them; nothing if this process works alone."""
        if isinstance(self.ray, Cluster):
            return self.ray
        workers = self._count_of_workers or 0
        if self.devices is None:
            return [str(model.device)] * workers if workers > 1 else []
        count = max(workers, len(self.devices))
        return [str(self.devices[number % len(self.devices)]) for number in range(count)]

    def worker_count(self, model: Classifier) -> int:
        """Return the number of workers to be counted on; a process that works alone is one."""
        places = self.places(model)
        return places.worker_count if isinstance(places, Cluster) else max(1, len(places))

    def begin_run(self, identity: Identity) -> Run:
        """Return the run to write to, and begin it if it does not exist."""
        return self.run if isinstance(self.run, Run) else Run.begin(self.run, identity)

    def open_run(self, identity: Identity) -> Run:
        """Return the run as it is, or an empty one if it does not exist; nothing is written."""
        return self.run if isinstance(self.run, Run) else Run.open_existing(self.run, identity) or Run(identity)

    @property
    def share(self) -> Share:
        """Part of the samples that is asked for."""
        return parse_share(self.part)

    def lock_part(self, run: Run, say: Callable[[str], None]) -> AbstractContextManager[None]:
        """Hold the lock of the part that is asked for, unless the run was handed over open: then its opener holds it.

        Raises:
            UserError: another command is at work on samples of this part.
        """
        if isinstance(self.run, Run):
            return nullcontext()
        return part_lock(run.path, self.share.number, self.share.of, say)

    def part_mask(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return a mask [count] of the samples of the part that is asked for."""
        return self.share.mask(count)


def _count_or_none(name: str, value: int | str | None) -> int | None:
    """Return an optional positive number as a plain integer."""
    return None if value is None else parse_count(name, value)


def _count_or_auto(name: str, value: int | Literal["auto"] | None) -> int | Literal["auto"] | None:
    """Return an optional positive number as a plain integer, or ``"auto"``."""
    return "auto" if isinstance(value, str) and value == "auto" else _count_or_none(name, value)


def _check_run(run: Any) -> None:
    if isinstance(run, Run):
        return
    if run is not None and not isinstance(run, (str, os.PathLike)):
        raise UserError(f"run={run!r}; expected the path of a folder, or None to keep the run in memory.")
    if run is not None and not os.fspath(run):
        raise UserError("run is empty; expected the path of a folder, or None to keep the run in memory.")


def _check_names(exclude: Any) -> None:
    if isinstance(exclude, (str, bytes, Mapping)) or not hasattr(exclude, "__iter__"):
        raise UserError(f"exclude={exclude!r}; expected a list of names, such as ['lpips'].")


def _check_devices(devices: Any) -> None:
    if devices is not None and (
        isinstance(devices, str)
        or not hasattr(devices, "__iter__")
        or not list(devices)
        or not all(isinstance(device, (str, torch.device)) for device in devices)
    ):
        raise UserError(f"devices={devices!r}; expected a list of devices, such as ['cuda:0', 'cuda:1'].")


def _check_switch(name: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise UserError(f"{name}={value!r}; expected True or False.")


def _check_progress(progress: Any) -> None:
    if progress is not None and not isinstance(progress, (bool, np.bool_, Progress)):
        raise UserError(
            f"progress={progress!r}; expected True, False, None or an object of robustatlas.evaluation.progress."
        )
