"""A training that does not notice that its network was looked at."""

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
def unnoticed(net: nn.Module) -> Iterator[None]:
    """The training around goes on as if nothing were done inside: the random states of Python, NumPy and torch are put
    back, and what ``net`` holds as well (see :func:`put_back`)."""
    python, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002 - the state that a training draws from
    try:
        with torch.random.fork_rng(_devices(net)), _full_precision(net), put_back(net):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002


@contextmanager
def put_back(net: nn.Module) -> Iterator[None]:
    """What ``net`` holds is afterwards, name by name, the objects that it was, with their content: modes, buffers,
    gradients, tensors, numbers, generators of random numbers, and containers of these. Left out are the values of
    parameters, and what objects of other kinds hold."""
    with ExitStack() as afterwards:
        _remember(net, afterwards.callback, set())
        yield


def copied(net: nn.Module) -> nn.Module | None:
    """A network of its own that holds all that ``net`` does; None where it cannot be copied.

    >>> net = nn.Linear(2, 2)
    >>> net.last = net(torch.rand(1, 2))  # which torch does not copy, as it is the result of a computation
    >>> copied(nn.Linear(2, 2)) is None, copied(net) is None
    (False, True)
    """
    try:
        other = copy.deepcopy(net)
    except Exception:
        return None
    return None if _parts(net) & _parts(other) else other


def _parts(net: nn.Module) -> set[int]:
    """What tells the modules and the tensors of a network from those of another one."""
    tensors = [tensor for tensor in (*net.parameters(), *net.buffers()) if tensor.numel() and not tensor.is_meta]
    return {*map(id, net.modules()), *(tensor.data_ptr() for tensor in tensors)}


def _remember(value: Any, afterwards: Callable[..., Any], seen: set[int]) -> None:
    """Have ``afterwards`` give ``value`` the content that it has now; ``seen``: ids of what is remembered already."""
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
    elif (state := _state_of(value)) is not None:
        afterwards(state)
    for each in within:
        _remember(each, afterwards, seen)


def _refill(tensor: Tensor, before: Tensor) -> None:
    with torch.no_grad():
        if tensor.shape != before.shape:
            tensor.data = before
        elif not torch.equal(tensor, before):
            tensor.data.copy_(before)


_CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
"""Types that are filled anew; of those derived from them nobody knows what that does."""


def _replace(container: Any, content: Any) -> None:
    if type(container) in _CONTAINERS and not _same(container, content):
        container.clear()
        container.extend(content) if isinstance(container, (list, deque)) else container.update(content)


def _same(one: Any, other: Any) -> bool:
    first, second = ([*each.items()] if isinstance(each, dict) else [(None, v) for v in each] for each in (one, other))
    return len(first) == len(second) and all(a == c and b is d for (a, b), (c, d) in zip(first, second, strict=True))


def _state_of(value: Any) -> Callable[[], Any] | None:
    """What sets a generator of random numbers back to where it is; None for what is none."""
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, random.Random):
        return partial(value.setstate, value.getstate())
    if isinstance(value, np.random.RandomState):
        return partial(value.set_state, value.get_state())
    if isinstance(value, np.random.Generator):
        return partial(setattr, value.bit_generator, "state", value.bit_generator.state)
    return None


def _devices(net: nn.Module) -> list[torch.device]:
    """Those of CUDA that draw random numbers."""
    return list({weight.device for weight in net.parameters() if weight.device.type == "cuda"})


@contextmanager
def _full_precision(net: nn.Module) -> Iterator[None]:
    kind = next((weight.device.type for weight in net.parameters()), "cpu")
    with torch.autocast(kind, enabled=False):
        yield


def bare(net: nn.Module) -> nn.Module:
    """The network itself, without what distributes or compiles it: a pass through it waits for no other process."""
    inner: nn.Module = getattr(net, "_orig_mod", net)
    if isinstance(inner, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return bare(inner.module)
    spread = [type(module).__name__ for module in inner.modules() if "FullySharded" in type(module).__name__]
    if spread or any(type(weight).__name__ == "DTensor" for weight in inner.parameters()):
        raise UserError(
            f"The weights of the network are spread over the processes ({spread[0] if spread else 'DTensor'}), and a "
            "look is one process's work; leave the callback out, and evaluate a checkpoint."
        )
    return inner
