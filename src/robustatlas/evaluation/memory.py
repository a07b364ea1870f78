"""The number of samples that fit into memory at once."""

import time

import torch
from torch import Tensor, nn

from robustatlas.common.bundle import per_sample
from robustatlas.evaluation.workers.memory import peak_bytes
from robustatlas.models.classifier import Classifier, seeded

_LARGEST = 4096
_GAIN = 1.1
"""A batch twice as large must be at least so much faster a sample, or it is not worth its memory."""
_SECONDS = 2.0
"""Once a batch takes longer than this, larger ones are not tried."""
_SHARE = 2
"""An attack holds a few batches besides the network's activations, so this part of the largest batch that fits is
taken."""

_BOTH_WAYS, _COPIES = 2, 24
"""Memory of a sample at work, at most: so many times what a forward pass keeps of it, as the backward pass
makes as much anew, and so often its image. Measured on norms; sparse changes and maps with tables of their own take
more copies, which shows where a network keeps next to nothing."""

_PART = 96 * 2**20
"""Bytes of the inputs of the largest part."""

_SAID = ("can't allocate memory", "out of memory", "not enough memory")


def ran_out(error: BaseException | None) -> bool:
    """Return if an error says that memory ran out, on any device.

    Example:
        >>> ran_out(RuntimeError("DefaultCPUAllocator: can't allocate memory")), ran_out(ValueError("x"))
        (True, False)
    """
    while error is not None:
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            return True
        if isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID):
            return True
        error = error.__cause__
    return False


def fitting_batch(model: Classifier, x: Tensor, most: int) -> int:
    """Return a batch size for samples like ``x`` [1, ...], at most ``most``: the smallest power of two with which the
    network is about as fast as with any other, and well within memory."""
    best, pace = 1, 0.0
    size = min(16, most)
    while True:
        seconds = seconds_of_a_batch(model, x, size)
        if seconds is None:
            best = max(1, min(best, size // 2 // _SHARE))
            break
        if size / seconds >= _GAIN * pace:
            best, pace = size, size / seconds
        if size >= min(most, _LARGEST) or seconds > _SECONDS:
            break
        size = min(2 * size, most, _LARGEST)
    return best


def seconds_of_a_batch(model: Classifier, x: Tensor, size: int) -> float | None:
    """Shortest of two times that the forward and backward pass of ``size`` samples like ``x`` [1, ...] takes; None
    where they do not fit."""
    taken = []
    try:
        batch = x.expand(size, *x.shape[1:]).clone()
        batch *= per_sample(torch.linspace(0.5, 1, size, dtype=x.dtype, device=x.device), batch)
        for _ in range(2):
            taken.append(seconds_of_a_pass(model, batch.clone().requires_grad_(model.knowledge == "gradients")))
    except Exception as error:
        if not ran_out(error):
            raise
        forget(model.device)
        return None
    return min(taken)


def seconds_of_a_pass(model: Classifier, x: Tensor) -> float:
    """Return the seconds of a forward pass of ``x`` [B, ...] and, if it requires a gradient, of the backward pass."""
    begun = time.perf_counter()
    logits = model.logits(x)
    if x.requires_grad and logits.requires_grad:
        torch.autograd.grad(logits.sum(), x, allow_unused=True)
    float(logits.detach()[0, 0])  # waits for the device
    return time.perf_counter() - begun


def bytes_of_a_part(image: int, kept: float, batch: int) -> float:
    """Bytes of the inputs of a part, at most, of which each takes ``image`` bytes and a forward pass keeps ``kept`` (0:
    not known): as many as a batch takes, and no more than the largest part.

    A part holds them twice, as they are and as the smallest examples found, and a search that shares its examples holds
    one a strength besides. A data set of a few such parts takes as much memory as the largest one.
    """
    return min(_PART, batch * (image + kept)) if kept else _PART


def bytes_at_work(image: int, kept: float, batch: int, samples: int) -> float:
    """Bytes that an attack on so many samples takes beside the network while a batch of them is at work. Where a
    forward pass keeps 4.5 times a batch's images or more, that is at most 8 times the images and what is kept of them.

    Example:
        >>> bytes_at_work(image=1_000, kept=10_000, batch=4, samples=4)
        184000
    """
    part = min(bytes_of_a_part(image, kept, batch), samples * image)
    return batch * (_BOTH_WAYS * kept + _COPIES * image) + 2 * part


def bytes_loaded(device: torch.device) -> int:
    """Memory that this process has taken so far, at most; on an accelerator what it holds there."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else peak_bytes()


def bytes_kept(model: Classifier, x: Tensor) -> float:
    """Bytes that a forward pass of ``x`` [B, ...] keeps of a sample for the backward pass, but for the weights; 0 where
    there is none, and where not even that fits."""
    if model.knowledge != "gradients":
        return 0.0
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:  # a sparse one has no storage, and is a weight
            storage = tensor.untyped_storage()
            kept[storage._cdata] = storage.nbytes()  # its address, which not every device tells
        return tensor

    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), seeded(0, model.device):
            answer = model.logits(x.clone().requires_grad_())  # held, so that no memory is used twice
    except Exception as error:
        if not ran_out(error):
            raise
        return 0.0
    weights = {part.untyped_storage()._cdata for part in network_weights(model) if part.layout == torch.strided}
    del answer
    return sum(size for place, size in kept.items() if place not in weights) / len(x)


def network_weights(model: Classifier) -> list[Tensor]:
    """Return the weights of a network of torch."""
    return [*model.net.parameters(), *model.net.buffers()] if isinstance(model.net, nn.Module) else []


def forget(device: torch.device) -> None:
    """Give memory that nothing uses back to the device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
