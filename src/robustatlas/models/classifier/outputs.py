"""The outputs of networks as logits: class scores that softmax turns into probabilities."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.models.classifier.rejection import Rejection, with_score

Logits = Callable[[Tensor], Tensor]
"""A function of inputs [B, ...] to logits [B, C]."""

Outputs = Literal["logits", "probabilities", "logit", "probability"]
"""``"logits"`` [B, C] (log-probabilities are such); ``"probabilities"`` [B, C]; of a classifier of two classes with one
output a sample, [B] or [B, 1]: the ``"logit"`` or the ``"probability"`` of class 1."""

_ROUNDED = 1e-6
"""Largest amount by which rounding may bring a probability below 0."""
_OFF = 0.01 + _ROUNDED
"""Largest distance of the sum of a sample's probabilities from 1."""


@dataclass(frozen=True)
class OutputReader:
    """Reads logits from what a network returns.

    Attributes:
        outputs: the meaning of the numbers that the network returns.
        rejection: the way in which the model refuses to answer (None: it always answers).
    """

    outputs: Outputs
    rejection: Rejection | None

    def read(self, output: Any, count: int) -> Tensor:
        """Return the logits [B, C] in the output for ``count`` samples; one class more for rejection by a score."""
        if self.rejection == "score":
            return with_score(output)
        return as_logits(check_probabilities(logits_in(output, count), self.outputs), self.outputs)


def _logits_from_probabilities(values: Tensor) -> Tensor:
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


def _logits_from_logit(values: Tensor) -> Tensor:
    single = _single(values)
    return torch.stack([torch.zeros_like(single), single], 1)


def _logits_from_probability(values: Tensor) -> Tensor:
    single = _single(values)
    return _logits_from_probabilities(torch.stack([1 - single, single], 1))


def _single(values: Tensor) -> Tensor:
    if values.dim() == 1:
        return values
    if values.dim() == 2 and values.shape[1] == 1:
        return values[:, 0]
    raise UserError(
        f"The model returns shape {tuple(values.shape)}, but its outputs are said to be one number a sample ([B] or "
        "[B, 1]); leave outputs out, or give outputs='probabilities' where they sum to 1."
    )


_AS_LOGITS: dict[Outputs, Callable[[Tensor], Tensor]] = {
    "logits": lambda values: values,
    "probabilities": _logits_from_probabilities,
    "logit": _logits_from_logit,
    "probability": _logits_from_probability,
}


def as_logits(values: Tensor, outputs: Outputs) -> Tensor:
    """Return ``values`` as logits [B, C], differentiable.

    >>> as_logits(torch.tensor([[0.25], [0.5]]), "probability").softmax(1)
    tensor([[0.7500, 0.2500],
            [0.5000, 0.5000]])
    """
    return _AS_LOGITS[outputs](values)


def check_probabilities(values: Tensor, outputs: Outputs) -> Tensor:
    """Return ``values`` [B, C], [B, 1] or [B]; :class:`UserError` if they should be probabilities and are not.

    >>> check_probabilities(torch.tensor([[0.25, 0.75]]), "probabilities")
    tensor([[0.2500, 0.7500]])
    """
    found = values.detach()
    if outputs == "probability":
        found = _single(found)
        found = torch.stack([1 - found, found], 1)
    elif outputs != "probabilities" or found.dim() != _TABLE or found.shape[1] == 1:
        return values
    sums, lowest = found.sum(1, dtype=torch.float64), found.amin(1)
    wrong = (lowest < -_ROUNDED) | ((sums - 1).abs() > _OFF)
    if bool(wrong.any()):
        raise UserError(_sentence_on_numbers(found[wrong], sums[wrong], outputs))
    return values


_TABLE = 2
"""Dimensions of outputs [B, C]."""
_PERCENT = 100


def _is_percent(values: Tensor) -> bool:
    """Return True if the rows of ``values`` [B, C] are not negative and sum to 100."""
    sums = values.sum(1, dtype=torch.float64)
    return bool((values >= 0).all()) and bool(((sums / _PERCENT - 1).abs() <= _OFF).all())


