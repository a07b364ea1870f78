"""Margins over Lipschitz constants: given by the user, or the product of those of the layers."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.activations import Activation
from robustatlas.certificates.base import MARGIN_OF_SIZES, Certificate, Samples, Subject, norm_of
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Graph, Node
from robustatlas.certificates.operations import Convolution, Dense, MaxPool, Moved, Scaled, Sum
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.windowed import Shape, Windowed
from robustatlas.common.errors import UserError

Of = Literal["vector", "each", "one"]
_PER_MARGIN: dict[Of, float] = {"vector": 2**0.5, "each": 2.0, "one": 1.0}
"""What is Lipschitz -> by how much faster than the constant a margin f_y - f_j can change at most."""


@dataclass(frozen=True)
class Lipschitz(Certificate):
    """A sample keeps its class up to its margin divided by how fast margins can change.

    Attributes:
        constant: L, in the ``norm``; None: the product of the constants of the layers in l2. That is small where the
            layers are made so (spectral normalisation, orthogonal weights), and tells little elsewhere. A constant that
            is given is taken at its word, for the model as it is computed.
        of: what has the constant. ``"vector"``: the logits together, so that margins change by sqrt(2) L. ``"each"``:
            every logit by itself (2 L), as in networks with separate neurons for the classes. ``"one"``: the one logit
            of two classes (L).
        norm: of inputs, by which L is measured.

    Source: Tsuzuku et al. 2018, Lipschitz-Margin Training, section 3; layers: Sedghi et al. 2019, The Singular Values
    of Convolutional Layers, theorem 6 (circular convolutions, of which one with zeros around is a part).

    Example:
        >>> Lipschitz(constant=1.0, of="each").of
        'each'
    """

    name: ClassVar[str] = "lipschitz"
    source: ClassVar[str] = "Tsuzuku et al. 2018 (margin over Lipschitz constant)"
    covers: ClassVar[str] = "it covers the norm that its constant is measured in (norm, l2 if nothing is said)"

    constant: float | None = None
    of: Of = "vector"
    norm: Literal["linf", "l2", "l1"] = "l2"

    def __post_init__(self) -> None:
        if self.of not in _PER_MARGIN or (self.constant is not None and not self.constant > 0):
            raise UserError(
                f"The certificate 'lipschitz' got constant={self.constant}, of={self.of!r}; expected a constant > 0, "
                f"or none, of {', '.join(_PER_MARGIN)}."
            )
        if self.constant is None and self.norm != "l2":
            raise UserError("Constants of layers are known in l2 alone; give the certificate 'lipschitz' a constant.")

    def fits(self, attack: Attack) -> bool:
        return norm_of(attack) == {"linf": torch.inf, "l2": 2.0, "l1": 1.0}.get(self.norm)

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        if self.constant is None:
            _ = subject.network

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        if self.constant is None:
            return self._by_layers(subject, samples)
        with torch.no_grad():
            logits = subject.model.logits(samples.x.to(subject.model.dtype), verifying=True).double()
        margins = _margins(logits, samples.labels).amin(1)
        return (margins.clamp_min(0) / (_PER_MARGIN[self.of] * self.constant) / MARGIN_OF_SIZES).cpu()

    def _by_layers(self, subject: Subject, samples: Samples) -> Tensor:
        network, labels = subject.network, samples.labels
        rates = rates_of(network.graph)[labels]
        margins = _margins(network.graph.run(samples.x), labels)
        reach = (margins / rates).amin(1).clamp_min(0)
        around = Bounds.of(network, NormBall(samples.x, reach, 2.0), backwards=False)
        off = around.deviations()
        margins = margins - off.gather(1, labels[:, None]) - off
        sizes = (margins / rates).amin(1).clamp_min(0) / MARGIN_OF_SIZES
        return torch.where(around.overflows, 0.0, sizes).cpu()


def _margins(logits: Tensor, labels: Tensor) -> Tensor:
    """``[B, C]``: f_y - f_j, inf at the label."""
    return (logits.gather(1, labels[:, None]) - logits).scatter(1, labels[:, None], torch.inf)


def rates_of(graph: Graph) -> Tensor:
    """``[C, C]``: how fast each margin f_i - f_j can change in l2, at most; 1 at i = j."""
    constants: list[float] = []
    for node in graph.nodes[:-1]:
        constants.append(_constant(node, constants, graph))
    last = graph.nodes[-1]
    if isinstance(last.operation, Dense):
        rates = constants[last.inputs[0]] * torch.cdist(last.operation.weight, last.operation.weight)
    else:
        rates = 2**0.5 * _constant(last, constants, graph) * torch.ones(last.shape[0], last.shape[0])
    rates = rates.to(graph.device, torch.float64)
    return rates.clamp_min(1e-300).fill_diagonal_(1.0)


def _constant(node: Node, before: list[float], graph: Graph) -> float:
    """The constant in l2 of a node as a function of the network's input, at most."""
    operation, given = node.operation, [before[k] for k in node.inputs]
    if operation is None:
        return 1.0
    if isinstance(operation, Sum):
        return sum(abs(sign) * each for sign, each in zip(operation.signs, given, strict=True))
    if isinstance(operation, Moved):
        return _moved(operation, given, [graph.nodes[k].shape for k in node.inputs], graph.device)
    return given[0] * _own(operation, graph.nodes[node.inputs[0]].shape, node.shape)


