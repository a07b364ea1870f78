"""Networks in eval mode for a while, whoever else holds them so."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch import nn


@dataclass
class _Held:
    """How many hold a network in eval mode, and what mode each of its modules was in before the first of them."""

    holders: int
    modes: list[tuple[nn.Module, bool]]


_HELD: WeakKeyDictionary[nn.Module, _Held] = WeakKeyDictionary()
_HOLDING = threading.Lock()


@contextmanager
def in_eval_mode(net: nn.Module) -> Iterator[None]:
    """``net`` in eval mode; the last of those who hold it so (threads, nested calls) restores each module's mode."""
    with _HOLDING:
        held = _HELD.setdefault(net, _Held(0, [(module, module.training) for module in net.modules()]))
        held.holders += 1
        for module in net.modules():
            module.training = False
    try:
        yield
    finally:
        with _HOLDING:
            held.holders -= 1
            if not held.holders:
                del _HELD[net]
                for module, mode in held.modes:
                    module.training = mode
