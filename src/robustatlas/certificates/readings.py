"""Readers, which turn each operation of ATen into one that bounds know.

A reader declares the arguments that it handles. A call in which another argument is away from its default is refused,
so nothing that a network says is left out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._ops import OpOverload

from robustatlas.certificates import activations
from robustatlas.certificates.activations import Activation
from robustatlas.certificates.network import Operation
from robustatlas.certificates.operations import Convolution, Dense, LinearMap, MaxPool, Scaled, Sum
from robustatlas.certificates.windowed import Shape


@dataclass(frozen=True)
class NodeValue:
    """A value that depends on the input: that of the node at a position of the graph."""

    position: int


@dataclass(frozen=True)
class Call:
    """A call of an operation.

    Attributes:
        target: the operation.
        arguments: by name, those that are left out too; constants in float64.
        shape: of a sample of its output.
        given: of a sample of each of its inputs.
        kind: of the numbers that the network computes in.
    """

    target: OpOverload
    arguments: Mapping[str, Any]
    shape: Shape
    given: tuple[Shape, ...]
    kind: torch.dtype

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]


@dataclass(frozen=True)
class Reader:
    """A function from a call to an operation, None where it cannot read the values of the arguments.

    Attributes:
        read: the function.
        arguments: names of the arguments that it handles; None: all but ``dtype``.
    """

    read: Callable[[Call], Operation | None]
    arguments: frozenset[str] | None

    def unhandled_argument(self, call: Call) -> str | None:
        """Return an argument that the reader does not handle and that is not at its default, as it is written."""
        for argument in call.target._schema.arguments:
            name, value = argument.name, call[argument.name]
            handled = name != "dtype" if self.arguments is None else name in self.arguments
            usual = argument.default_value if argument.has_default_value() else None
            if not handled and value is not call.kind and not _is_usual(value, usual):
                return f"{name}={value!r}" if isinstance(value, (int, float, str, torch.dtype)) else name
        return None


READERS: dict[str, Reader] = {}
"""Operation of ATen -> how it is read."""

Read = Callable[[Call], Operation | None]


def _reads(operations: str, arguments: str | None) -> Callable[[Read], Read]:
    """Register a function as the reader of some operations, with the arguments that it handles; None: all."""

    def register(read: Read) -> Read:
        handled = None if arguments is None else frozenset(arguments.split())
        READERS.update(dict.fromkeys(operations.split(), Reader(read, handled)))
        return read

    return register


def arguments_of(target: OpOverload, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, those that are left out too."""
    known = target._schema.arguments
    given = {**dict(zip((each.name for each in known), args, strict=False)), **named}
    return {each.name: given.get(each.name, each.default_value) for each in known}


def _is_usual(value: Any, usual: Any) -> bool:
    """Return if an argument is at its default; a number stands for a list of it."""
    if isinstance(value, (Tensor, NodeValue)):
        return False
    return value is None or value == usual or (usual is not None and {*flat([value])} == {*flat([usual])})


NOTHING = LinearMap(lambda x: x)
"""An operation that leaves everything as it is, so that it is not a node."""


