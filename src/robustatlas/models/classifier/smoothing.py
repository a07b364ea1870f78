"""ReLUs that go back smoothed: their values are their own, their derivative is a sigmoid in place of a step. A network
trained by bounds has large flat pieces, so its gradient says little of what lies a step further. The derivative of
softplus looks across the kink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from robustatlas.models.classifier.raw import raw
from robustatlas.models.classifier.wrappers import Net

if TYPE_CHECKING:
    from robustatlas.models.classifier.classifier import Classifier

Kinks = tuple[float, ...]
"""The standard deviation of the input of each ReLU of a network on a few samples, in the order of a pass."""

STEEPNESS = 10.0
"""c of the derivative sigmoid(c x / s) at an input x, where s is the standard deviation of such inputs."""

_DIGITS = 3
"""Significant ones that are kept of a standard deviation: more are rounding, which differs from device to device."""

_CLAMPS = ("clamp", "clip", "clamp_min")

_Relu = tuple[Tensor, Callable[[Tensor], Tensor], bool]
"""What goes in, what is done to it, and whether it is done in place."""


def smoothing(net: Net, kinks: Kinks) -> Net:
    """``net``, whose ReLUs go back smoothed: modules, ``relu`` and ``clamp(min=0)`` as functions and methods, in place
    or not. Call number n of a pass takes ``kinks[n]``; those beyond, and those whose number is 0, go back as they are.
    """

    def run(x: Tensor) -> Any:
        with _Smoothing(kinks):
            return net(x)

    return run


def kinks_at(model: Classifier, x: Tensor) -> Kinks:
    """The standard deviation of the input of each ReLU of a network at ``x`` [B, ...] in [0, 1], in the order of a
    pass. Empty where no ReLU can be seen, as in other frameworks and scripted networks. Empty too where one would go
    back as it is: a backward pass that makes the forward pass again (gradient checkpointing), forward derivatives.
    Passes are not counted.
    """
    moments: list[list[Tensor]] = []
    net = noting(model.net, moments)
    with torch.no_grad():
        raw(model, x, net)
    kinks = kinks_of(moments)
    return () if any(kinks) and _recomputes(model, x[:1]) else kinks


def _recomputes(model: Classifier, x: Tensor) -> bool:
    """Return if ReLUs are computed in the backward pass at ``x`` [B, ...]."""
    leaf = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        values = raw(model, leaf).values
    with _Recomputing() as seen, suppress(Exception):  # that it fails is told by the checks of the gradient
        torch.autograd.grad(values.sum(), leaf, allow_unused=True)
    return bool(seen.relu)


def noting(net: Net, moments: list[list[Tensor]]) -> Net:
    """``net``, which adds to ``moments`` the number, sum and sum of squares of what goes into each of its ReLUs: a list
    for each pass."""

    def run(x: Tensor) -> Any:
        with _Noting() as noted:
            answer = net(x)
        moments.append(noted.moments if noted.smoothable else [])
        return answer

    return run


def kinks_of(moments: Iterable[Sequence[Tensor]]) -> Kinks:
    """Standard deviations from what :func:`noting` noted of the passes of one network; 0 where it is not a number."""
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
        if relu is None or not deviation or not (_takes_gradient(relu[0]) and torch.is_grad_enabled()):
            return function(*args, **kwargs or {})
        x, outright, in_place = relu
        smooth = _Transformed if torch._C._are_functorch_transforms_active() else _Smooth
        y = smooth.apply(x, outright, STEEPNESS / deviation)  # type: ignore[no-untyped-call]
        return x.copy_(y) if in_place else y


class _Noting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.moments: list[Tensor] = []
        self.smoothable = True

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if relu := _relu_in(function, args, kwargs or {}):
            self.smoothable &= not _is_forward_mode()
            x = _unwrapped(relu[0]).detach().double()
            self.moments.append(torch.stack([torch.ones_like(x).sum(), x.sum(), x.square().sum()]).cpu())
        return function(*args, **kwargs or {})


class _Recomputing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks for ReLUs among what a backward pass computes. (A function mode is off inside of ``autograd.grad``.)"""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.relu: bool = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.relu |= function.overloadpacket in _RELUS
        return function(*args, **kwargs or {})


_RELUS = (torch.ops.aten.relu, torch.ops.aten.relu_, torch.ops.aten.clamp_min, torch.ops.aten.clamp_min_)


def _unwrapped(x: Tensor) -> Tensor:
    """The numbers of a tensor inside of torch.func, those of a whole batch inside of ``vmap``."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def _takes_gradient(x: Tensor) -> bool:
    """Return if a gradient goes back to a tensor, which one inside of ``vmap`` does not say itself."""
    return x.requires_grad or _unwrapped(x).requires_grad


def _is_forward_mode() -> bool:
    """Return if derivatives are taken forward (``torch.func.jvp``) here, which an autograd function cannot follow."""
    return any(each.key() == TransformType.Jvp for each in retrieve_all_functorch_interpreters())


def _relu_in(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Relu | None:
    """The ReLU that a call of torch is; None: it is something else."""
    name = getattr(function, "__name__", "")
    plain = name.rstrip("_")
    if plain != "relu" and plain not in _CLAMPS:
        return None
    x, *limits = args or (kwargs.get("input"),)
    if not isinstance(x, Tensor) or not x.is_floating_point() or "out" in kwargs:
        return None
    if plain == "relu":
        return x, torch.relu, name.endswith("_") or bool(kwargs.get("inplace"))
    low, high, *_ = (*limits, None, None)
    low, high = kwargs.get("min", low), kwargs.get("max", high)
    if high is None and isinstance(low, (int, float)) and low == 0:
        return x, partial(torch.clamp, min=0), name.endswith("_")
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
