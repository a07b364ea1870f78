"""How each operation of ATen is read into one that bounds know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from robustatlas.certificates import activations
from robustatlas.certificates.activations import Activation
from robustatlas.certificates.graph import Operation
from robustatlas.certificates.operations import Convolution, Dense, Moved, Scaled, Sum
from robustatlas.certificates.pooling import MaxPool
from robustatlas.certificates.windowed import Shape


@dataclass(frozen=True)
class Of:
    """What depends on the input: a node of the graph."""

    position: int


@dataclass(frozen=True)
class Call:
    """A call: the ``shape`` of a sample of its output, its arguments, the shapes of its inputs, and the node."""

    shape: Shape
    args: Sequence[Any]
    named: dict[str, Any]
    given: tuple[Shape, ...]
    node: fx.Node

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument by position or name."""
        if len(self.args) > position:
            return self.args[position]
        return self.named.get(name, default)


PLACES = ("device", "pin_memory", "layout")
NOTHING = Moved(lambda x: x)
"""What leaves everything as it is, so that it is no node."""


def in_double(value: Tensor) -> Tensor:
    """A constant of the network in float64."""
    return value.double() if value.is_floating_point() else value


def flat(args: Any) -> list[Any]:
    """Arguments, and those in lists of them."""
    return [each for arg in args for each in (flat(arg) if isinstance(arg, (tuple, list)) else [arg])]


def inputs_of(args: Any) -> tuple[int, ...]:
    """Positions of the nodes among arguments."""
    return tuple(each.position for each in flat(args) if isinstance(each, Of))


def depends(args: Any) -> bool:
    """Whether something among arguments depends on the input."""
    return any(isinstance(each, Of) for each in flat(args))


def _per(size: Any, count: int) -> Shape:
    sizes = tuple(int(each) for each in (size if isinstance(size, (tuple, list)) else (size,)))
    return sizes * count if len(sizes) == 1 else sizes


Reading = Callable[[Call], Operation | None]


def _dense(call: Call) -> Operation | None:
    weight = call.argument(1, "weight")
    return Dense(weight, call.argument(2, "bias")) if isinstance(weight, Tensor) else None


def _product(call: Call) -> Operation | None:
    """x @ W with a constant matrix."""
    x, weight = call.args[:2]
    if not isinstance(x, Of) or not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return Dense(weight.T.contiguous(), None)


def _added_product(call: Call) -> Operation | None:
    bias, x, weight = call.args[:3]
    if not isinstance(x, Of) or not isinstance(weight, Tensor) or not isinstance(bias, Tensor):
        return None
    return Dense(weight.T.contiguous(), bias)


def _convolution(call: Call) -> Operation | None:
    weight = call.argument(1, "weight")
    count = weight.dim() - 2
    padding = call.argument(4, "padding", 0)
    if isinstance(padding, str):
        return None
    return Convolution(
        weight,
        call.argument(2, "bias"),
        _per(call.argument(3, "stride", 1), count),
        _per(padding, count),
        _per(call.argument(5, "dilation", 1), count),
        call.argument(6, "groups", 1),
    )


def _batch_norm(call: Call) -> Operation | None:
    weight, bias, mean, spread = (call.args[k] for k in (1, 2, 3, 4))
    if mean is None or spread is None:
        return None
    factor = (spread + call.args[-1]).rsqrt()
    factor = factor if weight is None else factor * weight
    back = mean * factor
    shift = -back if bias is None else bias - back
    size = back.abs() if bias is None else bias.abs() + back.abs()
    shape = (-1, *(1,) * (len(call.shape) - 1))
    return Scaled(factor.view(shape), shift.view(shape), size.view(shape), terms=8)


def _constant(value: Any, like: Call) -> Tensor | None:
    """A constant of an arithmetic operation, in the shape of one sample."""
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if tensor.dim() > len(like.shape):
        return tensor[0] if len(tensor) == 1 else None
    return tensor


def _arithmetic(
    factor: Callable[[Tensor], Tensor], shift: Callable[[Tensor], Tensor], reverse: bool = False
) -> Reading:
    def reading(call: Call) -> Operation | None:
        one, two = call.args[:2]
        swapped = not isinstance(one, Of)
        if isinstance(one, Of) and isinstance(two, Of):
            return None
        value = _constant(one if swapped else two, call)
        if value is None or call.named.get("alpha", 1) != 1:
            return None
        if swapped and reverse:
            return None
        shifted = shift(value)
        return Scaled(factor(value), shifted, shifted.abs())

    return reading


def _plus(sign: float) -> Reading:
    with_constant = _arithmetic(torch.ones_like, lambda value: sign * value)

    def reading(call: Call) -> Operation | None:
        one, two = call.args[:2]
        scale = float(call.named.get("alpha", 1))
        if isinstance(one, Of) and isinstance(two, Of):
            return Sum((1.0, sign * scale)) if call.given[0] == call.given[1] == call.shape else None
        if sign < 0 and not isinstance(one, Of):
            value = _constant(one, call)
            return None if value is None or scale != 1 else Scaled(-torch.ones_like(value), value, value.abs())
        return with_constant(call)

    return reading


def _from(call: Call) -> Operation | None:
    """value - x."""
    value = _constant(call.args[1], call)
    return None if value is None else Scaled(-torch.ones_like(value), value, value.abs())


