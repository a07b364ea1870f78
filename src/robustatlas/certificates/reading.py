"""A network as a graph of operations that bounds know, read by ``torch.export``."""

import math
import operator
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload

from robustatlas.certificates.network import Ending, Graph, Node
from robustatlas.certificates.operations import AffineOperation, LinearMap
from robustatlas.certificates.readings import (
    NOTHING,
    READERS,
    SPLITTING,
    Call,
    NodeValue,
    Reader,
    arguments_of,
    inputs_of,
    part_reader,
    to_double,
)
from robustatlas.certificates.windowed import Shape
from robustatlas.common.errors import UserError, first_line, quiet_logger
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.network import normalise
from robustatlas.models.classifier.outputs import as_logits, logits_in


class _Whole(nn.Module):
    """A classifier from its inputs to its logits."""

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.net = model.net
        self._outputs, self._dtype = model.outputs, model.network_dtype
        for name, values in model.normalisation().items():
            self.register_buffer(name, values.to(self._dtype))

    def forward(self, x: Tensor) -> Tensor:
        prepared = normalise(x, dict(self._buffers))  # type: ignore[arg-type]
        return as_logits(logits_in(self.net(prepared)), self._outputs)


_UNITS = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Half of the distance from 1 to the next number."""


def read(model: Classifier, shape: Shape) -> Graph:
    """Return the graph of a classifier for inputs [B, *shape]."""
    refuse(model)
    example = torch.zeros(2, *shape, dtype=model.network_dtype, device=model.device)
    with model.evaluating():
        program = _exported(_Whole(model).eval(), example, model.name)
    reader = _Reader(program, model.name)
    unit, largest = _UNITS[model.network_dtype], torch.finfo(model.network_dtype).max
    operations = (node.operation for node in reader.nodes)
    longest = max((each.terms for each in operations if isinstance(each, AffineOperation)), default=0)
    if longest * unit >= 1:
        raise UserError(
            f"{model.name} adds up {longest:,} products in {str(model.network_dtype).removeprefix('torch.')}, whose "
            "rounding has no bound; certify the network in float32 (net.float())."
        )
    smallest = torch.finfo(model.network_dtype).tiny
    return Graph(tuple(reader.nodes), unit, model.device, largest, smallest, reader.ending)


def program_of(net: nn.Module, x: Tensor) -> Any:
    """Export a network for inputs like ``x`` [B, ...], which :func:`graph_of` reads whenever its weights change."""
    return _exported(net, torch.cat([x[:1], x[:1]]), type(net).__name__)


def graph_of(program: Any, net: nn.Module) -> Graph:
    """Return the graph of an exported network with the parameters that the ``net`` has now, in exact arithmetic; bounds
    on it are differentiable in the parameters.

    Example:
        >>> net, x = nn.Linear(4, 3), torch.rand(2, 4)
        >>> graph_of(program_of(net, x), net).run(x).requires_grad
        True
    """
    live = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    reader = _Reader(program, type(net).__name__, live)
    return Graph(tuple(reader.nodes), 0.0, next(net.parameters()).device)


def refuse(model: Classifier) -> None:
    """Raise :class:`UserError` where no bound on the network says anything of the model."""
    said = "; certify the network without that, or look at what attacks find alone."
    if model.draws is not None:
        raise UserError(f"{model.name} draws random numbers, and bounds are of one fixed function{said}")
    if model.prepare is not None:
        raise UserError(
            f"{model.name} transforms its inputs (prepare) before the network, which bounds cannot read{said}"
        )
    if model.rejection is not None:
        raise UserError(
            f"{model.name} may refuse to answer (rejection={model.rejection!r}), of which bounds know nothing{said}"
        )
    if model.knowledge != "gradients":
        raise UserError(f"Of {model.name} only {model.knowledge} are known, and bounds read the network itself{said}")


def _exported(whole: nn.Module, example: Tensor, name: str) -> Any:
    try:
        with quiet_logger("torch.export"), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(whole, (example,))
            _refuse_draws(program, name)
            program = program.run_decompositions({})
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"The model {name} cannot be read by torch.export: {first_line(error)}. Bounds need a network without "
            "control flow that depends on its input; write its forward so that torch.export.export(net, (x,)) succeeds."
        ) from error
    if changed := list(program.graph_signature.buffers_to_mutate.values()):
        raise UserError(
            f"{name} changes its buffer {changed[0]!r} as it runs, and bounds are of one fixed function; keep such "
            "buffers still in eval mode."
        )
    return program


def _refuse_draws(program: Any, name: str) -> None:
    """Raise :class:`UserError` where something is drawn at random, used or not, but for dropout that is off."""
    for node in _calls(program):
        if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
            continue
        known = arguments_of(node.target, node.args, node.kwargs)
        switches = [known[each] for each in ("train", "dropout", "dropout_p") if each in known]
        if not any(each is False or each == 0 for each in switches):
            raise UserError(
                f"{name} draws random numbers as it runs ({node.target}), and bounds are of one fixed function; "
                "certify the network without that, or look at what attacks find alone."
            )


def _calls(program: Any) -> Iterator[fx.Node]:
    """Yield all calls of a program, those in graphs within its graph too."""
    for module in program.graph_module.modules():
        if isinstance(module, fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


_ENDINGS = {"softmax", "_softmax", "log_softmax", "_log_softmax", "log", "clamp_min", "clamp"}
"""Operations after the logits that change no prediction, where they begin with a softmax over the classes."""
_TIES = 32
"""Units by which margins before a softmax are lower than those of numbers that stay apart after it."""


class _Reader:
    """A walk through an exported program, node by node; constants are computed, what depends on the input is read."""

    def __init__(self, program: Any, name: str, live: Mapping[str, Tensor] | None = None) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.ending: Ending | None = None
        self._values: dict[fx.Node, Any] = {}
        placeholders = self._placeholders(program, live or {})
        logits = program.graph_signature.user_outputs[0]
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._place(node, placeholders[node.name])
            elif node.op == "call_function":
                self._values[node] = self._call_value(node)
            elif node.op == "get_attr":
                self._values[node] = operator.attrgetter(str(node.target))(program.graph_module)
            elif node.op == "output":
                named = {str(each): self._values[each] for each in node.args[0] if isinstance(each, fx.Node)}
                self._finish(named.get(str(logits)))

    @staticmethod
    def _placeholders(program: Any, live: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
        """Return parameters, buffers and constants by their names in the graph, None for the input; ``live`` ones with
        their gradients."""
        signature = program.graph_signature
        held = {**program.state_dict, **program.constants}
        of = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
        values = {name: live[key] if key in live else held[key].detach() for name, key in of.items()}
        return {name: values.get(name) for name in names}

    def _place(self, node: fx.Node, value: Tensor | None) -> None:
        if value is None:
            self._values[node] = NodeValue(0)
            self._kind = node.meta["val"].dtype
            self.nodes.append(Node(None, (), tuple(node.meta["val"].shape[1:])))
        else:
            self._values[node] = value

    def _call_value(self, node: fx.Node) -> Any:
        target: Any = node.target
        args: Any = fx.map_arg(node.args, self._values.__getitem__)
        named: Any = fx.map_arg(node.kwargs, self._values.__getitem__)
        if target is operator.getitem and isinstance(args[0], Call):
            return self._read(node, args[0], part_reader(args[1]))
        if not inputs_of([*args, *named.values()]):
            return target(*args, **named)  # a constant, as the network itself computes it
        if target is operator.getitem and args[1] == 0:
            return args[0]
        if target is torch.ops.aten._assert_tensor_metadata.default:
            return None
        name = str(getattr(target, "_opname", None) or getattr(target, "__name__", target))
        if not isinstance(target, OpOverload):
            raise self._unsupported(name)
        call = self._call(target, arguments_of(target, args, named), _sample_shape(node))
        if name in _CONSTANT:
            return torch.full((1, *call.shape), _CONSTANT[name], dtype=self._kind, device=node.meta["val"].device)
        if name in SPLITTING:
            return call
        if name in _ENDINGS and (ended := self._ended(node, call)) is not None:
            return ended
        if name not in READERS:
            raise self._unsupported(name)
        return self._read(node, call, READERS[name])

    def _call(self, target: OpOverload, arguments: dict[str, Any], shape: Shape) -> Call:
        arguments = fx.node.map_aggregate(arguments, to_double)
        given = tuple(self.nodes[k].shape for k in inputs_of(arguments.values()))
        return Call(target, arguments, shape, given, self._kind)

    def _read(self, node: fx.Node, call: Call, reader: Reader) -> NodeValue:
        name, made = call.target._opname, _first_value(node)
        if made.dtype != self._kind:
            raise self._unsupported(f"{name} to {made.dtype}")
        if tuple(made.shape[:1]) != (2,):
            raise self._unsupported(f"{name} across the samples of a batch")
        call = replace(call, shape=tuple(made.shape[1:]))
        operation, inputs = reader.read(call), inputs_of(call.arguments.values())
        unhandled = "these arguments" if operation is None else reader.unhandled_argument(call)
        if operation is None or unhandled:
            raise self._unsupported(f"{name} with {_arguments_in_words(call) if operation is None else unhandled}")
        if operation is NOTHING:
            return NodeValue(inputs[0])
        if isinstance(operation, LinearMap) and not _is_sample_by_sample(operation, call.given, call.shape):
            raise self._unsupported(f"{name} across the samples of a batch")
        self.nodes.append(Node(operation, inputs, call.shape))
        return NodeValue(len(self.nodes) - 1)

    def _ended(self, node: fx.Node, call: Call) -> NodeValue | None:
        """Return the logits where this is an operation after them and nothing but such ones follows; else None."""
        begins = "softmax" in call.target._opname and len(call.shape) == 1 and call["dim"] in (1, -1)
        if not (begins or self.ending is not None) or not _leads_to_output(node):
            return None
        (position,) = inputs_of(call.arguments.values())
        before, target = self.ending, call.target
        arguments = {key: value for key, value in call.arguments.items() if key != "dtype"}

        def ending(logits: Tensor) -> Tensor:
            x = logits if before is None else before(logits)
            found: Tensor = target(
                **{key: x if isinstance(value, NodeValue) else value for key, value in arguments.items()}
            )
            return found

        if self.ending is None:
            noise = _TIES * _UNITS[self._kind]
            self.nodes.append(Node(LinearMap(lambda x: x.clone(), 1, noise=noise), (position,), call.shape))
            position = len(self.nodes) - 1
        self.ending = ending
        return NodeValue(position)

    def _finish(self, found: Any) -> None:
        if not isinstance(found, NodeValue) or len(self.nodes[found.position].shape) != 1:
            raise UserError(f"The logits of {self.name} are not [B, C] of its input; bounds need a classifier.")
        if found.position != len(self.nodes) - 1:
            shape = self.nodes[found.position].shape
            self.nodes.append(Node(LinearMap(lambda x: x.clone()), (found.position,), shape))

    def _unsupported(self, what: str) -> UserError:
        return UserError(
            f"{self.name} has the operation {what!r}, of which no bound is known; known are linear layers, "
            "convolutions, batch normalisation, sums, views, pooling, upsampling and the usual activations: replace "
            "it, or look at what attacks find alone."
        )


_CONSTANT = {"ones_like": 1.0, "zeros_like": 0.0}


def _first_value(node: fx.Node) -> Any:
    value = node.meta["val"]
    return value[0] if isinstance(value, (tuple, list)) else value


def _sample_shape(node: fx.Node) -> Shape:
    return tuple(_first_value(node).shape[1:])


def _leads_to_output(node: fx.Node) -> bool:
    """Return if nothing but operations after the logits follows a node."""
    users = list(node.users)
    if len(users) != 1 or users[0].op == "output":
        return len(users) == 1
    return getattr(users[0].target, "_opname", "") in _ENDINGS and _leads_to_output(users[0])


def _arguments_in_words(call: Call) -> str:
    """Return the numbers and words among the arguments of a call, in one line."""
    plain = {key: value for key, value in call.arguments.items() if isinstance(value, (bool, int, float, str))}
    return ", ".join(f"{key}={value!r}" for key, value in plain.items()) or "these arguments"


def _is_sample_by_sample(operation: LinearMap, given: tuple[Shape, ...], shape: Shape) -> bool:
    """Return if an operation makes of each sample what it makes of it alone."""
    several = [torch.arange(3.0 * math.prod(each), dtype=torch.float64).view(3, *each) for each in given]
    try:
        together = operation.apply(*several)
        alone = torch.cat([operation.apply(*(each[k : k + 1] for each in several)) for k in range(3)])
    except (RuntimeError, IndexError):
        return False
    return together.shape == (3, *shape) and torch.allclose(together, alone, rtol=1e-12)
