"""``onnx:FILE``, computed in torch with torch's gradient, and ``export:FILE``, a program of ``torch.export.save``."""

import io
import pickle
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, first_line, silence_logger
from robustatlas.models.classifier import Classifier, Origin, Outputs
from robustatlas.models.onnx_operators import OPERATORS, TAKES_NUMBERS
from robustatlas.models.sources.packages import optional, version_of


def onnx_model(file: str, *, mean: Any = None, std: Any = None, outputs: Outputs = "logits") -> Classifier:
    """The network in ``file``: images in [0, 1] (less ``mean``, divided by ``std``) to what ``outputs`` says. A network
    with a fixed batch gets batches of that size."""
    onnx = optional("onnx", f"onnx:{file}", "onnx")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"There is no file {file} to load a network from.")
    try:
        model = onnx.load(path)
        onnx.checker.check_model(model)
    except Exception as error:  # protobuf, the checker and missing external data each have their own
        raise UserError(f"{file} cannot be read as ONNX: {first_line(error)}.") from error
    net = OnnxNetwork(onnx, model.graph, file)
    batch = net.shape[0] if net.shape else 0
    return Classifier(
        net,
        mean,
        std,
        outputs=outputs,
        batch_size=batch or None,
        classes=net.columns,
        origin=Origin(f"onnx:{file}", home=str(path.resolve()), library=version_of("onnx")),
    )


_SHORT = 64
"""Numbers of a constant that may be a shape, axes or pads, at most."""


class OnnxNetwork(nn.Module):
    """The graph of an ONNX file; its weights are buffers, so that they move, are cast and identify the model.

    ``shape`` of its input, ``()`` or 0 where that is not said; ``columns`` of its output, where those are.
    """

    def __init__(self, onnx: ModuleType, graph: Any, file: str) -> None:
        super().__init__()
        self.nodes = [
            (node.op_type, list(node.input), list(node.output), _attributes(onnx, node)) for node in graph.node
        ]
        domains = {node.domain for node in graph.node} - {"", "ai.onnx"}
        unknown = sorted({kind for kind, *_ in self.nodes} - set(OPERATORS)) + sorted(domains)
        if unknown:
            raise UserError(
                f"{file} uses {', '.join(unknown)}, which robustatlas cannot differentiate; give the network in torch, "
                "or from_predictions(a function that runs it) for attacks without a gradient."
            )
        self.places = {}
        for number, weight in enumerate(graph.initializer):
            self.places[weight.name] = f"weight_{number}"
            self.register_buffer(f"weight_{number}", torch.from_numpy(onnx.numpy_helper.to_array(weight).copy()))
        self.numbers = self._constant_numbers()
        inputs = [given for given in graph.input if given.name not in self.places]
        if len(inputs) != 1:
            raise UserError(f"The network in {file} has {len(inputs)} inputs; expected one, the images.")
        self.input, self.output = inputs[0].name, graph.output[0].name
        self.shape, given = _sides(inputs[0]), _sides(graph.output[0])
        self.columns = given[1] if len(given) == 2 and given[1] > 1 else None

    def _constant_numbers(self) -> dict[str, list[float]]:
        """Return short constants of the file as numbers: operators that take shapes and axes compute with those, and
        torch.export can follow them."""
        held: dict[str, Any] = {name: getattr(self, place) for name, place in self.places.items()}
        for kind, _, returned, attributes in self.nodes:
            if kind == "Constant":
                held[returned[0]] = torch.as_tensor(next(iter(attributes.values())))
        return {name: each.flatten().tolist() for name, each in held.items() if each.numel() <= _SHORT}

    def forward(self, x: Tensor) -> Tensor:
        """The first output of the graph."""
        values: dict[str, Any] = {name: getattr(self, place) for name, place in self.places.items()}
        values |= {"": None, self.input: x}
        for kind, given, returned, attributes in self.nodes:
            inputs = [values[name] for name in given]
            if kind in TAKES_NUMBERS:
                first = 0 if kind == "ConstantOfShape" else 1
                inputs[first:] = [self.numbers.get(name, values[name]) for name in given[first:]]
            result = OPERATORS[kind](inputs, attributes)
            values.update(zip(returned, result if isinstance(result, tuple) else (result,), strict=False))
        logits: Tensor = values[self.output]
        return logits


def _sides(value: Any) -> tuple[int, ...]:
    return tuple(int(side.dim_value) for side in value.type.tensor_type.shape.dim)


def _attributes(onnx: ModuleType, node: Any) -> dict[str, Any]:
    found = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            value = torch.from_numpy(onnx.numpy_helper.to_array(value).copy())
        found[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return found


def exported_model(file: str, *, mean: Any = None, std: Any = None, outputs: Outputs = "logits") -> Classifier:
    """The program in ``file``: images in [0, 1] (less ``mean``, divided by ``std``) to what ``outputs`` says.

    A program exported with a fixed batch gets batches of that size. A ``.pt2`` file is a program: load only what you
    trust. Files that hold pickled objects are refused.
    """
    path = Path(file)
    if not path.is_file():
        raise UserError(f"There is no file {file} to load a program from.")
    _refuse_pickles(path)
    try:
        with silence_logger("torch.export"):
            program = torch.export.load(path)
    except Exception as error:
        raise UserError(f"{file} cannot be read as a program of torch.export: {first_line(error)}.") from error
    inputs = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    if len(inputs) != 1 or not isinstance(inputs[0], torch.Tensor):
        raise UserError(f"The program in {file} has {len(inputs)} inputs; expected one, the images.")
    batch = inputs[0].shape[0]
    return Classifier(
        program.module(check_guards=False),
        mean,
        std,
        outputs=outputs,
        batch_size=batch if isinstance(batch, int) else None,
        origin=Origin(f"export:{file}", home=str(path.resolve()), library=f"torch {torch.__version__}"),
    )


def _refuse_pickles(path: Path) -> None:
    """Raise unless all that torch would unpickle of an archive is tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if any(name.endswith("/data.pkl") for name in names):
                raise UserError(
                    f"{path} is of torch.save, not of torch.export.save; give the function that builds the network, "
                    "and its state dict with --weights (in Python as the second argument)."
                )
            tensors = [name for name in names if name.endswith(".pt")]
            if objects := [name for name in names if "custom_obj" in name.rpartition("/")[2]]:
                raise UserError(
                    f"{path} holds pickled objects ({objects[0]}), which are not loaded; export a network of tensors."
                )
            for name in tensors:
                torch.load(io.BytesIO(archive.read(name)), "cpu", weights_only=True)
    except zipfile.BadZipFile as error:
        raise UserError(f"{path} is not a file of torch.export.save (not a zip archive).") from error
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise UserError(
            f"{path} holds pickled objects besides tensors ({name}), which are not loaded; export a network of tensors."
        ) from error