def to_double(value: Any) -> Any:
    """Return an argument of an operation, constants of the network in float64."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def flat(args: Any) -> list[Any]:
    """Return arguments, and those in lists of them."""
    return [each for arg in args for each in (flat(arg) if isinstance(arg, (tuple, list)) else [arg])]


def inputs_of(args: Any) -> tuple[int, ...]:
    """Return the positions of the nodes among arguments."""
    return tuple(each.position for each in flat(args) if isinstance(each, NodeValue))


def _sides(size: Any, count: int) -> Shape:
    sizes = tuple(int(each) for each in (size if isinstance(size, (tuple, list)) else (size,)))
    return sizes * count if len(sizes) == 1 else sizes


def _are_constant(*values: Any) -> bool:
    return all(value is None or isinstance(value, Tensor) for value in values)


@_reads("linear", "input weight bias")
def _dense(call: Call) -> Operation | None:
    x, weight, bias = call["input"], call["weight"], call["bias"]
    readable = isinstance(x, NodeValue) and _are_constant(weight, bias) and weight.dim() == 2
    return Dense(weight, bias) if readable else None


@_reads("matmul mm", "self other mat2")
def _product(call: Call) -> Operation | None:
    x, weight = call["self"], call.arguments.get("other", call.arguments.get("mat2"))
    if not isinstance(x, NodeValue) or not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return Dense(weight.T.contiguous(), None)


@_reads("addmm", "self mat1 mat2")
def _added_product(call: Call) -> Operation | None:
    bias, x, weight = call["self"], call["mat1"], call["mat2"]
    if not isinstance(x, NodeValue) or not isinstance(weight, Tensor) or not isinstance(bias, Tensor):
        return None
    shift = _constant(bias, call)
    return None if shift is None else Dense(weight.T.contiguous(), shift.expand(call.shape))


@_reads("conv1d conv2d conv3d", "input weight bias stride padding dilation groups")
def _convolution(call: Call) -> Operation | None:
    x, weight, bias, padding = call["input"], call["weight"], call["bias"], call["padding"]
    if not isinstance(x, NodeValue) or not _are_constant(weight, bias) or isinstance(padding, str):
        return None
    count = weight.dim() - 2
    if len(call.given[0]) != count + 1:
        return None
    stride, dilation = _sides(call["stride"], count), _sides(call["dilation"], count)
    return Convolution(weight, bias, stride, _sides(padding, count), dilation, call["groups"])


@_reads(
    "conv_transpose1d conv_transpose2d conv_transpose3d",
    "input weight bias stride padding output_padding groups dilation",
)
def _transposed_convolution(call: Call) -> Operation | None:
    weight, bias = call["weight"], call["bias"]
    if not isinstance(call["input"], NodeValue) or not _are_constant(weight, bias):
        return None
    run = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}[weight.dim()]
    options = [call[name] for name in ("stride", "padding", "output_padding", "groups", "dilation")]
    terms = weight.shape[0] // call["groups"] * math.prod(weight.shape[2:]) + 1
    return LinearMap(lambda x: run(x, weight, bias, *options), terms, lambda x: run(x, weight.abs(), None, *options))


@_reads("_native_batch_norm_legit_no_training", "input weight bias running_mean running_var momentum eps")
def _batch_norm(call: Call) -> Operation | None:
    x, weight, bias = call["input"], call["weight"], call["bias"]
    mean, spread = call["running_mean"], call["running_var"]
    if not isinstance(x, NodeValue) or not _are_constant(weight, bias, mean, spread) or mean is None or spread is None:
        return None
    factor = (spread + call["eps"]).rsqrt()
    factor = factor if weight is None else factor * weight
    back = mean * factor
    shift = -back if bias is None else bias - back
    size = back.abs() if bias is None else bias.abs() + back.abs()
    shape = (-1, *(1,) * (len(call.shape) - 1))
    return Scaled(factor.view(shape), shift.view(shape), size.view(shape), terms=8)


def _constant(value: Any, like: Call) -> Tensor | None:
    if isinstance(value, NodeValue):
        return None
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if tensor.dim() > len(like.shape):
        return tensor[0] if len(tensor) == 1 and tensor.dim() == len(like.shape) + 1 else None
    return tensor


@_reads("add sub rsub", "self other alpha")
def _weighted_sum(call: Call) -> Operation | None:
    """Read a self + b other, where a and b depend on alpha."""
    both, alpha = (call["self"], call["other"]), float(call["alpha"])
    weights = {"add": (1.0, alpha), "sub": (1.0, -alpha), "rsub": (-alpha, 1.0)}[call.target._opname]
    extra = 0 if abs(alpha) == 1 else 2  # alpha is rounded, and its product
    if all(isinstance(each, NodeValue) for each in both):
        same = call.given[0] == call.given[1] == call.shape
        return Sum(weights, 1 + extra) if same else None
    at = 0 if isinstance(both[0], NodeValue) else 1
    value = _constant(both[1 - at], call)
    if value is None:
        return None
    shift = weights[1 - at] * value
    return Scaled(torch.full_like(value, weights[at]), shift, shift.abs(), 2 + extra)


@_reads("mul", "self other")
def _multiplied(call: Call) -> Operation | None:
    one, two = call["self"], call["other"]
    value = _constant(two if isinstance(one, NodeValue) else one, call)
    return None if value is None else Scaled(value, torch.zeros_like(value), torch.zeros_like(value))


@_reads("div", "self other")
def _divided(call: Call) -> Operation | None:
    one, two = call["self"], call["other"]
    value = _constant(two, call) if isinstance(one, NodeValue) else None
    return None if value is None else Scaled(value.reciprocal(), torch.zeros_like(value), torch.zeros_like(value))


@_reads("neg", "self")
def _negated(call: Call) -> Operation | None:
    minus, zero = torch.tensor(-1.0, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    return Scaled(minus, zero, zero, terms=0) if isinstance(call["self"], NodeValue) else None


def _torch_itself(call: Call, terms: int = 0, output: int | None = None) -> LinearMap:
    """Read an operation whose weights are all >= 0 as what torch makes of it, whatever the size of the batch;
    ``output``: which of several tensors."""
    target = call.target
    arguments = {name: value for name, value in call.arguments.items() if name != "dtype"}

    def run(*inputs: Tensor) -> Tensor:
        left = iter(inputs)
        given = fx.node.map_aggregate(arguments, lambda each: next(left) if isinstance(each, NodeValue) else each)
        made = target(**given)
        found: Tensor = made if output is None else made[output]
        return found

    return LinearMap(run, terms)


@_reads("slice select permute transpose flip roll repeat expand index index_select pixel_shuffle pixel_unshuffle", None)
@_reads("reflection_pad1d reflection_pad2d reflection_pad3d", None)
@_reads("replication_pad1d replication_pad2d replication_pad3d", None)
def _rearranged(call: Call) -> Operation | None:
    return _torch_itself(call)


def part_reader(output: int) -> Reader:
    """Return the reader of one of the tensors that an operation splits its input into."""
    return Reader(lambda call: _torch_itself(call, output=output), None)


SPLITTING = ("split", "split_with_sizes", "chunk", "unbind")
"""Operations that return several tensors, read by :func:`part_reader`."""


@_reads("view reshape flatten _unsafe_view squeeze unsqueeze unflatten", None)
def _viewed(call: Call) -> Operation | None:
    shape = call.shape
    return LinearMap(lambda x: x.reshape(len(x), *shape))


@_reads("pad constant_pad_nd", "self pad mode value")
def _padded(call: Call) -> Operation | None:
    mode, pads = call.arguments.get("mode", "constant"), list(call["pad"])
    if call["value"] or min(pads) < 0 or len(pads) > 2 * len(call.shape):
        return None
    return LinearMap(lambda x: F.pad(x, pads, mode))


def _summed_terms(call: Call) -> int:
    """Return how many numbers go into one of the output, and a division."""
    return int(torch.Size(call.given[0]).numel()) // max(1, int(torch.Size(call.shape).numel())) + 1


@_reads("mean sum", None)
def _summed(call: Call) -> Operation | None:
    return _torch_itself(call, _summed_terms(call))


@_reads("avg_pool1d avg_pool2d avg_pool3d", None)
def _averaged(call: Call) -> Operation | None:
    """Read means of windows; a divisor that is given may have any sign."""
    if (call.arguments.get("divisor_override") or 1) < 0:
        return None
    window = math.prod(_sides(call["kernel_size"], int(call.target._opname[-2])))
    return _torch_itself(call, max(_summed_terms(call), window + 1))


@_reads("adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d", None)
def _averaged_to(call: Call) -> Operation | None:
    """Read means of windows that are as large as they must be, and overlap."""
    sides = zip(call.given[0][1:], call.shape[1:], strict=True)
    window = math.prod(max(-(-(i + 1) * size // to) - i * size // to for i in range(to)) for size, to in sides)
    return _torch_itself(call, window + 1)


@_reads("upsample_nearest1d upsample_nearest2d upsample_linear1d upsample_bilinear2d", None)
def _resampled(call: Call) -> Operation | None:
    """Read upsampling as one matrix for each side of the image, with the weights that the network itself computes."""
    sides = len(call.shape) - 1
    matrices = []
    for side in range(sides):
        size = call.given[0][1 + side]
        lone = torch.eye(size, dtype=call.kind).view(1, size, *(size if k == side else 1 for k in range(sides)))
        full = lone.expand(1, size, *call.given[0][1:])
        given = {name: full if isinstance(each, NodeValue) else each for name, each in call.arguments.items()}
        made = call.target(**given).movedim(2 + side, 2)[0]
        matrices.append(made.reshape(size, made.shape[1], -1)[:, :, 0].double())
    equation = "ncl,lo->nco" if sides == 1 else "nchw,ho,wp->ncop"
    return LinearMap(lambda x: torch.einsum(equation, x, *(each.to(x) for each in matrices)), terms=2 * 2**sides)


@_reads("max_pool2d", "self kernel_size stride padding")
def _max_pooled(call: Call) -> Operation | None:
    kernel = _sides(call["kernel_size"], 2)
    if not isinstance(call["self"], NodeValue) or len(call.shape) != 3:
        return None
    return MaxPool(kernel, _sides(call["stride"] or kernel, 2), _sides(call["padding"], 2))


@_reads(
    "clone contiguous detach alias _to_copy to lift_fresh_copy",
    "self other dtype memory_format layout device copy non_blocking pin_memory",
)
def _unchanged(call: Call) -> Operation | None:
    return NOTHING


@_reads("dropout", "input p train")
def _dropped(call: Call) -> Operation | None:
    return None if call["train"] else NOTHING


@_reads("cat stack", None)
def _concatenated(call: Call) -> Operation | None:
    return _torch_itself(call) if all(isinstance(each, NodeValue) for each in call["tensors"]) else None


def _register_activation(operations: str, make: Callable[..., Activation | None], *names: str) -> None:
    def read(call: Call) -> Operation | None:
        values = [call[name] for name in names]
        return make(*values) if isinstance(call["self"], NodeValue) and not inputs_of(values) else None

    _reads(operations, " ".join(("self", *names)))(read)


@_reads("hardtanh clamp clamp_min clamp_max", "self min_val max_val min max")
def _clamped(call: Call) -> Operation | None:
    """Read edges that are numbers, or tensors of one, as the network holds them."""
    edges = []
    for names, nothing in ((("min_val", "min"), -torch.inf), (("max_val", "max"), torch.inf)):
        edge = next((call[name] for name in names if name in call.arguments), None)
        if isinstance(edge, NodeValue) or (isinstance(edge, Tensor) and edge.numel() != 1):
            return None
        edges.append(nothing if edge is None else float(torch.as_tensor(float(edge), dtype=call.kind)))
    return activations.clipped(*edges) if isinstance(call["self"], NodeValue) and edges[0] <= edges[1] else None


def _elu(alpha: float, scale: float, input_scale: float) -> Activation | None:
    return activations.elu(alpha, scale, input_scale) if scale > 0 and input_scale > 0 else None


def _celu(alpha: float) -> Activation | None:
    return activations.elu(1.0 * alpha, 1.0, 1 / alpha) if alpha > 0 else None


def _softplus(beta: float, threshold: float) -> Activation | None:
    """Read softplus without the jump at its threshold, where that is as small as rounding."""
    return activations.softplus(beta, threshold) if beta > 0 and threshold >= _SMOOTH_THRESHOLD else None


_SMOOTH_THRESHOLD = 15.0
"""From here on softplus jumps by less than 1e-6 where it becomes linear."""

_register_activation("leaky_relu", activations.leaky, "negative_slope")
_register_activation("elu", _elu, "alpha", "scale", "input_scale")
_register_activation("celu", _celu, "alpha")
_register_activation("softplus", _softplus, "beta", "threshold")
_register_activation("gelu", activations.gelu, "approximate")
for _names, _activation in (
    ("relu", activations.RELU),
    ("relu6", activations.clipped(0.0, 6.0)),
    ("selu", activations.elu(1.6732632423543772, 1.0507009873554805)),
    ("hardsigmoid", activations.HARD_SIGMOID),
    ("hardswish", activations.HARD_SWISH),
    ("sigmoid", activations.SIGMOID),
    ("tanh", activations.TANH),
    ("silu", activations.SILU),
    ("mish", activations.MISH),
    ("abs", activations.ABSOLUTE),
):
    _register_activation(_names, lambda found=_activation: found)