def _sentence_on_numbers(values: Tensor, sums: Tensor, outputs: Outputs) -> str:
    """Return a sentence about rows [B, C] that are no probabilities; for one number p a sample they are (1 - p, p)."""
    if outputs == "probability":
        low, high = (float(value) for value in values[:, 1].aminmax())
        percent, found = low >= 0 and high <= _PERCENT, f"it goes from {low:.4g} to {high:.4g}"
        right, logits = "lies in [0, 1]", "of a logit, give outputs='logit'"
    else:
        low, high = (float(value) for value in values.aminmax())
        percent = _is_percent(values)
        found = f"these go from {low:.4g} to {high:.4g} and sum to {float(sums[0]):.4g}"
        right = "are not negative and sum to 1 in each sample"
        logits = "of logits, give outputs='logits' (answers='logits' of a model that can only be asked)"
    remedy = "it looks like percent: divide by 100" if percent else logits
    return f"The model is said to answer with {outputs}, which {right}, and {found}; {remedy}."


def logits_in(output: Any, count: int | None = None) -> Tensor:
    """Return the logits in the output of a network: a tensor, ``.logits`` or ``["logits"]`` (Hugging Face), or a first
    element. If ``count`` is 1 and the network squeezed the dimension of the batch away, it is put back.

    >>> logits_in((torch.zeros(3), "more"), 1).shape
    torch.Size([1, 3])
    """
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif not isinstance(output, Tensor) and hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, Tensor):
        raise UserError(
            f"The model returned {type(output).__name__}; expected logits as a tensor [B, C], a dict with 'logits', "
            "or an object with .logits. Wrap it in a function that returns the logits."
        )
    if output.is_complex() or output.is_meta or output.layout != torch.strided:
        kind = "on the device 'meta'" if output.is_meta else f"of {output.dtype} and layout {output.layout}"
        raise UserError(
            f"The model returned a tensor {kind}; expected logits as real numbers in a dense tensor [B, C]."
        )
    return output[None] if count == 1 and (not output.dim() or (output.dim() == 1 and len(output) > 1)) else output


def tensor_shapes(output: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of all tensors in an output whose first is taken for the logits; empty if there is only one.

    >>> tensor_shapes((torch.zeros(2, 64), torch.zeros(2, 10))), tensor_shapes((torch.zeros(2, 10), "more"))
    (((2, 64), (2, 10)), ())
    """
    if not isinstance(output, (tuple, list)) or hasattr(output, "logits"):
        return ()
    shapes = tuple(tuple(part.shape) for part in output if isinstance(part, Tensor))
    return shapes if len(shapes) > 1 else ()


def kind_of_outputs(values: Tensor) -> str | None:
    """Guess from the outputs of a network if they are something else than logits.

    Args:
        values: [B, ...] floats.

    Returns:
        ``"probabilities"``: rows in [0, 1] that sum to 1; ``"sigmoids"``: several inside (0, 1) that do not;
        ``"probability"``: one in [0, 1] a sample; ``"logit"``: one of any size; or None.

    Example:
        >>> kind_of_outputs(torch.tensor([[0.2, 0.8], [0.5, 0.5]]))
        'probabilities'
        >>> kind_of_outputs(torch.tensor([[0.2, 0.8], [0.9, 0.9]]))
        'sigmoids'
    """
    within = bool((values >= 0).all()) and bool((values <= 1 + _ROUNDING).all())
    if values.dim() == 1 or (values.dim() == 2 and values.shape[1] == 1):
        return "probability" if within else "logit"
    if values.dim() != 2 or not within:
        return None
    if bool(((values.sum(1) - 1).abs() < _ROUNDING).all()):
        return "probabilities"
    return "sigmoids" if bool(((values > 0) & (values < 1)).all()) else None


_ROUNDING = 1e-3
