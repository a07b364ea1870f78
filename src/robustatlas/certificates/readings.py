"""How each operation of ATen is read into one that bounds know."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._ops import OpOverload

from robustatlas.certificates import activations
from robustatlas.certificates.activations import Activation
from robustatlas.certificates.network import Operation
from robustatlas.certificates.operations import Convolution, Dense, MaxPool, Moved, Scaled, Sum
from robustatlas.certificates.windowed import Shape


@dataclass(frozen=True)
class Of:
    """What depends on the input: a node of the graph."""

    position: int


@dataclass(frozen=True)
class Call:
    """A call of an operation, of which a reading has to take every argument.

    Attributes:
        target: the operation.
        arguments: by name, those that are left out too.
        shape: of a sample of its output.
        given: of a sample of each of its inputs.
        kind: of the numbers that the network computes in.
        taken: names of the arguments that a reading has looked at.
    """

    target: OpOverload
    arguments: Mapping[str, Any]
    shape: Shape
    given: tuple[Shape, ...]
    kind: torch.dtype
    taken: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:
        self.taken.add(name)
        return self.arguments[name]

    def take_all(self) -> Mapping[str, Any]:
        """All arguments but the kind of number of the output."""
        return {name: self[name] for name in self.arguments if name != "dtype"}

    def ignored(self) -> str | None:
        """An argument that no reading has looked at and that is not at its default, as it is written; None: there is
        none."""
        for argument in self.target._schema.arguments:
            value = self.arguments[argument.name]
            usual = argument.default_value if argument.has_default_value() else None
            if argument.name not in self.taken and value is not self.kind and not _equal(value, usual):
                return f"{argument.name}={'...' if isinstance(value, (Tensor, Of)) else value!r}"
        return None


def arguments_of(target: OpOverload, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, those that are left out too."""
    known = target._schema.arguments
    given = {**dict(zip((each.name for each in known), args, strict=False)), **named}
    return {each.name: given.get(each.name, each.default_value) for each in known}


def _equal(value: Any, usual: Any) -> bool:
    """Whether an argument is at its default; a number stands for a list of it."""
    if isinstance(value, (Tensor, Of)):
        return False
    return value is None or value == usual or (usual is not None and {*flat([value])} == {*flat([usual])})


NOTHING = Moved(lambda x: x)
"""What leaves everything as it is, so that it is not a node."""


