"""One process or several: with ``accelerate`` installed and started by it, each process takes its share of a batch.
Every process holds the whole network; gradients (and what a recipe remembers) are averaged after each update. So any
recipe runs on several devices, however often it calls the network."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers.share import rank_of_environment
from robustatlas.models.classifier.placement import usable_device


@dataclass(frozen=True)
class Workers:
    """The processes that train together; this one is ``rank`` of ``count``."""

    device: torch.device
    rank: int = 0
    count: int = 1
    accelerator: Any = None

    @property
    def main(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def share(self, chosen: Tensor) -> Tensor:
        """This process' part of the positions of a batch."""
        return chosen[self.rank :: self.count]

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over all processes."""
        if self.count > 1:
            for tensor in tensors:
                tensor.copy_(self.accelerator.reduce(tensor, reduction="mean"))

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            self.accelerator.wait_for_everyone()


def chosen_device(device: str | torch.device | None = None) -> str:
    """Where to train; by default a GPU where there is one."""
    return str(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def workers(device: str | torch.device | None = None) -> Workers:
    """The processes of this training: one, unless it was started by ``accelerate launch`` or ``torchrun``."""
    _, count = rank_of_environment()
    if count > 1:
        try:
            from accelerate import Accelerator
        except ModuleNotFoundError as error:
            raise UserError(
                f"Training was started with {count} processes, which needs accelerate; install robustatlas[train]."
            ) from error
        accelerator = Accelerator(cpu=device is not None and str(device) == "cpu")
        return Workers(accelerator.device, accelerator.process_index, accelerator.num_processes, accelerator)
    return Workers(usable_device(chosen_device(device)))
