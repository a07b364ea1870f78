"""Networks in eval mode for a while, whoever else holds them so, and left as they were."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy


@dataclass(frozen=True)
class _Buffer:
    """A buffer of a module as it was: the tensor itself, and a copy of its numbers."""

    module: nn.Module
    name: str
    tensor: Tensor
    numbers: Tensor

    def restore(self) -> None:
        """Give the module the same tensor with the same numbers."""
        if self.module._buffers.get(self.name) is not self.tensor:
            self.module._buffers[self.name] = self.tensor
        if _is_same(self.tensor, self.numbers):
            return
        with torch.no_grad():
            if self.tensor.layout == torch.strided and self.tensor.shape == self.numbers.shape:
                self.tensor.copy_(self.numbers)
            else:
                self.tensor.data = self.numbers


@dataclass
class _Held:
    """The number of those who hold a network in eval mode, and its modes and buffers before the first of them."""

    holders: int
    modes: list[tuple[nn.Module, bool]]
    buffers: list[_Buffer]


_HELD: WeakKeyDictionary[nn.Module, _Held] = WeakKeyDictionary()
_HOLDING = threading.Lock()


@contextmanager
def hold_eval_mode(net: nn.Module) -> Iterator[None]:
    """Hold ``net`` in eval mode.

    The last of those who hold it so (threads, nested calls) restores the mode and the buffers of each module: counters
    and observers of quantisation change in eval mode too.
    """
    # A frozen TorchScript has no modes.
    moded = [module for module in net.modules() if hasattr(module, "training")]
    with _HOLDING:
        if net not in _HELD:
            _HELD[net] = _Held(0, [(module, module.training) for module in moded], _buffers_of(net))
        held = _HELD[net]
        held.holders += 1
        for module in moded:
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
                for buffer in held.buffers:
                    buffer.restore()


def names_of_changes(net: nn.Module, before: dict[str, object]) -> list[str]:
    """Return the names in :func:`state_of` ``net`` whose values are no longer those ``before``.

    Example:
        >>> net = nn.BatchNorm1d(2)
        >>> before = state_of(net)
        >>> _ = net(torch.ones(3, 2))
        >>> names_of_changes(net, before)
        ['running_mean', 'running_var', 'num_batches_tracked']
    """
    now = state_of(net)
    return [name for name, value in before.items() if name not in now or not _is_same(value, now[name])]


def state_of(net: nn.Module) -> dict[str, object]:
    """Return what a forward pass of ``net`` may change: how often its parameters were written into, copies of its
    buffers, and the plain numbers that its modules hold."""
    state: dict[str, object] = {
        name: weights._version for name, weights in net.named_parameters() if not weights.is_inference()
    }
    state |= {name: held.detach().clone() for name, held in net.named_buffers() if not is_lazy(held)}
    for path, module in net.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            held = {name: value for name, value in vars(module).items() if type(value) in (int, float, bool, str)}
            state |= {f"{path}.{name}".lstrip("."): value for name, value in held.items() if name != "training"}
    return state


def _buffers_of(net: nn.Module) -> list[_Buffer]:
    if isinstance(net, torch.jit.ScriptModule):
        return [_Buffer(net, name, tensor, tensor.detach().clone()) for name, tensor in net.named_buffers()]
    return [
        _Buffer(module, name, tensor, tensor.detach().clone())
        for module in net.modules()
        for name, tensor in getattr(module, "_buffers", {}).items()
        if tensor is not None and not is_lazy(tensor)
    ]


def _is_same(one: object, other: object) -> bool:
    """True if two tensors hold the same bits, or two other values are equal."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return one == other
    if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
        return False
    return torch.equal(_bits(one), _bits(other))


def _bits(tensor: Tensor) -> Tensor:
    """The numbers of a tensor of any layout as bytes, so that NaN equals itself."""
    dense = tensor.detach() if tensor.layout == torch.strided else tensor.detach().to_dense()
    dense = dense.int_repr() if dense.is_quantized else dense
    return dense.contiguous().view(-1).view(torch.uint8)