def _negated(call: Call) -> Operation | None:
    minus, zero = torch.tensor(-1.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    return Scaled(minus, zero, zero, terms=0)


def _moved(terms: Callable[[Call], int] = lambda call: 0) -> Reading:
    """The operation itself, whatever the size of the batch."""

    def reading(call: Call) -> Operation | None:
        target, args, named = call.node.target, call.args, call.named

        def run(*inputs: Tensor) -> Tensor:
            left = iter(inputs)
            given = fx.node.map_aggregate(args, lambda each: next(left) if isinstance(each, Of) else each)
            moved: Tensor = target(*given, **named)  # type: ignore[operator]
            return moved

        return Moved(run, terms(call))

    return reading


def _viewed(call: Call) -> Operation | None:
    shape = call.shape
    return Moved(lambda x: x.reshape(len(x), *shape))


def _padded(call: Call) -> Operation | None:
    mode, value = call.argument(2, "mode", "constant"), call.argument(3, "value")
    if call.node.target._opname == "constant_pad_nd":  # type: ignore[union-attr]
        mode, value = "constant", call.argument(2, "value")
    pads = list(call.args[1])
    if mode != "constant" or value or min(pads) < 0:
        return None
    return Moved(lambda x: F.pad(x, pads))


def _averaged(call: Call) -> int:
    """How many numbers go into one of the output."""
    size = int(torch.Size(call.given[0]).numel()) // max(1, int(torch.Size(call.shape).numel()))
    window = call.args[1] if call.node.target._opname == "avg_pool2d" else None  # type: ignore[union-attr]
    return max(size, int(torch.Size(_per(window, 2)).numel()) if window is not None else 0) + 1


def _max_pooled(call: Call) -> Operation | None:
    kernel = _per(call.args[1], 2)
    stride = call.argument(2, "stride") or kernel
    dilation, ceil = _per(call.argument(4, "dilation", 1), 2), call.argument(5, "ceil_mode", False)
    if dilation != (1, 1) or ceil or len(call.shape) != 3:
        return None
    return MaxPool(kernel, _per(stride, 2), _per(call.argument(3, "padding", 0), 2))


def _same(call: Call) -> Operation | None:
    """Nothing is done, unless numbers are rounded to another kind."""
    kinds = {node.meta["val"].dtype for node in (call.node, *call.node.all_input_nodes)}
    return NOTHING if len(kinds) == 1 else None


def _joined(call: Call) -> Operation | None:
    return _moved()(call) if all(isinstance(each, Of) for each in call.args[0]) else None


def _activation(make: Callable[..., Activation], *names: tuple[str, Any]) -> Reading:
    def reading(call: Call) -> Operation:
        return make(*(call.argument(k + 1, name, default) for k, (name, default) in enumerate(names)))

    return reading


def _clamped(call: Call) -> Operation:
    low, high = call.argument(1, "min"), call.argument(2, "max")
    return activations.clipped(
        *(edge if edge is not None else side for edge, side in ((low, -torch.inf), (high, torch.inf)))
    )


def _only(activation: Activation) -> Reading:
    return lambda call: activation


READINGS: dict[str, Reading] = {
    "linear": _dense,
    "matmul": _product,
    "mm": _product,
    "addmm": _added_product,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "add": _plus(1.0),
    "sub": _plus(-1.0),
    "rsub": _from,
    "mul": _arithmetic(lambda value: value, torch.zeros_like),
    "div": _arithmetic(torch.reciprocal, torch.zeros_like, reverse=True),
    "neg": _negated,
    **dict.fromkeys(("view", "reshape", "flatten", "_unsafe_view", "squeeze", "unsqueeze", "unflatten"), _viewed),
    **dict.fromkeys(("clone", "contiguous", "dropout", "detach", "alias", "_to_copy", "to", "lift_fresh_copy"), _same),
    **dict.fromkeys(("slice", "select", "permute", "transpose"), _moved()),
    "cat": _joined,
    **dict.fromkeys(("mean", "sum", "avg_pool2d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d"), _moved(_averaged)),
    **dict.fromkeys(("pad", "constant_pad_nd"), _padded),
    "max_pool2d": _max_pooled,
    "relu": _activation(activations.relu),
    "relu6": _only(activations.clipped(0.0, 6.0)),
    "hardtanh": _activation(activations.clipped, ("min_val", -1.0), ("max_val", 1.0)),
    "clamp": _clamped,
    "clamp_min": _clamped,
    "leaky_relu": _activation(activations.leaky, ("negative_slope", 0.01)),
    "elu": _activation(activations.elu, ("alpha", 1.0), ("scale", 1.0), ("input_scale", 1.0)),
    "celu": lambda call: activations.elu(1.0 * call.argument(1, "alpha", 1.0), 1.0, 1 / call.argument(1, "alpha", 1.0)),
    "selu": _only(activations.elu(1.6732632423543772, 1.0507009873554805)),
    "softplus": _activation(activations.softplus, ("beta", 1.0), ("threshold", 20.0)),
    "gelu": lambda call: activations.gelu(call.named.get("approximate", "none")),
    "hardsigmoid": _activation(activations.hard_sigmoid),
    "hardswish": _activation(activations.hard_swish),
    "sigmoid": _only(activations.SIGMOID),
    "tanh": _only(activations.TANH),
    "silu": _only(activations.SILU),
    "mish": _only(activations.MISH),
    "abs": _only(activations.ABSOLUTE),
}
"""Operation of ATen -> how it is read; None: not with these arguments."""
