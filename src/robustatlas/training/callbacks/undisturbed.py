"""Evaluation of a network in the middle of its training without an effect on the training."""

import copy
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError


@contextmanager
def preserve_training(net: nn.Module) -> Iterator[None]:
    """Restore the random states of Python, NumPy and torch, and the state of ``net``, at the end of the block.

    See :func:`restore_state` for the state of ``net``.
    """
    python, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that a training draws from
    try:
        with torch.random.fork_rng(_cuda_devices(net)), _full_precision(net), restore_state(net):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002


@contextmanager
def restore_state(net: nn.Module) -> Iterator[None]:
    """Restore the state of ``net`` at the end of the block.

    The state is its modes, buffers, gradients, tensors, numbers, generators of random numbers, and containers of these;
    each name refers to the same object as before. Values of parameters and the content of other objects are not
    restored.
    """
    with ExitStack() as afterwards:
        _schedule_restore(net, afterwards.callback, set())
        yield


def copy_network(net: nn.Module) -> nn.Module | None:
    """Return a copy of ``net`` that shares nothing with it, or None if it cannot be copied.

    >>> net = nn.Linear(2, 2)
    >>> net.last = net(torch.rand(1, 2))  # torch does not copy the result of a computation
    >>> copy_network(nn.Linear(2, 2)) is None, copy_network(net) is None
    (False, True)
    """
    try:
        other = copy.deepcopy(net)
    except Exception:
        return None
    return None if _storage_ids(net) & _storage_ids(other) else other


def _storage_ids(net: nn.Module) -> set[int]:
    """Return identities of the modules and of the tensor memory of a network."""
    tensors = [tensor for tensor in (*net.parameters(), *net.buffers()) if tensor.numel() and not tensor.is_meta]
    return {*map(id, net.modules()), *(tensor.data_ptr() for tensor in tensors)}


def _schedule_restore(value: Any, afterwards: Callable[..., Any], seen: set[int]) -> None:
    """Schedule by ``afterwards`` that ``value`` gets back its present content; skip objects whose ids are in
    ``seen``.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    within: list[Any] = []
    if isinstance(value, nn.Module):
        within = [vars(value)]
    elif isinstance(value, nn.Parameter):
        afterwards(setattr, value, "grad", value.grad)
    elif isinstance(value, Tensor):
        if not value.is_meta:
            afterwards(_refill, value, value.detach().clone())
    elif isinstance(value, dict):
        within = list(value.values())
        afterwards(_replace, value, dict(value))
    elif isinstance(value, (list, deque)):
        within = list(value)
        afterwards(_replace, value, within)
    elif isinstance(value, set):
        afterwards(_replace, value, set(value))
    elif isinstance(value, tuple):
        within = list(value)
    elif isinstance(value, np.ndarray):
        afterwards(np.copyto, value, value.copy())
    elif (state := _generator_restorer(value)) is not None:
        afterwards(state)
    for each in within:
        _schedule_restore(each, afterwards, seen)


def _refill(tensor: Tensor, before: Tensor) -> None:
    with torch.no_grad():
        if tensor.shape != before.shape:
            tensor.data = before
        elif not torch.equal(tensor, before):
            tensor.data.copy_(before)


_CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
"""Types that are restored by filling them again; a subclass may do something else then."""


def _replace(container: Any, content: Any) -> None:
    if type(container) in _CONTAINERS and not _is_unchanged(container, content):
        container.clear()
        container.extend(content) if isinstance(container, (list, deque)) else container.update(content)


def _is_unchanged(one: Any, other: Any) -> bool:
    first, second = ([*each.items()] if isinstance(each, dict) else [(None, v) for v in each] for each in (one, other))
    return len(first) == len(second) and all(a == c and b is d for (a, b), (c, d) in zip(first, second, strict=True))


def _generator_restorer(value: Any) -> Callable[[], Any] | None:
    """Return a function that restores the present state of a generator of random numbers; None for other values."""
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, random.Random):
        return partial(value.setstate, value.getstate())
    if isinstance(value, np.random.RandomState):
        return partial(value.set_state, value.get_state())
    if isinstance(value, np.random.Generator):
        return partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    return None


def _cuda_devices(net: nn.Module) -> list[torch.device]:
    """Return the CUDA devices of a network, whose generators of random numbers must be restored."""
    return list({weight.device for weight in net.parameters() if weight.device.type == "cuda"})


@contextmanager
def _full_precision(net: nn.Module) -> Iterator[None]:
    kind = next((weight.device.type for weight in net.parameters()), "cpu")
    with torch.autocast(kind, enabled=False):
        yield


def unwrap(net: nn.Module) -> nn.Module:
    """Return the network without wrappers that distribute or compile it, so that a pass waits for no other process."""
    inner: nn.Module = getattr(net, "_orig_mod", net)
    if isinstance(inner, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return unwrap(inner.module)
    spread = [type(module).__name__ for module in inner.modules() if "FullySharded" in type(module).__name__]
    if spread or any(type(weight).__name__ == "DTensor" for weight in inner.parameters()):
        raise UserError(
            f"The weights of the network are spread over the processes ({spread[0] if spread else 'DTensor'}), and a "
            "look is one process's work; leave the callback out, and evaluate a checkpoint."
        )
    return inner
