"""A network as a graph of operations that bounds know, read by ``torch.export``."""

from __future__ import annotations

import logging
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from robustatlas.certificates import activations
from robustatlas.certificates.activations import Activation
from robustatlas.certificates.operations import Affine, Convolution, Dense, Moved, Scaled, Shape, Sum
from robustatlas.certificates.pooling import MaxPool
from robustatlas.classifier import Classifier
from robustatlas.classifier.normalisation import normalised
from robustatlas.classifier.outputs import as_logits, logits_in
from robustatlas.errors import UserError, first_line

Operation = Affine | Activation | MaxPool


@dataclass(frozen=True)
class Node:
    """One operation: what its ``inputs`` are (positions in the graph), and the ``shape`` of one sample of its output.

    ``operation`` is None of the input of the network, the first node.
    """

    operation: Operation | None
    inputs: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class Graph:
    """A network in float64: its ``nodes`` in an order in which each follows its inputs; the last are the logits.

    ``unit``: half the distance from 1 to the next number, in the arithmetic of the network itself.
    """

    nodes: tuple[Node, ...]
    unit: float
    device: torch.device

    @property
    def output(self) -> int:
        """Position of the logits."""
        return len(self.nodes) - 1

    @property
    def affine(self) -> bool:
        """Whether the logits are affine in the input."""
        return all(isinstance(node.operation, Affine) for node in self.nodes[1:])

    def run(self, x: Tensor) -> Tensor:
        """Logits [B, C] in float64 of inputs [B, ...]."""
        values = [x.double()]
        for node in self.nodes[1:]:
            given = [values[k] for k in node.inputs]
            operation = node.operation
            assert operation is not None
            values.append(operation.function(*given) if isinstance(operation, Activation) else operation.apply(*given))
        return values[-1]


class _Whole(nn.Module):
    """A classifier from its inputs to its logits."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.net = model.net
        self._outputs, self._dtype = model.outputs, model.network_dtype
        for name, values in model.normalisation().items():
            self.register_buffer(name, values.to(self._dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, C]."""
        prepared = normalised(x, dict(self._buffers))  # type: ignore[arg-type]
        return as_logits(logits_in(self.net(prepared)), self._outputs)


_UNITS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


def read(model: Classifier, shape: Shape) -> Graph:
    """The graph of a classifier for inputs [B, *shape].

    Raises:
        UserError: the model draws random numbers, transforms its inputs or may reject them, cannot be exported, or has
            an operation that no bound is known of.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> [len(node.inputs) for node in read(Classifier(net), (1, 2, 2)).nodes]
        [0, 1, 1, 1, 1]
    """
    refuse(model)
    example = torch.zeros(2, *shape, dtype=model.network_dtype, device=model.device)
    with model.evaluating():
        program = _exported(_Whole(model).eval(), example, model.name)
    reader = _Reader(program, model.name)
    return Graph(tuple(reader.nodes), _UNITS[model.network_dtype], model.device)


def refuse(model: Classifier) -> None:
    """Raise :class:`UserError` where no bound on the network says anything of the model."""
    said = "; certify the network without that, or look at what attacks find alone."
    if model.draws is not None:
        raise UserError(f"{model.name} draws random numbers, and bounds are of one fixed function{said}")
    if model.prepare is not None:
        raise UserError(f"{model.name} transforms its inputs (prepare) before the network, which bounds cannot read{said}")
    if model.rejection is not None:
        raise UserError(f"{model.name} may refuse to answer (rejection={model.rejection!r}), of which bounds know nothing{said}")
    if model.knowledge != "gradients":
        raise UserError(f"Of {model.name} only {model.knowledge} are known, and bounds read the network itself{said}")


def _exported(whole: nn.Module, example: Tensor, name: str) -> Any:
    logger = logging.getLogger("torch.export")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(whole, (example,)).run_decompositions({})
    except Exception as error:
        raise UserError(
            f"torch.export cannot read {name}: {first_line(error)}. Bounds need a network without control flow that "
            "depends on its input; write its forward so that torch.export.export(net, (x,)) succeeds."
        ) from error
    finally:
        logger.setLevel(level)


