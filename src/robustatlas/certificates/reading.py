"""A network as a graph of operations that bounds know, read by ``torch.export``."""

from __future__ import annotations

import logging
import operator
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from robustatlas.certificates.graph import Graph, Node
from robustatlas.certificates.operations import Moved
from robustatlas.certificates.readings import NOTHING, PLACES, READINGS, Call, Of, depends, flat, in_double, inputs_of
from robustatlas.certificates.windowed import Shape
from robustatlas.common.errors import UserError, first_line
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.normalisation import normalised
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


def program_of(net: nn.Module, x: Tensor) -> Any:
    """A network exported for inputs like ``x`` [B, ...], as :func:`graph_of` reads it, as often as its weights change.

    Raises:
        UserError: it cannot be exported.
    """
    return _exported(net, torch.cat([x[:1], x[:1]]), type(net).__name__)


def graph_of(program: Any, net: nn.Module) -> Graph:
    """The graph of an exported network with the parameters that the ``net`` has now, in exact arithmetic; bounds on it
    are differentiable in the parameters.

    Raises:
        UserError: the network has an operation that no bound is known of.

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
    logger = logging.getLogger("torch.export")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(whole, (example,)).run_decompositions({})
    except Exception as error:
        raise UserError(
            f"The model {name} cannot be read by torch.export: {first_line(error)}. Bounds need a network without "
            "control flow that depends on its input; write its forward so that torch.export.export(net, (x,)) succeeds."
        ) from error
    finally:
        logger.setLevel(level)


class _Reader:
    """Walks through an exported program, node by node; constants are computed, what depends on the input is read."""

    def __init__(self, program: Any, name: str, live: Mapping[str, Tensor] | None = None) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self._values: dict[fx.Node, Any] = {}
        placeholders = self._placeholders(program, live or {})
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
    def _placeholders(program: Any, live: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
        """Names of what goes into the graph -> parameters, buffers and constants in float64, None for the input; those
        that are ``live`` with their gradients."""
        signature = program.graph_signature
        held = {**program.state_dict, **program.constants}
        of = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
        values = {name: live[key] if key in live else held[key].detach() for name, key in of.items()}
        return {name: in_double(values[name]) if name in of else None for name in names}

    def _place(self, node: fx.Node, value: Tensor | None) -> None:
        if value is None:
            self._values[node] = Of(0)
            self.nodes.append(Node(None, (), tuple(node.meta["val"].shape[1:])))
        else:
            self._values[node] = value

    def _called(self, node: fx.Node) -> Any:
        args: Any = fx.map_arg(node.args, self._values.__getitem__)
        named: Any = fx.map_arg(node.kwargs, self._values.__getitem__)
        name = str(getattr(node.target, "_opname", None) or getattr(node.target, "__name__", node.target))
        if name == "getitem" and isinstance(args[0], Of):
            return args[0]
        if not depends(args):
            return node.target(*args, **{key: value for key, value in named.items() if key not in PLACES})  # type: ignore[operator]
        reading = READINGS.get(name.rstrip("_")) or READINGS.get(name)
        if reading is None:
            raise self._unsupported(name)
        value = node.meta["val"]
        made = value[0] if isinstance(value, (tuple, list)) else value
        if tuple(made.shape[:1]) != (2,):
            raise self._unsupported(f"{name} across the samples of a batch")
        given = Call(tuple(made.shape[1:]), args, named, tuple(self.nodes[k].shape for k in inputs_of(args)), node)
        operation = reading(given)
        if operation is None:
            raise self._unsupported(f"{name} with these arguments")
        if operation is NOTHING:
            return next(each for each in flat(args) if isinstance(each, Of))
        self.nodes.append(Node(operation, inputs_of(args), given.shape))
        return Of(len(self.nodes) - 1)

    def _finish(self, output: fx.Node) -> None:
        found = self._values[output]
        if not isinstance(found, Of) or len(self.nodes[found.position].shape) != 1:
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
