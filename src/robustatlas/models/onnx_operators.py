"""The operators of ONNX that classifiers are made of, in torch, so that their gradient is torch's. Each takes the
inputs of a node (None: left out) and its attributes, and returns its output. onnx2torch reads them up to version 17,
and torch's exporter writes later ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Attributes = Mapping[str, Any]
Operator = Callable[[Sequence[Any], Attributes], Any]


def _numbers(values: Tensor | list[float]) -> list[int]:
    known = values.flatten().tolist() if isinstance(values, Tensor) else values
    return [int(value) for value in known]


def _list(given: Sequence[Any], attributes: Attributes, position: int, name: str) -> list[int] | None:
    """Numbers that older versions of an operator have as an attribute, newer ones as an input."""
    if len(given) > position and given[position] is not None:
        return _numbers(given[position])
    return list(attributes[name]) if name in attributes else None


def _padded(x: Tensor, attributes: Attributes, kernel: Sequence[int], value: float = 0.0) -> Tensor:
    """``x`` with the padding that a convolution or pooling asks for."""
    count = len(kernel)
    mode = attributes.get("auto_pad", "NOTSET")
    pads = list(attributes.get("pads", [0] * 2 * count))
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        strides = attributes.get("strides", [1] * count)
        dilations = attributes.get("dilations", [1] * count)
        pads = [0] * 2 * count
        for k in range(count):
            size, step = x.shape[2 + k], strides[k]
            total = max((-(-size // step) - 1) * step + (kernel[k] - 1) * dilations[k] + 1 - size, 0)
            small, large = total // 2, total - total // 2
            pads[k], pads[k + count] = (small, large) if mode == "SAME_UPPER" else (large, small)
    if not any(pads):
        return x
    return F.pad(x, [side for k in reversed(range(count)) for side in (pads[k], pads[k + count])], value=value)


def _conv(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, weight, *bias = given
    kernel = weight.shape[2:]
    count = len(kernel)
    run = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[count]
    strides, dilations = attributes.get("strides", [1] * count), attributes.get("dilations", [1] * count)
    x = _padded(x, attributes, kernel)
    return run(x, weight, bias[0] if bias else None, strides, 0, dilations, attributes.get("group", 1))


def _max_pool(given: Sequence[Any], attributes: Attributes) -> Tensor:
    kernel = attributes["kernel_shape"]
    count = len(kernel)
    run = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[count]
    x = _padded(given[0], attributes, kernel, -torch.inf)
    strides, dilations = attributes.get("strides", [1] * count), attributes.get("dilations", [1] * count)
    pooled: Tensor = run(x, kernel, strides, 0, dilations, bool(attributes.get("ceil_mode", 0)))
    return pooled


def _average_pool(given: Sequence[Any], attributes: Attributes) -> Tensor:
    kernel, ceil = attributes["kernel_shape"], bool(attributes.get("ceil_mode", 0))
    run = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel)]
    strides = attributes.get("strides", [1] * len(kernel))
    pooled: Tensor = run(_padded(given[0], attributes, kernel), kernel, strides, ceil_mode=ceil)
    if attributes.get("count_include_pad", 0):
        return pooled
    share: Tensor = run(_padded(torch.ones_like(given[0]), attributes, kernel), kernel, strides, ceil_mode=ceil)
    return pooled / share


def _batch_norm(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, scale, bias, mean, variance = given
    return F.batch_norm(x, mean, variance, scale, bias, eps=attributes.get("epsilon", 1e-5))


def _layer_norm(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, scale, *bias = given
    shape = x.shape[attributes.get("axis", -1) % x.dim() :]
    normal = F.layer_norm(x, shape, eps=attributes.get("epsilon", 1e-5)) * scale
    shifted: Tensor = normal + bias[0] if bias else normal
    return shifted


def _gemm(given: Sequence[Any], attributes: Attributes) -> Tensor:
    a = given[0].T if attributes.get("transA") else given[0]
    b = given[1].T if attributes.get("transB") else given[1]
    product: Tensor = attributes.get("alpha", 1.0) * (a @ b)
    if len(given) > 2:
        product = product + attributes.get("beta", 1.0) * given[2]
    return product


def _reshape(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, wanted = given[0], _numbers(given[1])
    if not attributes.get("allowzero"):
        wanted = [x.shape[k] if side == 0 else side for k, side in enumerate(wanted)]
    shaped: Tensor = x.reshape(wanted)
    return shaped


def _slice(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x = given[0]
    starts, ends = _list(given, attributes, 1, "starts") or [], _list(given, attributes, 2, "ends") or []
    axes = _list(given, attributes, 3, "axes") or list(range(len(starts)))
    steps = _list(given, attributes, 4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        picked = range(x.shape[axis])[slice(start, end if end > -(2**31) else None, step)]
        x = x.index_select(axis, torch.tensor(list(picked), dtype=torch.int64, device=x.device))
    return x  # type: ignore[no-any-return]


def _reduced(reduce: Callable[..., Tensor]) -> Operator:
    def run(given: Sequence[Any], attributes: Attributes) -> Tensor:
        axes = _list(given, attributes, 1, "axes")
        if not axes and attributes.get("noop_with_empty_axes"):
            return given[0]  # type: ignore[no-any-return]
        return reduce(given[0], axes or list(range(given[0].dim())), bool(attributes.get("keepdims", 1)))

    return run


def _flatten(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, axis = given[0], attributes.get("axis", 1)
    return x.reshape(x.shape[:axis].numel(), -1) if axis else x.reshape(1, -1)  # type: ignore[no-any-return]


def _gather(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, index = given
    axis = attributes.get("axis", 0) % x.dim()
    index = index % x.shape[axis]
    picked = x.index_select(axis, index.flatten())
    return picked.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])  # type: ignore[no-any-return]


def _clip(given: Sequence[Any], attributes: Attributes) -> Tensor:
    low, high = (given[k] if len(given) > k else attributes.get(name) for k, name in ((1, "min"), (2, "max")))
    clipped: Tensor = given[0] if low is None and high is None else torch.clamp(given[0], low, high)
    return clipped


def _squeeze(given: Sequence[Any], attributes: Attributes) -> Tensor:
    axes = _list(given, attributes, 1, "axes")
    return given[0].squeeze() if axes is None else given[0].squeeze(tuple(axes))  # type: ignore[no-any-return]


def _unsqueeze(given: Sequence[Any], attributes: Attributes) -> Tensor:
    axes = _list(given, attributes, 1, "axes") or []
    x, count = given[0], given[0].dim() + len(axes)
    for axis in sorted(axis % count for axis in axes):
        x = x.unsqueeze(axis)
    return x  # type: ignore[no-any-return]


def _split(given: Sequence[Any], attributes: Attributes) -> tuple[Tensor, ...]:
    axis, sizes = attributes.get("axis", 0), _list(given, attributes, 1, "split")
    parts = sizes if sizes is not None else -(-given[0].shape[axis] // attributes["num_outputs"])
    return torch.split(given[0], parts, dim=axis)


def _pad(given: Sequence[Any], attributes: Attributes) -> Tensor:
    x, pads = given[0], _list(given, attributes, 1, "pads") or []
    value = attributes.get("value", 0.0)
    if len(given) > 2 and given[2] is not None:
        value = float(given[2] if isinstance(given[2], Tensor) else given[2][0])
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[attributes.get("mode", "constant")]
    half = len(pads) // 2
    sides = [side for k in reversed(range(half)) for side in (pads[k], pads[k + half])]
    if mode == "constant":
        return F.pad(x, sides, value=value)
    return F.pad(x, sides[: 2 * (x.dim() - 2)], mode=mode)


def _convert_dtype(given: Sequence[Any], attributes: Attributes) -> Tensor:
    kinds = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64}
    return given[0].to(kinds[attributes["to"]])  # type: ignore[no-any-return]


def _shape(given: Sequence[Any], attributes: Attributes) -> Tensor:
    return torch.tensor(given[0].shape)[attributes.get("start", 0) : attributes.get("end")]


def _constant(given: Sequence[Any], attributes: Attributes) -> Tensor:
    (value,) = attributes.values()
    return value if isinstance(value, Tensor) else torch.tensor(value)


def _constant_of_shape(given: Sequence[Any], attributes: Attributes) -> Tensor:
    value = attributes.get("value", torch.zeros(1))
    return value.reshape(()).expand(_numbers(given[0])).clone()  # type: ignore[no-any-return]


def _div(given: Sequence[Any], attributes: Attributes) -> Tensor:
    whole = not given[0].is_floating_point()
    return torch.div(given[0], given[1], rounding_mode="trunc" if whole else None)


def _ignoring_attributes(function: Callable[..., Tensor]) -> Operator:
    return lambda given, attributes: function(*given)


OPERATORS: dict[str, Operator] = {
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda given, _: given[0].mean(list(range(2, given[0].dim())), keepdim=True),
    "GlobalMaxPool": lambda given, _: given[0].amax(list(range(2, given[0].dim())), keepdim=True),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "Gemm": _gemm,
    "MatMul": _ignoring_attributes(torch.matmul),
    "Add": _ignoring_attributes(torch.add),
    "Sub": _ignoring_attributes(torch.sub),
    "Mul": _ignoring_attributes(torch.mul),
    "Div": _div,
    "Pow": _ignoring_attributes(torch.pow),
    "Max": _ignoring_attributes(torch.maximum),
    "Min": _ignoring_attributes(torch.minimum),
    "Sum": lambda given, _: sum(given),
    "Neg": _ignoring_attributes(torch.neg),
    "Abs": _ignoring_attributes(torch.abs),
    "Sqrt": _ignoring_attributes(torch.sqrt),
    "Reciprocal": _ignoring_attributes(torch.reciprocal),
    "Exp": _ignoring_attributes(torch.exp),
    "Log": _ignoring_attributes(torch.log),
    "Erf": _ignoring_attributes(torch.erf),
    "Tanh": _ignoring_attributes(torch.tanh),
    "Sigmoid": _ignoring_attributes(torch.sigmoid),
    "Relu": _ignoring_attributes(torch.relu),
    "LeakyRelu": lambda given, a: F.leaky_relu(given[0], a.get("alpha", 0.01)),
    "PRelu": lambda given, _: torch.where(given[0] < 0, given[0] * given[1], given[0]),
    "Elu": lambda given, a: F.elu(given[0], a.get("alpha", 1.0)),
    "Selu": _ignoring_attributes(F.selu),
    "Softplus": _ignoring_attributes(F.softplus),
    "HardSigmoid": lambda given, a: (a.get("alpha", 0.2) * given[0] + a.get("beta", 0.5)).clamp(0, 1),
    "HardSwish": _ignoring_attributes(F.hardswish),
    "Gelu": lambda given, a: F.gelu(given[0], approximate=a.get("approximate", "none")),
    "Softmax": lambda given, a: given[0].softmax(a.get("axis", -1)),
    "LogSoftmax": lambda given, a: given[0].log_softmax(a.get("axis", -1)),
    "Clip": _clip,
    "Floor": _ignoring_attributes(torch.floor),
    "Ceil": _ignoring_attributes(torch.ceil),
    "Round": _ignoring_attributes(torch.round),
    "Equal": _ignoring_attributes(torch.eq),
    "Greater": _ignoring_attributes(torch.gt),
    "Less": _ignoring_attributes(torch.lt),
    "Not": _ignoring_attributes(torch.logical_not),
    "Where": _ignoring_attributes(torch.where),
    "Cast": _convert_dtype,
    "Identity": lambda given, _: given[0],
    "Dropout": lambda given, _: given[0],
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": lambda given, a: given[0].permute(a.get("perm", list(reversed(range(given[0].dim()))))),
    "Concat": lambda given, a: torch.cat(list(given), a["axis"]),
    "Slice": _slice,
    "Gather": _gather,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Split": _split,
    "Expand": lambda given, _: given[0] * torch.ones(_numbers(given[1]), dtype=given[0].dtype, device=given[0].device),
    "Pad": _pad,
    "ReduceMean": _reduced(torch.mean),
    "ReduceSum": _reduced(torch.sum),
    "ReduceMax": _reduced(torch.amax),
    "ReduceMin": _reduced(torch.amin),
}
"""The operators of the standard domain that are known, by name."""

TAKES_NUMBERS = {"Reshape", "Slice", "Squeeze", "Unsqueeze", "Split", "Expand", "Pad", "ConstantOfShape"}
TAKES_NUMBERS |= {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"}
"""Operators whose constant inputs are shapes, axes or pads, given as lists of numbers."""