class _Reader:
    """Walks through an exported program, node by node; constants are computed, what depends on the input is read."""

    def __init__(self, program: Any, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self._values: dict[fx.Node, Any] = {}
        placeholders = self._placeholders(program)
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._place(node, placeholders[node.name])
            elif node.op == "call_function":
                self._values[node] = self._called(node)
            elif node.op == "get_attr":
                self._values[node] = operator.attrgetter(str(node.target))(program.graph_module)
            elif node.op == "output":
                self._finish(node.args[0][0])

    @staticmethod
    def _placeholders(program: Any) -> dict[str, Tensor | None]:
        """Names of what goes into the graph -> parameters, buffers and constants in float64, None for the input."""
        signature = program.graph_signature
        held = {**program.state_dict, **program.constants}
        of = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
        return {name: _in_double(held[of[name]]) if name in of else None for name in names}

    def _place(self, node: fx.Node, value: Tensor | None) -> None:
        if value is None:
            self._values[node] = _Of(0)
            self.nodes.append(Node(None, (), tuple(node.meta["val"].shape[1:])))
        else:
            self._values[node] = value

    def _called(self, node: fx.Node) -> Any:
        args = fx.map_arg(node.args, self._values.__getitem__)
        named = fx.map_arg(node.kwargs, self._values.__getitem__)
        name = getattr(node.target, "_opname", None) or getattr(node.target, "__name__", str(node.target))
        if name == "getitem" and isinstance(args[0], _Of):
            return args[0]
        if not _depends(args):
            return node.target(*args, **{key: value for key, value in named.items() if key not in _PLACES})  # type: ignore[operator]
        reading = _READINGS.get(name.rstrip("_")) or _READINGS.get(name)
        if reading is None:
            raise self._unsupported(name)
        value = node.meta["val"]
        made = value[0] if isinstance(value, (tuple, list)) else value
        if tuple(made.shape[:1]) != (2,):
            raise self._unsupported(f"{name} across the samples of a batch")
        given = _Call(tuple(made.shape[1:]), args, named, tuple(self.nodes[k].shape for k in _inputs(args)), node)
        operation = reading(given)
        if operation is None:
            raise self._unsupported(f"{name} with these arguments")
        if operation is _NOTHING:
            return next(each for each in _flat(args) if isinstance(each, _Of))
        self.nodes.append(Node(operation, _inputs(args), given.shape))
        return _Of(len(self.nodes) - 1)

    def _finish(self, output: fx.Node) -> None:
        found = self._values[output]
        if not isinstance(found, _Of) or len(self.nodes[found.position].shape) != 1:
            raise UserError(f"The logits of {self.name} are not [B, C] of its input; bounds need a classifier.")
        if found.position != len(self.nodes) - 1:
            shape = self.nodes[found.position].shape
            self.nodes.append(Node(Moved(lambda x: x.clone()), (found.position,), shape))

    def _unsupported(self, what: str) -> UserError:
        return UserError(
            f"{self.name} has the operation {what!r}, of which no bound is known; known are linear layers, "
            "convolutions, batch normalisation, sums, views, pooling and the usual activations: replace it, or look at "
            "what attacks find alone."
        )


@dataclass(frozen=True)
class _Of:
    """What depends on the input: a node of the graph."""

    position: int


@dataclass(frozen=True)
class _Call:
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


_PLACES = ("device", "pin_memory", "layout")
_NOTHING = Moved(lambda x: x)
"""What leaves everything as it is, so that it is no node."""


def _in_double(value: Tensor) -> Tensor:
    return value.detach().double() if value.is_floating_point() else value.detach()


def _flat(args: Any) -> list[Any]:
    return [each for arg in args for each in (_flat(arg) if isinstance(arg, (tuple, list)) else [arg])]


def _inputs(args: Any) -> tuple[int, ...]:
    return tuple(each.position for each in _flat(args) if isinstance(each, _Of))


def _depends(args: Any) -> bool:
    return any(isinstance(each, _Of) for each in _flat(args))


def _per(size: Any, count: int) -> Shape:
    sizes = tuple(int(each) for each in (size if isinstance(size, (tuple, list)) else (size,)))
    return sizes * count if len(sizes) == 1 else sizes


Reading = Callable[[_Call], Operation | None]


def _dense(call: _Call) -> Operation | None:
    weight = call.argument(1, "weight")
    return Dense(weight, call.argument(2, "bias")) if isinstance(weight, Tensor) else None


def _product(call: _Call) -> Operation | None:
    """x @ W with a constant matrix."""
    x, weight = call.args[:2]
    if not isinstance(x, _Of) or not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return Dense(weight.T.contiguous(), None)


def _added_product(call: _Call) -> Operation | None:
    bias, x, weight = call.args[:3]
    if not isinstance(x, _Of) or not isinstance(weight, Tensor) or not isinstance(bias, Tensor):
        return None
    return Dense(weight.T.contiguous(), bias)


def _convolution(call: _Call) -> Operation | None:
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


def _batch_norm(call: _Call, variance: int = 4, epsilon: int = -1) -> Operation | None:
    weight, bias, mean, spread = (call.args[k] for k in (1, 2, 3, 4))
    if mean is None or spread is None:
        return None
    factor = (spread + call.args[epsilon]).rsqrt()
    factor = factor if weight is None else factor * weight
    back = mean * factor
    shift = -back if bias is None else bias - back
    size = back.abs() if bias is None else bias.abs() + back.abs()
    shape = (-1, *(1,) * (len(call.shape) - 1))
    return Scaled(factor.view(shape), shift.view(shape), size.view(shape), terms=8)


def _constant(value: Any, like: _Call) -> Tensor | None:
    """A constant of an arithmetic operation, in the shape of one sample."""
    tensor = torch.as_tensor(value, dtype=torch.float64)
    if tensor.dim() > len(like.shape):
        return tensor[0] if len(tensor) == 1 else None
    return tensor


def _arithmetic(factor: Callable[[Tensor], Tensor], shift: Callable[[Tensor], Tensor], reverse: bool = False) -> Reading:
    def reading(call: _Call) -> Operation | None:
        one, two = call.args[:2]
        swapped = not isinstance(one, _Of)
        if isinstance(one, _Of) and isinstance(two, _Of):
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

    def reading(call: _Call) -> Operation | None:
        one, two = call.args[:2]
        scale = float(call.named.get("alpha", 1))
        if isinstance(one, _Of) and isinstance(two, _Of):
            return Sum((1.0, sign * scale)) if call.given[0] == call.given[1] == call.shape else None
        if sign < 0 and not isinstance(one, _Of):
            value = _constant(one, call)
            return None if value is None or scale != 1 else Scaled(-torch.ones_like(value), value, value.abs())
        return with_constant(call)

    return reading


def _from(call: _Call) -> Operation | None:
    """value - x."""
    value = _constant(call.args[1], call)
    return None if value is None else Scaled(-torch.ones_like(value), value, value.abs())


def _moved(terms: Callable[[_Call], int] = lambda call: 0) -> Reading:
    """The operation itself, whatever the size of the batch."""

    def reading(call: _Call) -> Operation | None:
        target, args, named = call.node.target, call.args, call.named

        def run(*inputs: Tensor) -> Tensor:
            left = iter(inputs)
            given = fx.node.map_aggregate(args, lambda each: next(left) if isinstance(each, _Of) else each)
            moved: Tensor = target(*given, **named)  # type: ignore[operator]
            return moved

        return Moved(run, terms(call))

    return reading


def _viewed(call: _Call) -> Operation | None:
    shape = call.shape
    return Moved(lambda x: x.reshape(len(x), *shape))


def _padded(call: _Call) -> Operation | None:
    mode, value = call.argument(2, "mode", "constant"), call.argument(3, "value")
    if call.node.target._opname == "constant_pad_nd":  # type: ignore[union-attr]
        mode, value = "constant", call.argument(2, "value")
    pads = list(call.args[1])
    if mode != "constant" or value or min(pads) < 0:
        return None
    return Moved(lambda x: F.pad(x, pads))


def _averaged(call: _Call) -> int:
    """How many numbers go into one of the output."""
    size = int(torch.Size(call.given[0]).numel()) // max(1, int(torch.Size(call.shape).numel()))
    window = call.args[1] if call.node.target._opname == "avg_pool2d" else None  # type: ignore[union-attr]
    return max(size, int(torch.Size(_per(window, 2)).numel()) if window is not None else 0) + 1


def _max_pooled(call: _Call) -> Operation | None:
    kernel = _per(call.args[1], 2)
    stride = call.argument(2, "stride") or kernel
    dilation, ceil = _per(call.argument(4, "dilation", 1), 2), call.argument(5, "ceil_mode", False)
    if dilation != (1, 1) or ceil or len(call.shape) != 3:
        return None
    return MaxPool(kernel, _per(stride, 2), _per(call.argument(3, "padding", 0), 2))


def _same(call: _Call) -> Operation | None:
    """Nothing is done, unless numbers are rounded to another kind."""
    kinds = {node.meta["val"].dtype for node in (call.node, *call.node.all_input_nodes)}
    return _NOTHING if len(kinds) == 1 else None


def _joined(call: _Call) -> Operation | None:
    return _moved()(call) if all(isinstance(each, _Of) for each in call.args[0]) else None


def _activation(make: Callable[..., Activation], *names: tuple[str, Any]) -> Reading:
    def reading(call: _Call) -> Operation:
        return make(*(call.argument(k + 1, name, default) for k, (name, default) in enumerate(names)))

    return reading


def _clamped(call: _Call) -> Operation:
    low, high = call.argument(1, "min"), call.argument(2, "max")
    return activations.clipped(*(edge if edge is not None else side for edge, side in ((low, -torch.inf), (high, torch.inf))))


def _only(activation: Activation) -> Reading:
    return lambda call: activation


_READINGS: dict[str, Reading] = {
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
    "neg": lambda call: Scaled(*(torch.tensor(v, dtype=torch.float64) for v in (-1.0, 0.0, 0.0)), terms=0),  # type: ignore[arg-type]
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
