"""Passes that look at a model without attacking it: its raw output, the inputs of its ReLUs, and a gradient or none."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from robustatlas.common.errors import UserError, first_line
from robustatlas.models.classifier.batches import run_in_batches
from robustatlas.models.classifier.classifier import Classifier
from robustatlas.models.classifier.network import Net
from robustatlas.models.classifier.outputs import OutputReader, logits_in, tensor_shapes
from robustatlas.models.classifier.precision import true_float32
from robustatlas.models.classifier.randomness import seeded
from robustatlas.models.classifier.rejection import is_rejecting_output
from robustatlas.models.classifier.smoothing import Kinks, kinks_from_moments, recording_relus


class RawOutput(NamedTuple):
    """The output of a network before it is taken for logits.

    Attributes:
        values: the tensor [B, ...] that is taken for logits.
        rejecting: True if all of it has the form (logits, rejection score, threshold).
        shapes: shapes of all its tensors if ``values`` is the first of several, otherwise empty.
    """

    values: Tensor
    rejecting: bool
    shapes: tuple[tuple[int, ...], ...]


def raw_output(model: Classifier, x: Tensor, net: Net | None = None) -> RawOutput:
    """Return the output of ``net`` (None: the model's own) for ``x`` [B, ...] in [0, 1]; passes are not counted."""
    answers: list[Any] = []

    def logits_of(part: Tensor) -> Tensor:
        answers.append(model.answer(part, net))
        return logits_in(answers[-1], len(part))

    with true_float32():
        values = run_in_batches(logits_of, x, model.batch_sizes)
    return RawOutput(values, all(map(is_rejecting_output, answers)), tensor_shapes(answers[-1]))


def kinks_at(model: Classifier, x: Tensor) -> Kinks:
    """Return the standard deviation of the input of each ReLU of a network at ``x`` [B, ...] in [0, 1].

    They come in the order of a pass. Empty where no ReLU can be seen, as in other frameworks and scripted networks.
    Empty too where a ReLU would go back as it is: a backward pass that makes the forward pass again (gradient
    checkpointing), forward derivatives. Passes are not counted.
    """
    moments: list[list[Tensor]] = []
    net = recording_relus(model.net, moments)
    with torch.no_grad():
        raw_output(model, x, net)
    kinks = kinks_from_moments(moments)
    return () if any(kinks) and _recomputes(model, x[:1]) else kinks


def _recomputes(model: Classifier, x: Tensor) -> bool:
    """Return True if ReLUs are computed in the backward pass at ``x`` [B, ...]."""
    leaf = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        values = raw_output(model, leaf).values
    with _Recomputing() as seen, suppress(Exception):  # the checks of the gradient say that it fails
        torch.autograd.grad(values.sum(), leaf, allow_unused=True)
    return bool(seen.relu)


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


class BackwardError(Exception):
    """The backward pass of a network raised an error; its message in one line."""


def input_gradient(values: Tensor, x: Tensor) -> Tensor | None:
    """Return the gradient of the sum of ``values`` at ``x`` and keep its graph; None where none arrives.

    >>> x = torch.ones(2, requires_grad=True)
    >>> input_gradient(3 * x, x), input_gradient(torch.ones(2), x)
    (tensor([3., 3.]), None)
    """
    if not values.requires_grad:
        return None
    try:
        return torch.autograd.grad(values.sum(), x, retain_graph=True, allow_unused=True)[0]
    except (UserError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise BackwardError(first_line(error)) from error


def drop_failing_gradient(model: Classifier, x: Tensor) -> Classifier:
    """Return the model, or, if its backward pass fails at ``x`` [B, ...], the model without a gradient."""
    if model.knowledge != "gradients" or not len(x):
        return model
    leaf = x.to(model.device, model.dtype).clone().requires_grad_()
    try:
        with seeded(0, model.device), torch.enable_grad():
            input_gradient(model.logits(leaf, verifying=True), leaf)
    except BackwardError:
        return model.with_stand_in(_LogitsWithoutGradient(model), "")
    return model


@dataclass(frozen=True)
class _LogitsWithoutGradient:
    """The logits of a model, which no gradient goes through."""

    model: Classifier

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            output = self.model.answer(x)
            return OutputReader(self.model.outputs, self.model.rejection).read(output, len(x))
