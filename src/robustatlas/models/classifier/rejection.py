"""Models that may refuse to answer: the last of their classes is that of rejection. Folding it away for known labels
leaves ordinary logits, whose largest entry is another than the label exactly where an error counts. So attacks work
against classes and detector at once."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from robustatlas.common.errors import UserError

Rejection = Literal["class", "score"]
"""``"class"``: the last of the logits is that of rejection. ``"score"``: the network returns (logits [B, C], score [B],
threshold), and rejects where the score is above the threshold."""

Errors = Literal["accepted", "wrong", "refused", "improbable"]
"""An event that counts as an error:

- ``"accepted"``: an answer that is accepted and wrong (default).
- ``"wrong"``: a wrong answer, rejected or not.
- ``"refused"``: a wrong answer, or a rejection.
- ``"improbable"``: the true class has no more than the probability of a guess.
"""

_PARTS = 3


def with_score(output: Any) -> Tensor:
    """Return logits [B, C + 1] of an output (logits [B, C], score [B], threshold).

    The last is above all others by score - threshold.

    >>> with_score((torch.tensor([[2.0, 1.0], [2.0, 1.0]]), torch.tensor([0.25, 0.75]), 0.5))
    tensor([[2.0000, 1.0000, 1.7500],
            [2.0000, 1.0000, 2.2500]])
    """
    if not isinstance(output, Sequence) or len(output) != _PARTS or not all(isinstance(v, Tensor) for v in output[:2]):
        raise UserError(
            f"The model returned {type(output).__name__}, but its rejection is said to be a score; expected (logits "
            "[B, C], score [B], threshold)."
        )
    logits, score, threshold = output[0], output[1], output[2]
    if logits.dim() != 2 or score.numel() != len(logits):
        raise UserError(
            f"The model returned logits {tuple(logits.shape)} and a rejection score {tuple(score.shape)}; expected [B, "
            "C] and [B]."
        )
    above = score.reshape(-1).to(logits.dtype) - torch.as_tensor(threshold, dtype=logits.dtype, device=logits.device)
    return torch.cat([logits, (logits.amax(1) + above)[:, None]], 1)


def for_labels(logits: Tensor, labels: Tensor, errors: Errors, rejects: bool) -> Tensor:
    """Return logits whose largest entry is another than the label's [B] exactly if an error counts.

    >>> for_labels(torch.tensor([[1.0, 2.0]]), torch.tensor([0]), "accepted", rejects=False)
    tensor([[1., 2.]])
    """
    if rejects:
        return fold_rejection(logits, labels, errors)
    return logits_of_confidence(logits, labels) if errors == "improbable" else logits


def fold_rejection(logits: Tensor, labels: Tensor, errors: Errors) -> Tensor:
    """Return logits [B, C + 1] without the class of rejection: the label's [B] is not the largest if an error counts.

    >>> logits = torch.tensor([[1.0, 2.0, 3.0]])  # the second class, but rejected
    >>> kinds = ("accepted", "wrong", "refused")
    >>> [fold_rejection(logits, torch.tensor([0]), errors).argmax(1).item() for errors in kinds]
    [0, 1, 2]
    """
    if errors == "refused":
        return logits
    if errors == "improbable":
        return logits_of_confidence(fold_rejection(logits, labels, "accepted"), labels)
    classes = logits[:, :-1]
    if errors == "wrong":
        return classes
    place = labels[:, None]
    return classes.scatter(1, place, torch.maximum(classes.gather(1, place), logits[:, -1:]))


_APART = 30.0
"""Logits so far below the second one have no part in a probability."""
_LEAST = 1e-12


def logits_of_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return logits [B, C] whose margin in probability is the normalised cross-entropy c = 1 + log(p_y) / log(C).

    c is at least -1. The true class and the likeliest other one are log((1 + c) / (1 - c)) apart.
    """
    place, own = labels[:, None], logits.log_softmax(1)
    lost = -own.gather(1, place) / math.log(logits.shape[1])
    apart = (2 - lost).clamp_min(_LEAST).log() - lost.clamp_min(_LEAST).log()
    others = logits.scatter(1, place, -torch.inf)
    likeliest = others == others.amax(1, keepdim=True)
    below = torch.where(likeliest, -apart / 2, -apart / 2 - _APART)
    return below.scatter(1, place, apart / 2)


def is_rejecting_output(output: Any) -> bool:
    """Return True if the output of a network for a batch is (logits [B, C], score [B], threshold).

    Args:
        output: whatever the network returned.

    Returns:
        True for three things of such shapes.

    Example:
        >>> is_rejecting_output((torch.zeros(2, 3), torch.zeros(2), 0.5)), is_rejecting_output(torch.zeros(2, 3))
        (True, False)
    """
    if not isinstance(output, (tuple, list)) or len(output) != _PARTS or not isinstance(output[0], Tensor):
        return False
    logits, score, threshold = output
    scored = isinstance(score, Tensor) and logits.dim() == 2 and score.numel() == len(logits)
    return scored and (
        isinstance(threshold, (int, float)) or (isinstance(threshold, Tensor) and threshold.numel() == 1)
    )