def in_double(value: Any) -> Any:
    """What goes into an operation, with constants of the network in float64."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def flat(args: Any) -> list[Any]:
    """Arguments, and those in lists of them."""
    return [each for arg in args for each in (flat(arg) if isinstance(arg, (tuple, list)) else [arg])]


def inputs_of(args: Any) -> tuple[int, ...]:
    """Positions of the nodes among arguments."""
    return tuple(each.position for each in flat(args) if isinstance(each, Of))


def _per(size: Any, count: int) -> Shape:
    sizes = tuple(int(each) for each in (size if isinstance(size, (tuple, list)) else (size,)))
    return sizes * count if len(sizes) == 1 else sizes


Reading = Callable[[Call], Operation | None]


def _fixed(*values: Any) -> bool:
    """Whether values are tensors that do not depend on the input, or not there."""
    return all(value is None or isinstance(value, Tensor) for value in values)


def _dense(call: Call) -> Operation | None:
    x, weight, bias = call["input"], call["weight"], call["bias"]
    return Dense(weight, bias) if isinstance(x, Of) and _fixed(weight, bias) and weight.dim() == 2 else None


def _product(second: str) -> Reading:
    def reading(call: Call) -> Operation | None:
        x, weight = call["self"], call[second]
        if not isinstance(x, Of) or not isinstance(weight, Tensor) or weight.dim() != 2:
            return None
        return Dense(weight.T.contiguous(), None)

    return reading


def _added_product(call: Call) -> Operation | None:
    bias, x, weight = call["self"], call["mat1"], call["mat2"]
    if not isinstance(x, Of) or not isinstance(weight, Tensor) or not isinstance(bias, Tensor):
        return None
    shift = _constant(bias, call)
    return None if shift is None else Dense(weight.T.contiguous(), shift.expand(call.shape))


def _convolution(call: Call) -> Operation | None:
    x, weight, bias, padding = call["input"], call["weight"], call["bias"], call["padding"]
    if not isinstance(x, Of) or not _fixed(weight, bias) or isinstance(padding, str):
        return None
    count = weight.dim() - 2
    if len(call.given[0]) != count + 1:
        return None
    stride, dilation = _per(call["stride"], count), _per(call["dilation"], count)
    return Convolution(weight, bias, stride, _per(padding, count), dilation, call["groups"])


def _batch_norm(call: Call) -> Operation | None:
    x, weight, bias, mean, spread, _ = (
        call[name] for name in ("input", "weight", "bias", "running_mean", "running_var", "momentum")
    )
    if not isinstance(x, Of) or not _fixed(weight, bias, mean, spread) or mean is None or spread is None:
        return None
    factor = (spread + call["eps"]).rsqrt()
    factor = factor if weight is None else factor * weight
    back = mean * factor
    shift = -back if bias is None else bias - back
    size = back.abs() if bias is None else bias.abs() + back.abs()
    shape = (-1, *(1,) * (len(call.shape) - 1))
    return Scaled(factor.view(shape), shift.view(shape), size.view(shape), terms=8)


def _constant(value: Any, like: Call) -> Tensor | None:
    if isinstance(value, Of):
        return None
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if tensor.dim() > len(like.shape):
        return tensor[0] if len(tensor) == 1 and tensor.dim() == len(like.shape) + 1 else None
    return tensor


def _weighted(first: Callable[[float], float], second: Callable[[float], float]) -> Reading:
    """a self + b other, where a and b depend on alpha."""

    def reading(call: Call) -> Operation | None:
        both, alpha = (call["self"], call["other"]), float(call["alpha"])
        weights = (first(alpha), second(alpha))
        extra = 0 if abs(alpha) == 1 else 2  # alpha is rounded, and its product
        if all(isinstance(each, Of) for each in both):
            same = call.given[0] == call.given[1] == call.shape
            return Sum(weights, 1 + extra) if same else None
        at = 0 if isinstance(both[0], Of) else 1
        value = _constant(both[1 - at], call)
        if value is None:
            return None
        shift = weights[1 - at] * value
        return Scaled(torch.full_like(value, weights[at]), shift, shift.abs(), 2 + extra)

    return reading


def _times(call: Call) -> Operation | None:
    one, two = call["self"], call["other"]
    value = _constant(two if isinstance(one, Of) else one, call)
    return None if value is None else Scaled(value, torch.zeros_like(value), torch.zeros_like(value))


def _divided(call: Call) -> Operation | None:
    one, two = call["self"], call["other"]
    value = _constant(two, call) if isinstance(one, Of) else None
    return None if value is None else Scaled(value.reciprocal(), torch.zeros_like(value), torch.zeros_like(value))


def _negated(call: Call) -> Operation | None:
    minus, zero = torch.tensor(-1.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    return Scaled(minus, zero, zero, terms=0) if isinstance(call["self"], Of) else None


def _moved(terms: Callable[[Call], int] = lambda call: 0) -> Reading:
    """The operation itself, whatever the size of the batch."""

    def reading(call: Call) -> Operation | None:
        target, arguments = call.target, tuple(call.take_all().values())

        def run(*inputs: Tensor) -> Tensor:
            left = iter(inputs)
            given = fx.node.map_aggregate(arguments, lambda each: next(left) if isinstance(each, Of) else each)
            moved: Tensor = target(*given)
            return moved

        return Moved(run, terms(call))

    return reading


def _viewed(call: Call) -> Operation | None:
    call.take_all()
    shape = call.shape
    return Moved(lambda x: x.reshape(len(x), *shape))


def _padded(call: Call) -> Operation | None:
    call["self"]
    pads = list(call["pad"])
    if call["value"] or min(pads) < 0:
        return None
    return Moved(lambda x: F.pad(x, pads))


def _summed(call: Call) -> int:
    """How many numbers go into one of the output, and a division."""
    return int(torch.Size(call.given[0]).numel()) // max(1, int(torch.Size(call.shape).numel())) + 1


def _averaged(call: Call) -> Operation | None:
    """Means of windows; a divisor that is given may have any sign."""
    if (call["divisor_override"] or 1) < 0:
        return None
    window = int(torch.Size(_per(call["kernel_size"], 2)).numel())
    return _moved(lambda call: max(_summed(call), window + 1))(call)


def _averaged_to(call: Call) -> int:
    """:func:`_summed` of windows that are as large as they must be, and overlap."""
    sides = zip(call.given[0][-2:], call.shape[-2:], strict=True)
    return math.prod(max(-(-(i + 1) * size // to) - i * size // to for i in range(to)) for size, to in sides) + 1


def _max_pooled(call: Call) -> Operation | None:
    kernel = _per(call["kernel_size"], 2)
    if not isinstance(call["self"], Of) or len(call.shape) != 3:
        return None
    return MaxPool(kernel, _per(call["stride"] or kernel, 2), _per(call["padding"], 2))


def _same(call: Call) -> Operation | None:
    """Nothing is done; that numbers are of one kind is looked at of every operation."""
    call.take_all()
    call.taken.add("dtype")
    return NOTHING


def _dropped(call: Call) -> Operation | None:
    return None if call["train"] else _same(call)


def _joined(call: Call) -> Operation | None:
    return _moved()(call) if all(isinstance(each, Of) for each in call["tensors"]) else None


def _activation(make: Callable[..., Activation | None], *names: str) -> Reading:
    def reading(call: Call) -> Operation | None:
        values = [call[name] for name in names]
        return make(*values) if isinstance(call["self"], Of) and not inputs_of(values) else None

    return reading


def _clamped(*names: str) -> Reading:
    """Between edges that are numbers, or tensors of one, as the network holds them."""

    def reading(call: Call) -> Operation | None:
        edges = []
        for name, nothing in zip(names, (-torch.inf, torch.inf), strict=False):
            edge = call[name]
            if isinstance(edge, Of) or (isinstance(edge, Tensor) and edge.numel() != 1):
                return None
            edges.append(nothing if edge is None else float(torch.as_tensor(float(edge), dtype=call.kind)))
        return activations.clipped(*edges, *(torch.inf,) * (2 - len(edges))) if isinstance(call["self"], Of) else None

    return reading


def _elu(alpha: float, scale: float, input_scale: float) -> Activation | None:
    return activations.elu(alpha, scale, input_scale) if scale > 0 and input_scale > 0 else None


def _celu(alpha: float) -> Activation | None:
    return activations.elu(1.0 * alpha, 1.0, 1 / alpha) if alpha > 0 else None


def _softplus(beta: float, threshold: float) -> Activation | None:
    return activations.softplus(beta, threshold) if beta > 0 else None


def _only(activation: Activation) -> Reading:
    return _activation(lambda: activation)


READINGS: dict[str, Reading] = {
    "linear": _dense,
    "matmul": _product("other"),
    "mm": _product("mat2"),
    "addmm": _added_product,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "add": _weighted(lambda alpha: 1.0, lambda alpha: alpha),
    "sub": _weighted(lambda alpha: 1.0, lambda alpha: -alpha),
    "rsub": _weighted(lambda alpha: -alpha, lambda alpha: 1.0),
    "mul": _times,
    "div": _divided,
    "neg": _negated,
    **dict.fromkeys(("view", "reshape", "flatten", "_unsafe_view", "squeeze", "unsqueeze", "unflatten"), _viewed),
    **dict.fromkeys(("clone", "contiguous", "detach", "alias", "_to_copy", "to", "lift_fresh_copy"), _same),
    "dropout": _dropped,
    **dict.fromkeys(("slice", "select", "permute", "transpose"), _moved()),
    "cat": _joined,
    **dict.fromkeys(("mean", "sum"), _moved(_summed)),
    "avg_pool2d": _averaged,
    **dict.fromkeys(("adaptive_avg_pool2d", "_adaptive_avg_pool2d"), _moved(_averaged_to)),
    **dict.fromkeys(("pad", "constant_pad_nd"), _padded),
    "max_pool2d": _max_pooled,
    "relu": _only(activations.RELU),
    "relu6": _only(activations.clipped(0.0, 6.0)),
    "hardtanh": _clamped("min_val", "max_val"),
    "clamp": _clamped("min", "max"),
    "clamp_min": _clamped("min"),
    "leaky_relu": _activation(activations.leaky, "negative_slope"),
    "elu": _activation(_elu, "alpha", "scale", "input_scale"),
    "celu": _activation(_celu, "alpha"),
    "selu": _only(activations.elu(1.6732632423543772, 1.0507009873554805)),
    "softplus": _activation(_softplus, "beta", "threshold"),
    "gelu": _activation(activations.gelu, "approximate"),
    "hardsigmoid": _only(activations.HARD_SIGMOID),
    "hardswish": _only(activations.HARD_SWISH),
    "sigmoid": _only(activations.SIGMOID),
    "tanh": _only(activations.TANH),
    "silu": _only(activations.SILU),
    "mish": _only(activations.MISH),
    "abs": _only(activations.ABSOLUTE),
}
"""Operation of ATen -> how it is read; None: not with these arguments."""
