"""Ways around what stands at the end of a network: losses on its logits, and on outputs of a size that losses see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from robustatlas.checks.remedies.ways import Way, scores_of
from robustatlas.models.classifier import Classifier
from robustatlas.models.gradients import surrogate

_SCALE = 10.0
"""Of the largest output that losses are given: softmax of it is neither flat nor exactly 0 and 1."""


def at_logits(model: Classifier, x: Tensor) -> list[Way]:
    """Gradients of what the last linear layer says, before softmax, tanh or whatever ends the network (Carlini and
    Wagner 2016); where several say one number a class, as of networks that vote, also of the logarithm of their mean
    probability (Tramèr et al. 2020 on EMPIR); none where no linear layer does.
    """
    if not isinstance(model.net, nn.Module):
        return []
    classes = _classes(model, x)
    ends = [(name, module) for name, module in model.net.named_modules() if isinstance(module, nn.Linear)]
    layers = {name: module for name, module in ends if module.out_features == classes}
    if not layers:
        return []
    last, said = list(layers)[-1], len(_said(layers.values(), model, x))
    ways = [_way(model, f"logits at {last!r} (Linear)", lambda x: _said([layers[last]], model, x)[-1])]
    if said > 1:
        ways.append(_way(model, f"mean of {said} votes (Linear)", lambda x: _voted(_said(layers.values(), model, x))))
    return ways


def _classes(model: Classifier, x: Tensor) -> int:
    with torch.no_grad():
        return model.logits(x[:1], verifying=True).shape[1]


def _way(model: Classifier, name: str, said: Callable[[Tensor], Tensor]) -> Way:
    return Way(name, model.going_through(surrogate(scores_of(model), said), name))


def _said(layers: Iterable[nn.Module], model: Classifier, x: Tensor) -> list[Tensor]:
    """What the layers give [B, C], in the order in which they are asked about ``x``."""
    said: list[Tensor] = []
    with ExitStack() as hooks:
        for layer in layers:
            hook = layer.register_forward_hook(lambda module, given, output: said.append(output.to(x.dtype)))
            hooks.callback(hook.remove)
        model.logits(x, verifying=True)
    return said


def _voted(said: Iterable[Tensor]) -> Tensor:
    """Up to a constant the logarithm of the mean of the probabilities, which does not saturate."""
    return torch.stack([logits.log_softmax(1) for logits in said]).logsumexp(0)


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
