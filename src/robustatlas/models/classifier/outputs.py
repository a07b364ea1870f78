"""What a network's outputs are, as class scores that softmax turns into probabilities."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from robustatlas.common.errors import UserError

Outputs = Literal["logits", "probabilities", "logit", "probability"]
"""``"logits"`` [B, C] (log-probabilities are such); ``"probabilities"`` [B, C]; of a classifier of two classes with one
output a sample, [B] or [B, 1]: the ``"logit"`` or the ``"probability"`` of class 1."""

_ROUNDED = 1e-6
_OFF = 0.01 + _ROUNDED
"""How far below 0 a probability may lie by rounding, and how far from 1 the sum of a sample's."""


class Raw(NamedTuple):
    """What a network returned, before it is taken for logits. ``values``: ``[B, ...]``, what is taken. ``rejecting``:
    whether all looks like (logits, rejection score, threshold). ``shapes``: of all its tensors, where ``values`` are
    the first of several."""

    values: Tensor
    rejecting: bool
    shapes: tuple[tuple[int, ...], ...]


def _of_probabilities(values: Tensor) -> Tensor:
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


def _of_logit(values: Tensor) -> Tensor:
    single = _single(values)
    return torch.stack([torch.zeros_like(single), single], 1)


def _of_probability(values: Tensor) -> Tensor:
    single = _single(values)
    return _of_probabilities(torch.stack([1 - single, single], 1))


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
    "probabilities": _of_probabilities,
    "logit": _of_logit,
    "probability": _of_probability,
}


def as_logits(values: Tensor, outputs: Outputs) -> Tensor:
    """``values`` as logits [B, C], differentiable.

    >>> as_logits(torch.tensor([[0.25], [0.5]]), "probability").softmax(1)
    tensor([[0.7500, 0.2500],
            [0.5000, 0.5000]])
    """
    return _AS_LOGITS[outputs](values)


def believed(values: Tensor, outputs: Outputs) -> Tensor:
    """``values`` [B, C], [B, 1] or [B], as they are, once it was looked whether those said to be probabilities are.

    >>> believed(torch.tensor([[0.25, 0.75]]), "probabilities")
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
        raise UserError(_no_probabilities(found[wrong], sums[wrong], outputs))
    return values


_TABLE, _PERCENT = 2, 100
"""Dimensions of outputs [B, C], and what is the whole where they are percent."""


def _looks_like_percent(values: Tensor) -> bool:
    """Return True if the rows of ``values`` [B, C] are not negative and sum to 100."""
    sums = values.sum(1, dtype=torch.float64)
    return bool((values >= 0).all()) and bool(((sums / _PERCENT - 1).abs() <= _OFF).all())


def _no_probabilities(values: Tensor, sums: Tensor, outputs: Outputs) -> str:
    """A sentence about rows [B, C] that are none; of a model with one number a sample they are (1 - p, p)."""
    if outputs == "probability":
        low, high = (float(value) for value in values[:, 1].aminmax())
        percent, found = low >= 0 and high <= _PERCENT, f"it goes from {low:.4g} to {high:.4g}"
        right, logits = "lies in [0, 1]", "of a logit, give outputs='logit'"
    else:
        low, high = (float(value) for value in values.aminmax())
        percent = _looks_like_percent(values)
        found = f"these go from {low:.4g} to {high:.4g} and sum to {float(sums[0]):.4g}"
        right = "are not negative and sum to 1 in each sample"
        logits = "of logits, give outputs='logits' (answers='logits' of a model that can only be asked)"
    remedy = "it looks like percent: divide by 100" if percent else logits
    return f"The model is said to answer with {outputs}, which {right}, and {found}; {remedy}."


def logits_in(output: Any, count: int | None = None) -> Tensor:
    """The logits in what a network returned: a tensor, ``.logits`` or ``["logits"]`` (Hugging Face), or a first
    element. Of ``count`` samples: with the dimension of the batch where a network squeezed that of a single one away.

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


def passed_over(output: Any) -> tuple[tuple[int, ...], ...]:
    """The shapes of all tensors that a network returned, where its first was taken for the logits and there are others.

    >>> passed_over((torch.zeros(2, 64), torch.zeros(2, 10))), passed_over((torch.zeros(2, 10), "more"))
    (((2, 64), (2, 10)), ())
    """
    if not isinstance(output, (tuple, list)) or hasattr(output, "logits"):
        return ()
    shapes = tuple(tuple(part.shape) for part in output if isinstance(part, Tensor))
    return shapes if len(shapes) > 1 else ()


def looks_like(values: Tensor) -> str | None:
    """What else than logits the outputs of a network look like.

    Args:
        values: [B, ...] floats.

    Returns:
        ``"probabilities"``: rows in [0, 1] that sum to 1; ``"sigmoids"``: several inside (0, 1) that do not;
        ``"probability"``: one in [0, 1] a sample; ``"logit"``: one of any size; or None.

    Example:
        >>> looks_like(torch.tensor([[0.2, 0.8], [0.5, 0.5]])), looks_like(torch.tensor([[0.2, 0.8], [0.9, 0.9]]))
        ('probabilities', 'sigmoids')
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
