"""ReLUs that go back smoothed: their values are their own, their derivative is a sigmoid in place of a step.

A network trained by bounds has large flat pieces, so its gradient says little of what lies a step further. The
derivative of softplus looks across the kink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters
from torch.overrides import TorchFunctionMode

from robustatlas.models.classifier.network import Net

Kinks = tuple[float, ...]
"""The standard deviation of the input of each ReLU of a network on a few samples, in the order of a pass."""

STEEPNESS = 10.0
"""c of the derivative sigmoid(c x / s) at an input x, where s is the standard deviation of such inputs."""

_DIGITS = 3
"""Significant digits of a recorded standard deviation: more are rounding, which differs from device to device."""

_CLAMPS = ("clamp", "clip", "clamp_min")


class _Relu(NamedTuple):
    """A call of torch that is a ReLU: its input, its function, and True if it writes into its input."""

    x: Tensor
    function: Callable[[Tensor], Tensor]
    in_place: bool


def smoothing(net: Net, kinks: Kinks) -> Net:
    """Return ``net``, whose ReLUs go back smoothed.

    ReLUs are modules, ``relu`` and ``clamp(min=0)`` as functions and methods, in place or not. Call number n of a pass
    takes ``kinks[n]``; calls beyond the last number, and those whose number is 0, go back as they are.
    """

    def run(x: Tensor) -> Any:
        with _Smoothing(kinks):
            return net(x)

    return run


def recording_relus(net: Net, moments: list[list[Tensor]]) -> Net:
    """Return ``net``, which records the inputs of its ReLUs.

    Each pass appends a list to ``moments``: the number, sum and sum of squares of the inputs of each ReLU.
    """

    def run(x: Tensor) -> Any:
        with _Recording() as recorded:
            answer = net(x)
        moments.append(recorded.moments if recorded.smoothable else [])
        return answer

    return run


def kinks_from_moments(moments: Iterable[Sequence[Tensor]]) -> Kinks:
    """Return the standard deviations that follow from the moments of :func:`recording_relus`; 0 if one is no number."""
    calls = [torch.stack(call).sum(0).tolist() for call in zip(*moments, strict=False)]
    return tuple(_deviation(*call) for call in calls)


def _deviation(count: float, total: float, squares: float) -> float:
    variance = squares / count - (total / count) ** 2 if count else 0.0
    return float(f"{variance**0.5:.{_DIGITS}g}") if 0 < variance < torch.inf else 0.0


class _Smoothing(TorchFunctionMode):
    def __init__(self, kinks: Kinks) -> None:
        super().__init__()
        self.left = iter(kinks)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        relu = _relu_in(function, args, kwargs or {})
        deviation = next(self.left, 0.0) if relu else 0.0
        if relu is None or not deviation or not (_takes_gradient(relu.x) and torch.is_grad_enabled()):
            return function(*args, **kwargs or {})
        smooth = _Transformed if torch._C._are_functorch_transforms_active() else _Smooth
        y = smooth.apply(relu.x, relu.function, STEEPNESS / deviation)  # type: ignore[no-untyped-call]
        return relu.x.copy_(y) if relu.in_place else y


class _Recording(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.moments: list[Tensor] = []
        self.smoothable = True

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if relu := _relu_in(function, args, kwargs or {}):
            self.smoothable &= not _is_forward_mode()
            x = _unwrapped(relu.x).detach().double()
            self.moments.append(torch.stack([torch.ones_like(x).sum(), x.sum(), x.square().sum()]).cpu())
        return function(*args, **kwargs or {})


def _unwrapped(x: Tensor) -> Tensor:
    """Return the numbers of a tensor inside of torch.func; inside of ``vmap`` those of a whole batch."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def _takes_gradient(x: Tensor) -> bool:
    """Return True if a gradient goes back to a tensor, which one inside of ``vmap`` does not say itself."""
    return x.requires_grad or _unwrapped(x).requires_grad


def _is_forward_mode() -> bool:
    """Return True inside of forward derivatives (``torch.func.jvp``), which an autograd function cannot follow."""
    return any(each.key() == TransformType.Jvp for each in retrieve_all_functorch_interpreters())


def _relu_in(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Relu | None:
    """Return the ReLU that a call of torch is; None: it is something else."""
    name = getattr(function, "__name__", "")
    plain = name.rstrip("_")
    if plain != "relu" and plain not in _CLAMPS:
        return None
    x, *limits = args or (kwargs.get("input"),)
    if not isinstance(x, Tensor) or not x.is_floating_point() or "out" in kwargs:
        return None
    if plain == "relu":
        return _Relu(x, torch.relu, name.endswith("_") or bool(kwargs.get("inplace")))
    low, high, *_ = (*limits, None, None)
    low, high = kwargs.get("min", low), kwargs.get("max", high)
    if high is None and isinstance(low, (int, float)) and low == 0:
        return _Relu(x, partial(torch.clamp, min=0), name.endswith("_"))
    return None


class _Smooth(torch.autograd.Function):
    """A ReLU with the derivative sigmoid(steepness x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, relu: Callable[[Tensor], Tensor], steepness: float) -> Tensor:
        ctx.save_for_backward(torch.sigmoid(steepness * x))  # x itself may be written into afterwards
        return relu(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return gradient * slope, None, None


class _Transformed(_Smooth):
    """The same inside of torch.func, whose form torch takes much longer to call."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, relu: Callable[[Tensor], Tensor], steepness: float) -> Tensor:  # type: ignore[override]
        return relu(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, _, steepness = inputs
        ctx.save_for_backward(torch.sigmoid(steepness * x))
