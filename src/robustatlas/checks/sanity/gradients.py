"""Gradients of a model: where they get lost, and at which share of the samples."""

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.bundle import flat
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.classifier.backward import Backward, going_back
from robustatlas.models.classifier.probing import input_gradient, raw_output
from robustatlas.models.objectives import margin_of

REMEDY = (
    "Wrap it in straight_through(function), or surrogate(function, approximation), so that attacks see through it; "
    "otherwise this would be found as robustness"
)
_FLAT = ("RoundBackward", "FloorBackward", "CeilBackward", "TruncBackward")
"""Operations whose gradient is zero everywhere they have one."""

CHECK_BATCH = 8
"""Samples in one pass of the checks, which do not know yet what fits into memory."""


def flat_operations(output: Tensor) -> list[str]:
    """Return the names of operations on the way to ``output`` whose gradient is zero: round, floor, ceil, trunc.

    >>> flat_operations((torch.rand(3, requires_grad=True) * 4).round())
    ['round']
    """
    names = (type(node).__name__ for node in _autograd_nodes(output))
    found = {name for name in names if name.startswith(_FLAT)}
    return sorted(name.partition("Backward")[0].lower() for name in found)


def _autograd_nodes(output: Tensor) -> Iterator[Any]:
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]


def first_part_without_gradient(model: Classifier, x: Tensor) -> str | None:
    """Return the name of the first part of a model that passes no gradient of ``x`` [B, ...] on; None if all do.

    It is the ``prepare`` of the model, or a module of its network.
    """
    if model.prepare is not None and not model.prepare(x.detach().clone().requires_grad_()).requires_grad:
        return "its prepare"
    if not isinstance(model.net, nn.Module):
        return None
    ends: list[str] = []

    def look(name: str, module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        watched = any(isinstance(value, Tensor) and value.requires_grad for value in given)
        if watched and isinstance(output, Tensor) and not output.requires_grad:
            ends.append(f"its module {name!r} ({type(module).__name__})")

    hooks = [
        module.register_forward_hook(lambda module, given, output, name=name: look(name, module, given, output))
        for name, module in model.net.named_modules()
        if name
    ]
    parameters = [p for p in model.net.parameters() if p.requires_grad]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        with torch.enable_grad():
            raw_output(model, x.detach().clone().requires_grad_())
    finally:
        for parameter in parameters:
            parameter.requires_grad_()
        for hook in hooks:
            hook.remove()
    return ends[0] if ends else None


def watched_margin(
    model: Classifier, images: Tensor, labels: Tensor, back: Backward | None = None
) -> tuple[Tensor, Tensor]:
    """Return ``images`` [B, ...] as inputs that gradients can be taken of, and the margin [B] in full precision."""
    x = images.to(model.device, model.dtype).clone().requires_grad_()
    truth = labels.to(model.device)
    with seeded(0, model.device), going_back(back), torch.enable_grad():
        return x, margin_of(model.logits(x, labels=truth, verifying=True), truth)


def margin_gradients(
    model: Classifier, images: Tensor, labels: Tensor, back: Backward | None = None
) -> tuple[Tensor, Tensor]:
    """Return margins [B] at ``images`` [B, ...] and their gradients [B, ...], zeros if logits depend on no input."""
    margins, slopes = [], []
    for some, truth in zip(torch.split(images, CHECK_BATCH), torch.split(labels, CHECK_BATCH), strict=True):
        x, margin = watched_margin(model, some, truth, back)
        connected = input_gradient(margin, x)
        margins.append(margin.detach())
        slopes.append(torch.zeros_like(x) if connected is None else connected)
    return torch.cat(margins), torch.cat(slopes)


def share_without_gradient(
    model: Classifier, images: Tensor, labels: Tensor, rules: Collection[Backward | None]
) -> float:
    """Return the share of the correctly classified ``images`` [B, ...] at which the model has no gradient to follow.

    The gradient of the margin is zero or not finite by every backward rule. The share is 0 if no image is classified
    correctly, since nothing is attacked then.
    """
    lost, right = torch.ones(len(images), dtype=torch.bool, device=model.device), 0
    for rule in rules:
        margin, slopes = margin_gradients(model, images, labels, rule)
        largest = flat(slopes).abs().amax(1)
        lost &= (margin > 0) & ~(largest.isfinite() & (largest > 0))
        right = max(right, int((margin > 0).sum()))
    return int(lost.sum()) / right if right else 0.0
