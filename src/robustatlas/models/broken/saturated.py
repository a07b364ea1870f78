"""Outputs or hidden layers that saturate: gradients vanish in float32, or losses do not see them."""

from functools import cache

import torch
from torch import Tensor, nn

from robustatlas.models.broken.defense import Behind, BrokenDefense, Net, digits, fitted, inner


class Steep(nn.Module):
    """A sigmoid of a thousand times its input: 0 or 1, and flat, nearly everywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return (2000 * x).sigmoid() * x.detach().clamp_min(0)


class BinaryEnsemble(nn.Module):
    """The softmax of the sums of five steep sigmoids of differences of logits."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([digits(), digits("l2"), digits("linf")])

    def forward(self, x: Tensor) -> Tensor:
        votes = torch.zeros(len(x), 10, dtype=x.dtype)
        for net in self.nets:
            logits = net(x)
            votes = votes + (20 * (logits[:, :, None] - logits[:, None])).sigmoid().sum(2)
        return votes.softmax(1)

    def soft(self, x: Tensor) -> Tensor:
        """The mean of the logits [B, 10]."""
        return torch.stack([net(x) for net in self.nets]).mean(0)


def reverse_sigmoid(logits: Tensor) -> Tensor:
    """Probabilities that are moved against the slope where the network is sure (Lee et al. 2019)."""
    likely = (10 * logits).softmax(1).clamp(1e-12, 1 - 1e-7)
    return (likely - 0.5 * ((0.1 * likely.logit()).sigmoid() - 0.5)).clamp_min(0)


def _hidden() -> nn.Module:
    net = digits()
    return nn.Sequential(net[0], Steep(), net[2], Steep(), *list(net)[4:])


def _relu(_: nn.Module) -> Net:
    return digits()


def _soft(net: nn.Module) -> Net:
    assert isinstance(net, BinaryEnsemble)
    return net.soft


@cache
def _smoothed() -> nn.Module:
    return nn.Sequential(fitted(31, epochs=60), _Times(100.0))


class _Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


_BEFORE = "a loss on the logits before the ending"
_DISTILLATION = "Papernot et al. 2016; Carlini and Wagner 2016"

SATURATED = (
    BrokenDefense(
        "temperature", lambda: Behind(after=lambda z: 1000 * z), "softmax saturates", _DISTILLATION, _BEFORE, inner
    ),
    BrokenDefense("distillation", _smoothed, "logits a hundred times as large", _DISTILLATION, _BEFORE, lambda n: n[0]),  # type: ignore[index]
    BrokenDefense(
        "tiny-logits", lambda: Behind(after=lambda z: 1e-12 * z), "losses are constant", _DISTILLATION, _BEFORE, inner
    ),
    BrokenDefense(
        "softmax-twice",
        lambda: Behind(after=lambda z: (50 * (10 * z).softmax(1)).softmax(1)),
        "probabilities of probabilities are flat",
        "Zimmermann et al. 2022 (several final softmaxes)",
        _BEFORE,
        inner,
    ),
    BrokenDefense(
        "tanh-margins",
        lambda: Behind(after=lambda z: (1.5 * (z - z.amax(1, keepdim=True).detach() + 2)).tanh()),
        "tanh of the logits is exactly 1 where the network is sure",
        "Athalye, Carlini and Wagner 2018 (vanishing gradients)",
        _BEFORE,
        inner,
    ),
    BrokenDefense(
        "reverse-sigmoid",
        lambda: Behind(after=reverse_sigmoid),
        "outputs are moved against their slope",
        "Lee et al. 2019; adaptive attacks of Tramèr et al. 2020",
        _BEFORE,
        inner,
    ),
    BrokenDefense(
        "binary-ensemble",
        BinaryEnsemble,
        "steep sigmoids of differences saturate",
        "selfstudy-adversarial-robustness (binary ensemble)",
        "the mean of the logits",
        _soft,
    ),
    BrokenDefense(
        "saturated-layers",
        _hidden,
        "hidden gates are flat in float32",
        "Athalye, Carlini and Wagner 2018 (vanishing gradients)",
        "go back through ReLUs in their place",
        _relu,
    ),
)
