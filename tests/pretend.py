"""A pretend accelerator: a torch device written in Python that computes on the CPU, so that what holds for accelerators
is tested where there is none.

It refuses what CUDA refuses, tensors of two devices in one operation (numbers without dimensions pass), and says when
the host would wait: for a transfer in either direction, a number, or a shape that depends on results.

A process has room for one such device, before its first backward pass, and keeps it. So processes of their own
:func:`install` it, and never the one that runs the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration

NAME = "pretend"

_HOOK = "_setup_privateuseone_for_python_backend"
AVAILABLE = hasattr(backend_registration, _HOOK)
"""Whether this torch takes a device written in Python."""

_aten = torch.ops.aten
_MADE = (
    "arange", "arange.start", "arange.start_step", "eye", "eye.m", "linspace", "logspace", "randperm",
    "randperm.generator",
)  # fmt: skip
"""What torch makes empty on a device, for the operation that fills it to resize."""
_COPIED = (_aten._to_copy.default, _aten.copy_.default)

_libraries: list[torch.library.Library] = []
_listeners: list[Callable[[], None]] = []
_waiting: Callable[[Any, Sequence[Any]], bool] | None = None


class PretendTensor(Tensor):
    """A tensor on the device; ``held`` are its numbers, on the CPU."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> PretendTensor:
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, **layout, device=f"{NAME}:0")

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(operation, *args, **(kwargs or {}))

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, other: PretendTensor) -> None:
        Tensor.data.__set__(self, other)
        self.held = other.held

    def tolist(self) -> Any:
        _waits()
        return self.held.tolist()

    def new_tensor(self, data: Any, **made: Any) -> Tensor:
        return torch.tensor(data, **{"dtype": self.dtype, "device": self.device} | made)


class _Module:
    """What torch asks of a device's module; its random numbers are drawn as the CPU's, from a state of their own."""

    def __init__(self) -> None:
        self.state = torch.get_rng_state()

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        self.state = torch.Generator().manual_seed(seed).get_state()

    manual_seed_all = manual_seed

    def get_rng_state(self, device: Any = None) -> Tensor:
        return self.state

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        self.state = state

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """The CPU's generator goes on where this one stopped, for a while."""
        with torch.random.fork_rng([]):
            torch.set_rng_state(self.state)
            yield
            self.state = torch.get_rng_state()


_module = _Module()


def install(waiting: Callable[[Any, Sequence[Any]], bool]) -> None:
    """Give this process the device. ``waiting`` says of an operation and its arguments whether the host must know its
    result, or the shape of that."""
    global _waiting
    getattr(backend_registration, _HOOK)(NAME, _module)
    _waiting = waiting
    every, made = (torch.library.Library(names, "IMPL", "PrivateUse1") for names in ("_", "aten"))
    _libraries.extend((every, made))
    every.fallback(_computed)
    for name in _MADE:
        packet, _, overload = name.partition(".")
        made.impl(name, partial(_computed, getattr(getattr(_aten, packet), overload or "default")))
    for name in ("tensor", "as_tensor", "scalar_tensor"):
        setattr(torch, name, partial(_sent, getattr(torch, name)))


@contextmanager
def heard(note: Callable[[], None]) -> Iterator[None]:
    """``note`` is called whenever the host would wait for the device."""
    _listeners.append(note)
    try:
        yield
    finally:
        _listeners.remove(note)


def _waits() -> None:
    for note in _listeners:
        note()


def _sent(make: Callable[..., Tensor], *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
    """Made on the CPU: torch would write to the memory of a tensor on the device, which has none."""
    made = make(*args, **kwargs)
    return made if device is None else made.to(device)


def _is_here(device: Any) -> bool:
    return isinstance(device, torch.device) and device.type == NAME


def _computed(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """Any operation that a tensor on the device takes part in, or comes from."""
    known = _known(operation)
    sources: list[Tensor] = []
    held_args = [_on_cpu(argument, sources) for argument in args]
    held_kwargs = {name: _on_cpu(argument, sources) for name, argument in kwargs.items()}
    stays = True
    if known.copies:
        target = kwargs.get("device")
        stays = isinstance(args[0], PretendTensor) if target is None else _is_here(target)
        waits = stays != isinstance(sources[-1], PretendTensor)
    else:
        _refuse_mixed(operation, sources)
        waits = known.waits(args)
    if waits:
        _waits()
    if known.draws:
        with _module.drawing():
            found = operation(*held_args, **held_kwargs)
    else:
        found = operation(*held_args, **held_kwargs)
    written = {id(tensor.held): tensor for tensor in known.written(args, kwargs)}
    if not stays:
        return args[0] if operation is _aten.copy_.default else found
    return _on_device(found, written)


def _on_cpu(given: Any, sources: list[Tensor]) -> Any:
    """An argument for the CPU; its tensors as they are go to ``sources``."""
    if isinstance(given, Tensor):
        sources.append(given)
        return given.held if isinstance(given, PretendTensor) else given
    if isinstance(given, (list, tuple)) and not isinstance(given, torch.Size):
        return [_on_cpu(each, sources) for each in given]
    return torch.device("cpu") if _is_here(given) else given


def _on_device(found: Any, written: Mapping[int, PretendTensor]) -> Any:
    if isinstance(found, Tensor):
        known = written.get(id(found))
        return PretendTensor(found) if known is None else known
    return tuple(_on_device(each, written) for each in found) if isinstance(found, (list, tuple)) else found


def _refuse_mixed(operation: Any, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if not isinstance(tensor, PretendTensor) and tensor.dim():
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
                f"{tensor.device}! (when checking arguments of {operation})"
            )


class _Known:
    """What is known of an operation before it is asked for."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self.copies = operation in _COPIED
        self.draws = torch.Tag.nondeterministic_seeded in operation.tags
        self.writes = [
            (place, argument.name)
            for place, argument in enumerate(operation._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    def waits(self, args: Sequence[Any]) -> bool:
        assert _waiting is not None
        return _waiting(self.operation, args)

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[PretendTensor]:
        """The tensors that were written to, by the schema."""
        for place, name in self.writes:
            given = args[place] if place < len(args) else kwargs.get(name)
            for tensor in given if isinstance(given, (list, tuple)) else (given,):
                if isinstance(tensor, PretendTensor):
                    if (tensor.shape, tensor.stride()) != (tensor.held.shape, tensor.held.stride()):
                        raise NotImplementedError(f"{self.operation} gives a tensor another shape in place.")
                    yield tensor


_known = cache(_Known)
