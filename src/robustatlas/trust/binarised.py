"""The binarisation test (Zimmermann et al. 2022): every image gets a readout of the network's features that puts one
point at the border of the set into another class, and the attack has to find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.checks.indicators.searched import PlantedTest
from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluated
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from robustatlas.threats.lp import Lp

_INNER = 999
_ETA = 0.95
_CLOSENESS = 0.9999
_CONTROL = 200
_RESCALED = 20
_OTHERS = 100.0
"""How far below the two classes of an image those of all others are."""


class Readouts(Classifier):
    """The features of a network, read out for each image by two logits of its own; labels say which image it is."""

    def __init__(
        self, model: Classifier, features: Callable[[Tensor], Tensor], weights: Tensor, biases: Tensor
    ) -> None:
        super().__init__(lambda x: torch.zeros(len(x), max(2, len(weights))), dtype=model.dtype)
        self._features, self._weights, self._biases = features, weights, biases

    def _one(self, x: Tensor, labels: Tensor | None, verifying: bool, net: object = None) -> Tensor:
        who = torch.zeros(len(x), dtype=torch.long) if labels is None else labels
        two = torch.einsum("bd,bdk->bk", self._features(x), self._weights[who]) + self._biases[who]
        count = max(2, len(self._weights))
        below = two.detach().amin(1, keepdim=True) - _OTHERS * (1 + two.detach().abs().amax(1, keepdim=True))
        logits = below.expand(len(x), count).scatter(1, who[:, None], two[:, :1])
        return logits.scatter(1, ((who + 1) % count)[:, None], two[:, 1:])


def binarisation(model: Classifier, x: Tensor, attack: Attack, epsilon: float, seed: int) -> PlantedTest | None:
    """The test of images ``x`` [B, ...] under an attack at one strength; None of a network without a linear layer."""
    layer = _last_linear(model)
    if layer is None:
        return None

    def features(points: Tensor) -> Tensor:
        return _given_to(layer, model, points)

    noise = Noise.of(seed, torch.arange(len(x)), f"binarisation {attack.name}")
    count = max(2, min(_INNER, layer.in_features - 3))
    fits = [_readout(model, features, attack, x[k : k + 1], noise.at(k), epsilon, count) for k in range(len(x))]
    weights, biases = (torch.stack(parts).to(x) for parts in ([fit[0] for fit in fits], [fit[1] for fit in fits]))
    set_up = torch.tensor([fit[2] for fit in fits])
    net = Readouts(model, features, weights, biases)
    chance = torch.tensor([_by_chance(net, attack, x[k : k + 1], noise.at(k), epsilon, k) for k in range(len(x))])
    asked = Request(attacks=[replace(attack, strengths=(epsilon,))], seed=seed, diagnose=False, progress=False)
    found = evaluated(net, (x, torch.arange(len(x))), asked).minimal_size(attack.name)
    hit = torch.from_numpy(found <= epsilon * (1 + 1e-5))
    return PlantedTest(hit, chance, set_up, convex=isinstance(attack.threat, Lp))


def _last_linear(model: Classifier) -> nn.Linear | None:
    modules = list(model.net.modules()) if isinstance(model.net, nn.Module) else []
    layers = [module for module in modules if isinstance(module, nn.Linear)]
    return layers[-1] if layers else None


def _given_to(layer: nn.Linear, model: Classifier, x: Tensor) -> Tensor:
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    try:
        model.logits(x, verifying=True)
    finally:
        hook.remove()
    return flat(seen[-1]).to(x.dtype)


def _points(attack: Attack, x: Tensor, noise: Noise, epsilon: float, count: int, border: bool) -> Tensor:
    """Random points [count, ...] of the set around an image [1, ...]: inside of it, or at its border."""
    rows = x.expand(count, *x.shape[1:])
    streams = Noise(noise.keys.repeat(count)).child(torch.arange(count))
    if attack.threat == attack_named("linf").threat:
        step = streams.sign(*x.shape[1:], dtype=x.dtype) if border else streams.symmetric(*x.shape[1:], dtype=x.dtype)
        return torch.clamp(rows + epsilon * step, 0, 1)
    if attack.threat == attack_named("l2").threat:
        return _at_length(rows, streams.normal(*x.shape[1:], dtype=x.dtype), epsilon)
    full = torch.full((count,), epsilon, dtype=x.dtype)
    theta = attack.threat.start(rows, full if not border else 8 * full, streams)
    points: Tensor = attack.threat.apply(rows, attack.threat.project(rows, theta, full))
    return points


def _at_length(x: Tensor, direction: Tensor, length: float) -> Tensor:
    """Points [B, ...] in these directions, so far that after clipping to [0, 1] they are at this l2 distance."""
    scale = length / flat(direction).norm(dim=1)
    for _ in range(_RESCALED):
        points = torch.clamp(x + per_sample(scale, x) * direction, 0, 1)
        scale = scale * length / flat(points - x).norm(dim=1).clamp_min(1e-12)
    return torch.clamp(x + per_sample(scale, x) * direction, 0, 1)


def _readout(
    model: Classifier,
    features: Callable[[Tensor], Tensor],
    attack: Attack,
    x: Tensor,
    noise: Noise,
    epsilon: float,
    count: int,
) -> tuple[Tensor, Tensor, bool]:
    """Weights [D, 2] and biases [2] that tell the point at the border from those inside, and whether they do."""
    inner = _points(attack, x, noise.child(1), _ETA * epsilon, count, False)
    border = _points(attack, x, noise.child(2), epsilon, 1, True)
    with torch.no_grad():
        points = torch.cat([x, inner, border])
        z, own = features(points).double(), model.logits(points, verifying=True).double()
    w, b = _separating(z.numpy(), len(points) - 1)
    two = torch.stack([-(z @ w) - b, z @ w + b], 1)
    wanted = torch.zeros(len(points), dtype=torch.bool)
    wanted[-1] = True
    set_up = bool(((two[:, 1] > two[:, 0]) == wanted).all())
    scale = (own.max() - own.min()) / (two.max() - two.min()).clamp_min(1e-300)
    weights, biases = scale * torch.stack([-w, w], 1), scale * torch.tensor([-float(b), float(b)])
    lead = (z @ weights + biases)[-1]
    closer = _CLOSENESS * float(lead[0] - lead[1])
    biases = biases + torch.tensor([-closer / 2, closer / 2], dtype=biases.dtype)
    return weights, biases, set_up


def _separating(z: np.ndarray, last: int) -> tuple[Tensor, Tensor]:
    """Logistic regression without penalty, by L-BFGS, of the last row against all others."""
    mean, scale = z.mean(0), np.maximum(z.std(0), 1e-9)
    rows, sign = (z - mean) / scale, np.where(np.arange(len(z)) == last, 1.0, -1.0)

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        lead = sign * (rows @ v[:-1] + v[-1])
        slope = -sign / (1 + np.exp(np.clip(lead, -500, 500)))
        return float(np.logaddexp(0, -lead).sum()), np.append(slope @ rows, slope.sum())

    found = minimize(loss, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    w = found[:-1] / scale
    return torch.from_numpy(w), torch.tensor(found[-1] - float(w @ mean))


def _by_chance(net: Classifier, attack: Attack, x: Tensor, noise: Noise, epsilon: float, who: int) -> bool:
    """Whether any of 200 random points inside or 200 at the border is put into the other class."""
    inner = _points(attack, x, noise.child(3), epsilon, _CONTROL, False)
    border = _points(attack, x, noise.child(4), epsilon, _CONTROL, True)
    with torch.no_grad():
        points = torch.cat([inner, border])
        labels = torch.full((len(points),), who)
        return bool((net.logits(points, labels=labels, verifying=True).argmax(1) != who).any())
