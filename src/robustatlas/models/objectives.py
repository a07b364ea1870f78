"""The objectives that attacks maximise.

Every objective takes logits ``[B, C]``, labels ``[B]`` and targets ``[B]`` (``None``: untargeted) and returns
``[B]``. It is larger where the classifier is closer to an error (or to the target class).

==================  ===========================================================================================
cross-entropy       CE(z, y); targeted: -CE(z, t)
margin              max_{j != y} z_j - z_y; targeted: z_t - z_y
dlr                 (max_{j != y} z_j - z_y) / (z_(1) - z_(3)); targeted: (z_t - z_y) / (z_(1) - (z_(3) + z_(4)) / 2)
                    (Croce and Hein 2020, eq. 6 and 7). With 3 classes the targeted denominator is z_(1) - z_(3). With
                    2 classes every such ratio is constant, so the margin is used
probability-margin  the margin on softmax probabilities: the confidence of the adversarial hypervolume
log-margin          log(1 + probability-margin): rises with it, and has a gradient where softmax rounds to 0 and 1
==================  ===========================================================================================
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.errors import unknown

Objective = Literal["cross-entropy", "margin", "dlr", "probability-margin", "log-margin"]

_TINY = 1e-12


def _values_of(values: Tensor, classes: Tensor) -> Tensor:
    return values.gather(1, classes[:, None]).squeeze(1)


def highest_other(values: Tensor, labels: Tensor) -> Tensor:
    """Return ``[B]``: the largest of ``values`` [B, C] that is not the label's."""
    return values.scatter(1, labels[:, None], -torch.inf).amax(1)


def margin_of(values: Tensor, labels: Tensor) -> Tensor:
    """Return ``[B]``: the value of the label minus the largest of the others (negative: misclassified).

    Example:
        >>> margin_of(torch.tensor([[2.0, 0.5, 1.0]]), torch.tensor([0]))
        tensor([1.])
    """
    return _values_of(values, labels) - highest_other(values, labels)


def cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """CE(z, y); targeted: -CE(z, t)."""
    if targets is None:
        return F.cross_entropy(logits, labels, reduction="none")
    return -F.cross_entropy(logits, targets, reduction="none")


def margin(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """max_{j != y} z_j - z_y; targeted: z_t - z_y."""
    if targets is None:
        return -margin_of(logits, labels)
    return _values_of(logits, targets) - _values_of(logits, labels)


def probability_margin(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """The margin on softmax probabilities."""
    return margin(logits.softmax(1), labels, targets)


def log_margin(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """log(1 + the margin on softmax probabilities), from log-probabilities: 1 + p_t - p_y is a sum of the other p."""
    others = logits.log_softmax(1).scatter(1, labels[:, None], -torch.inf)
    rival = others.amax(1) if targets is None else _values_of(others, targets)
    return torch.logaddexp(others.logsumexp(1), rival)


def dlr(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """Difference of logits ratio (Croce and Hein 2020)."""
    difference = margin(logits, labels, targets)
    classes = logits.shape[1]
    if classes == 2:
        return difference
    top = logits.topk(min(4, classes), dim=1).values
    low = top[:, 2] if targets is None or classes == 3 else (top[:, 2] + top[:, 3]) / 2
    return difference / (top[:, 0] - low + _TINY)


OBJECTIVES: dict[Objective, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
    "cross-entropy": cross_entropy,
    "margin": margin,
    "dlr": dlr,
    "probability-margin": probability_margin,
    "log-margin": log_margin,
}

_VERSIONS: dict[Objective, int] = {}
"""Version of each objective whose formula has changed since its first."""

MARGINS = frozenset(OBJECTIVES) - {"cross-entropy"}
"""Objectives that are zero at the decision boundary."""


def objective_code(name: Objective) -> str:
    """Return the code of an objective in records: its name, and its version from the second on.

    Example:
        >>> objective_code("margin")
        'margin'
    """
    return name if name not in _VERSIONS else f"{name}@{_VERSIONS[name]}"


def check_objective(name: str) -> None:
    """Raise a :class:`UserError` that names the nearest objective if ``name`` is none.

    Example:
        >>> check_objective("marginn")
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: There is no objective 'marginn'; did you mean 'margin'?
    """
    if name not in OBJECTIVES:
        raise unknown("objective", name, OBJECTIVES)