def _own(operation: object, shape: Shape, out: Shape) -> float:
    if isinstance(operation, Dense):
        return float(torch.linalg.matrix_norm(operation.weight, 2))
    if isinstance(operation, Convolution):
        return _convolution(operation, shape[1:])
    if isinstance(operation, Scaled):
        return operation.rate(shape, out)
    if isinstance(operation, Activation):
        return max(map(abs, operation.slopes))
    assert isinstance(operation, MaxPool)
    windows = [-(-kernel // stride) for kernel, stride in zip(operation.kernel, operation.stride, strict=True)]
    return math.sqrt(math.prod(windows))


def _convolution(operation: Convolution, sides: tuple[int, ...]) -> float:
    """The largest singular value of the circular convolution on a torus that holds the zeros around, too: that with
    zeros is a part of it."""
    weight = operation.weight
    kernel = [dilation * (size - 1) + 1 for dilation, size in zip(operation.dilation, weight.shape[2:], strict=True)]
    spread = weight.new_zeros(*weight.shape[:2], *kernel)
    spread[(slice(None), slice(None), *(slice(None, None, dilation) for dilation in operation.dilation))] = weight
    torus = [side + 2 * pad + size for side, pad, size in zip(sides, operation.padding, kernel, strict=True)]
    transfer = torch.fft.fftn(spread, s=torus, dim=list(range(2, weight.dim())))
    grouped = transfer.reshape(operation.groups, -1, weight.shape[1], *torus).flatten(3).permute(0, 3, 1, 2)
    return float(torch.linalg.matrix_norm(grouped, 2).max())


def _moved(operation: Moved, given: list[float], shapes: list[tuple[int, ...]], device: torch.device) -> float:
    """Of weights >= 0: for each input at most the root of the largest sum of a row times that of a column (Schur)."""
    total = 0.0
    ones = [torch.ones(1, *shape, dtype=torch.float64, device=device) for shape in shapes]
    zeros = [torch.zeros_like(each) for each in ones]
    out = torch.ones_like(operation.apply(*ones))
    columns = operation.back(Windowed.all(out), tuple(shapes))
    for k, constant in enumerate(given):
        rows = operation.apply(*(ones[i] if i == k else zeros[i] for i in range(len(given))))
        total += constant**2 * float(rows.max()) * float(columns[k].values.max())
    return math.sqrt(total)
