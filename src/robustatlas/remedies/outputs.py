"""Ways around what stands at the end of a network: losses on its logits, and on outputs of a size that losses see."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from robustatlas.classifier import Classifier
from robustatlas.models.gradients import surrogate
from robustatlas.remedies.ways import Way, scores_of

_SCALE = 10.0
"""Of the largest output that losses are given: softmax of it is neither flat nor exactly 0 and 1."""


def at_logits(model: Classifier, x: Tensor) -> Way | None:
    """The gradient of what the last linear layer says, before softmax, tanh or whatever ends the network (Carlini and
    Wagner 2016); None where no such layer gives one number a class.

    Args:
        model: whose endings mislead.
        x: [B, ...] by which the layer is found.
    """
    if not isinstance(model.net, nn.Module):
        return None
    classes = _classes(model, x)
    ends = [(name, module) for name, module in model.net.named_modules() if isinstance(module, nn.Linear)]
    fitting = [(name, module) for name, module in ends if module.out_features == classes]
    if not fitting:
        return None
    name, layer = fitting[-1]
    way = surrogate(scores_of(model), lambda x: _at(layer, model, x))
    return Way(f"logits at {name!r} (Linear)", model.going_through(way, f"logits at {name!r}"))


def _classes(model: Classifier, x: Tensor) -> int:
    with torch.no_grad():
        return model.logits(x[:1], verifying=True).shape[1]


def _at(layer: nn.Module, model: Classifier, x: Tensor) -> Tensor:
    """What the layer gives [B, C] where the model is asked about ``x``; the last where it is asked several times."""
    said: list[Tensor] = []
    hook = layer.register_forward_hook(lambda module, given, output: said.append(output))
    try:
        model.logits(x, verifying=True)
    finally:
        hook.remove()
    return said[-1].to(x.dtype)


def rescaled(model: Classifier) -> Way:
    """Outputs divided by the largest of their sample, so that no loss finds them too large or too small; the largest
    stays the largest, so that what is wrong stays wrong."""

    def through(x: Tensor) -> Tensor:
        outputs = _connected(model)(x)
        largest = outputs.detach().abs().amax(1, keepdim=True).clamp_min(torch.finfo(outputs.dtype).tiny)
        return _SCALE * outputs / largest

    return Way("rescaled outputs", model.going_through(through, "rescaled outputs"))


def _connected(model: Classifier) -> Callable[[Tensor], Tensor]:
    return lambda x: model.logits(x, verifying=True)
