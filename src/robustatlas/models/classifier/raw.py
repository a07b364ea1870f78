"""What a network itself returns, before it is taken for logits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from robustatlas.models.classifier.batches import in_batches
from robustatlas.models.classifier.outputs import Raw, logits_in, passed_over
from robustatlas.models.classifier.precision import true_float32
from robustatlas.models.classifier.rejection import looks_rejecting
from robustatlas.models.classifier.wrappers import Net

if TYPE_CHECKING:
    from robustatlas.models.classifier.classifier import Classifier


def raw(model: Classifier, x: Tensor, net: Net | None = None) -> Raw:
    """What ``net`` (None: the model's own) returns for ``x`` [B, ...] in [0, 1]; not counted."""
    answers: list[Any] = []

    def returned(part: Tensor) -> Tensor:
        answers.append(model.answer(part, net))
        return logits_in(answers[-1], len(part))

    with true_float32():
        values = in_batches(returned, x, model.batch_sizes)
    return Raw(values, all(map(looks_rejecting, answers)), passed_over(answers[-1]))
