"""The cores of a processor that an evaluation takes: threads of this process, or processes of one thread each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.data import Rows
from robustatlas.evaluation.memory import network_weights, ran_out, seconds_of_a_pass
from robustatlas.evaluation.workers import can_start_workers
from robustatlas.evaluation.workers.memory import usable_bytes
from robustatlas.models.classifier import Classifier, undisturbed

_BATCH, _ROUNDS, _ENOUGH = 16, 3, 1.0
"""Samples of a pass, passes that are timed after the first, and seconds after which one is enough."""
_GAIN = 0.9
"""Several threads must take less than this share of the time of one: on a busy machine they wait for each other."""
_AS_GOOD = 0.85
"""Threads that reach this share of as many times the speed are as good as processes, which take more memory."""
SMALLEST_CHUNK = 16
"""Samples of a chunk, at least; several worker processes need as many each."""
WORTH_WORKERS = 10.0
"""Seconds of work from which worker processes are started; one takes two to three seconds to start."""
_MEMORY = 0.7
"""Share of the machine's memory that processes may take."""


@dataclass(frozen=True)
class Cores:
    """``count`` cores that may be used, ``threads`` that the network runs fastest with, and its ``speedup`` by as many
    threads as cores."""

    count: int
    threads: int
    speedup: float

    def processes(self, seconds: float, samples: int, memory: float) -> int:
        """Among how many processes it pays to share so many seconds of work of one, on so many samples; no more than
        there is room for where each takes so many bytes of ``memory``.

        Example:
            >>> Cores(8, threads=1, speedup=0.9).processes(seconds=60.0, samples=1000, memory=1e8)
            8
        """
        if seconds < WORTH_WORKERS or self.speedup >= _AS_GOOD * self.count:
            return 1
        return max(1, min(self.count, samples // SMALLEST_CHUNK, int(_MEMORY * usable_bytes() / max(memory, 1.0))))

    @contextmanager
    def limit_threads(self) -> Iterator[None]:
        """Compute with this number of threads inside the block, and as before after it."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def choose_cores(model: Classifier, images: Rows, threads: int | None = None) -> Cores:
    """Return the cores that torch may use, and the faster of one thread and all, measured now; or ``threads``."""
    count = torch.get_num_threads()
    if threads is not None:
        if threads < 1:
            raise UserError(f"--threads {threads} is not possible; expected at least 1.")
        return Cores(threads, threads, threads)
    if count == 1 or not _runs_on_torch_cpu(model):
        return Cores(1, count, 1.0)
    x = images[:_BATCH].to(model.dtype)
    try:
        with undisturbed(), model.evaluating():
            several, alone = (_seconds(model, x, threads) for threads in (count, 1))
    except Exception as error:
        if not ran_out(error):
            raise
        return Cores(1, count, 1.0)  # the evaluation takes fewer samples at once
    return Cores(count, count if several < _GAIN * alone else 1, alone / several)


def can_share(model: Classifier) -> bool:
    """Return if processes of this machine may do the work of a model: it is torch's, on the processor, and this process
    may start others."""
    return _runs_on_torch_cpu(model) and can_start_workers()


def _runs_on_torch_cpu(model: Classifier) -> bool:
    return model.device.type == "cpu" and model.knowledge == "gradients" and bool(network_weights(model))


def _seconds(model: Classifier, x: Tensor, threads: int) -> float:
    """Return the shortest time of a forward and backward pass; the first one does not count if it was short."""
    taken: list[float] = []
    with Cores(threads, threads, 1.0).limit_threads():
        while len(taken) <= _ROUNDS and sum(taken) < _ENOUGH:
            taken.append(seconds_of_a_pass(model, x.clone().requires_grad_()))
    return min(taken[1:] or taken)
