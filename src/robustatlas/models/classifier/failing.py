"""Networks whose backward pass fails: they have no gradient, which ends in a number and a verdict like any other."""

from typing import Any

import torch
from torch import Tensor

from robustatlas.common.errors import UserError, first_line
from robustatlas.models.classifier.classifier import Classifier
from robustatlas.models.classifier.randomness import seeded
from robustatlas.models.classifier.wrappers import answering


class BackwardError(Exception):
    """The backward pass of a network raised an error; what it said, in a line."""


def slope_of(values: Tensor, x: Tensor) -> Tensor | None:
    """The gradient of the sum of ``values`` at ``x``, whose graph is kept; None where none arrives.

    >>> x = torch.ones(2, requires_grad=True)
    >>> slope_of(3 * x, x), slope_of(torch.ones(2), x)
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


def with_what_gradient_it_has(model: Classifier, x: Tensor) -> Classifier:
    """The model, or, where its backward pass fails at ``x`` [B, ...], the model without a gradient."""
    if model.knowledge != "gradients" or not len(x):
        return model
    leaf = x.to(model.device, model.dtype).clone().requires_grad_()
    try:
        with seeded(0, model.device), torch.enable_grad():
            slope_of(model.logits(leaf, verifying=True), leaf)
    except BackwardError:
        return model.going_through(_Forward(model), "")
    return model


class _Forward:
    def __init__(self, model: Classifier) -> None:
        self.model = model

    def __call__(self, x: Tensor) -> Any:
        answers = answering(self.model.answer, self.model.outputs, self.model.rejection)
        with torch.no_grad():
            return answers(x)
