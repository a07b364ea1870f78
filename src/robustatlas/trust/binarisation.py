"""The binarisation test: plant an example at the border of the set, and see if an attack finds it.

Zimmermann et al. 2022. For each image a linear readout of the network's features is trained that puts one point at the
border of the set into another class than the image and all other points of the set. An attack that cannot find this
example cannot optimise through the network.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.checks.indicators.search_results import PlantedTest
from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluate_request
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from robustatlas.threats.lp import Lp

_INNER_POINTS = 999
_INNER_SHARE = 0.95
"""Size of the inner points as a share of the strength, so that the planted example is the only point at the border."""
_CLOSENESS = 0.9999
"""Share of the lead at the planted example that is taken off."""
_CHANCE_POINTS = 200
_RESCALINGS = 20
_OTHER_CLASSES_BELOW = 100.0
"""Distance of the logits of all other classes below the two of an image: no attack reaches them."""


def per_image_readouts(
    model: Classifier, features: Callable[[Tensor], Tensor], weights: Tensor, biases: Tensor
) -> Classifier:
    """Return a classifier with a binary readout of a network's features for each image; the label says which image.

    The two logits of image k stand at classes k and k + 1, so that all images are searched as one batch. Without
    labels the readout is that of the first image.

    Args:
        model: whose features these are.
        features: function of inputs [B, ...] to features [B, D].
        weights: [N, D, 2] of N images.
        biases: [N, 2].
    """
    count = max(2, len(weights))

    def logits(x: Tensor, labels: Tensor | None) -> Tensor:
        image = torch.zeros(len(x), dtype=torch.long) if labels is None else labels
        two = torch.einsum("bd,bdk->bk", features(x), weights[image]) + biases[image]
        spread = 1 + two.detach().abs().amax(1, keepdim=True)
        below = two.detach().amin(1, keepdim=True) - _OTHER_CLASSES_BELOW * spread
        every = below.expand(len(x), count).scatter(1, image[:, None], two[:, :1])
        return every.scatter(1, ((image + 1) % count)[:, None], two[:, 1:])

    return Classifier(lambda x: torch.zeros(len(x), count), dtype=model.dtype).replace(labelled=logits)


@dataclass(frozen=True)
class _Readout:
    """Weights [D, 2] and biases [2]; ``is_exact``: they tell the planted example from all other points."""

    weights: Tensor
    biases: Tensor
    is_exact: bool


def planted_test(model: Classifier, x: Tensor, attack: Attack, epsilon: float, seed: int) -> PlantedTest | None:
    """Return the binarisation test of images under an attack at one strength.

    Args:
        model: of which the features are read out.
        x: [B, ...] images.
        attack: to be tested.
        epsilon: its strength.
        seed: of the random points and of the search.

    Returns:
        the test; None for a network without a linear layer.
    """
    layer = _last_linear_layer(model)
    if layer is None:
        return None

    def features(points: Tensor) -> Tensor:
        return _layer_input(layer, model, points)

    noise = Noise.of(seed, torch.arange(len(x)), f"binarisation {attack.name}")
    # With more points than features + 1 no linear readout needs to exist that separates one of them.
    count = max(2, min(_INNER_POINTS, layer.in_features - 3))
    readouts = [
        _train_readout(model, features, attack, x[k : k + 1], noise.at(k), epsilon, count) for k in range(len(x))
    ]
    weights = torch.stack([readout.weights for readout in readouts]).to(x)
    biases = torch.stack([readout.biases for readout in readouts]).to(x)
    net = per_image_readouts(model, features, weights, biases)
    by_chance = [_chance_finds(net, attack, x[k : k + 1], noise.at(k), epsilon, k) for k in range(len(x))]
    request = Request(attacks=[replace(attack, strengths=(epsilon,))], seed=seed, diagnose=False, progress=False)
    sizes = evaluate_request(net, (x, torch.arange(len(x))), request).outcome(attack.name).minimal_size
    return PlantedTest(
        found=torch.from_numpy(sizes <= epsilon * (1 + 1e-5)),
        by_chance=torch.tensor(by_chance),
        set_up=torch.tensor([readout.is_exact for readout in readouts]),
        convex=isinstance(attack.threat, Lp),
    )


def _last_linear_layer(model: Classifier) -> nn.Linear | None:
    modules = list(model.net.modules()) if isinstance(model.net, nn.Module) else []
    layers = [module for module in modules if isinstance(module, nn.Linear)]
    return layers[-1] if layers else None


def _layer_input(layer: nn.Linear, model: Classifier, x: Tensor) -> Tensor:
    """Return the features [B, D] that a layer gets in a forward pass."""
    inputs: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    try:
        model.logits(x, verifying=True)
    finally:
        hook.remove()
    return flat(inputs[-1]).to(x.dtype)


def _random_points(attack: Attack, x: Tensor, noise: Noise, epsilon: float, count: int, border: bool) -> Tensor:
    """Return random points [count, ...] of the set around an image [1, ...]: inside of it, or at its border."""
    rows = x.expand(count, *x.shape[1:])
    streams = Noise(noise.keys.repeat(count)).child(torch.arange(count))
    if attack.threat == attack_named("linf").threat:
        step = streams.sign(*x.shape[1:], dtype=x.dtype) if border else streams.symmetric(*x.shape[1:], dtype=x.dtype)
        return torch.clamp(rows + epsilon * step, 0, 1)
    if attack.threat == attack_named("l2").threat:
        return points_at_l2_distance(rows, streams.normal(*x.shape[1:], dtype=x.dtype), epsilon)
    full = torch.full((count,), epsilon, dtype=x.dtype)
    # A start in a much larger set, projected, lies at the border.
    theta = attack.threat.start(rows, full if not border else 8 * full, streams)
    points: Tensor = attack.threat.apply(rows, attack.threat.project(rows, theta, full))
    return points


def points_at_l2_distance(x: Tensor, direction: Tensor, length: float) -> Tensor:
    """Return the points [B, ...] in these directions that are at an l2 distance after they are clipped to [0, 1]."""
    scale = length / flat(direction).norm(dim=1)
    for _ in range(_RESCALINGS):
        points = torch.clamp(x + per_sample(scale, x) * direction, 0, 1)
        scale = scale * length / flat(points - x).norm(dim=1).clamp_min(1e-12)
    return torch.clamp(x + per_sample(scale, x) * direction, 0, 1)


def _train_readout(
    model: Classifier,
    features: Callable[[Tensor], Tensor],
    attack: Attack,
    x: Tensor,
    noise: Noise,
    epsilon: float,
    count: int,
) -> _Readout:
    """Return the readout that tells a random point at the border from the image and ``count`` inner points."""
    inner = _random_points(attack, x, noise.child(1), _INNER_SHARE * epsilon, count, border=False)
    planted = _random_points(attack, x, noise.child(2), epsilon, 1, border=True)
    with torch.no_grad():
        points = torch.cat([x, inner, planted])
        z, own = features(points).double(), model.logits(points, verifying=True).double()
    w, b = _fit_last_row(z.numpy())
    two = torch.stack([-(z @ w) - b, z @ w + b], 1)
    is_planted = torch.arange(len(points)) == len(points) - 1
    is_exact = bool(((two[:, 1] > two[:, 0]) == is_planted).all())
    # Logits of the size of the network's own, so that losses saturate neither more nor less than they do with it.
    scale = (own.max() - own.min()) / (two.max() - two.min()).clamp_min(1e-300)
    weights, biases = scale * torch.stack([-w, w], 1), scale * torch.tensor([-float(b), float(b)])
    # The boundary moves close to the planted example: an attack has to go all the way to the border.
    lead = (z @ weights + biases)[-1]
    shift = _CLOSENESS * float(lead[0] - lead[1])
    return _Readout(weights, biases + torch.tensor([-shift / 2, shift / 2], dtype=biases.dtype), is_exact)


def _fit_last_row(z: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return weights and bias of a logistic regression, without penalty, of the last row against all others."""
    mean, scale = z.mean(0), np.maximum(z.std(0), 1e-9)
    rows, sign = (z - mean) / scale, np.where(np.arange(len(z)) == len(z) - 1, 1.0, -1.0)

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        lead = sign * (rows @ v[:-1] + v[-1])
        slope = -sign / (1 + np.exp(np.clip(lead, -500, 500)))
        return float(np.logaddexp(0, -lead).sum()), np.append(slope @ rows, slope.sum())

    found = minimize(loss, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    w = found[:-1] / scale
    return torch.from_numpy(w), torch.tensor(found[-1] - float(w @ mean))


def _chance_finds(net: Classifier, attack: Attack, x: Tensor, noise: Noise, epsilon: float, image: int) -> bool:
    """Return True if any of 200 random points inside or 200 at the border is put into the other class."""
    inner = _random_points(attack, x, noise.child(3), epsilon, _CHANCE_POINTS, border=False)
    at_border = _random_points(attack, x, noise.child(4), epsilon, _CHANCE_POINTS, border=True)
    with torch.no_grad():
        points = torch.cat([inner, at_border])
        labels = torch.full((len(points),), image)
        return bool((net.logits(points, labels=labels, verifying=True).argmax(1) != image).any())
