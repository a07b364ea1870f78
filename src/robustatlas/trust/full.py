"""The full diagnosis: attacks of several kinds, a binarisation test, and the indicators that look at them."""

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.checks.indicators import INDICATORS, Indicator, LookedAt
from robustatlas.checks.indicators.attack_failures import path
from robustatlas.checks.indicators.binarisation import Binarisation
from robustatlas.checks.indicators.carlini import BlackBoxWins
from robustatlas.checks.indicators.searched import OWN, SEED, PlantedTest, Searched
from robustatlas.checks.remedies import distilled
from robustatlas.checks.sanity import ways_back
from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.errors import RobustnessWarning
from robustatlas.common.noise import Noise
from robustatlas.evaluation.evaluating import evaluate_request
from robustatlas.evaluation.reading import reading_of
from robustatlas.evaluation.request import Request
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.probing import drop_failing_gradient
from robustatlas.outcomes.readings import DiagnosisRecord, Reading
from robustatlas.threats.lp import Lp
from robustatlas.trust.subject import KnownSubject

_INNER = 999
_ETA = 0.95
_CLOSENESS = 0.9999
_CONTROL = 200
_RESCALED = 20
_BELOW = 100.0
"""How far below the two classes of an image those of all others are."""


def readouts(model: Classifier, features: Callable[[Tensor], Tensor], weights: Tensor, biases: Tensor) -> Classifier:
    """Return a model that reads the features of each image out by two logits of its own; labels say which image it is.

    Args:
        model: the model that the features are taken from.
        features: function of images [B, ...] to features [B, D].
        weights: [N, D, 2] of the two logits of each of N images.
        biases: [N, 2].
    """
    count = max(2, len(weights))

    def logits(x: Tensor, labels: Tensor | None) -> Tensor:
        who = torch.zeros(len(x), dtype=torch.long) if labels is None else labels
        two = torch.einsum("bd,bdk->bk", features(x), weights[who]) + biases[who]
        below = two.detach().amin(1, keepdim=True) - _BELOW * (1 + two.detach().abs().amax(1, keepdim=True))
        every = below.expand(len(x), count).scatter(1, who[:, None], two[:, :1])
        return every.scatter(1, ((who + 1) % count)[:, None], two[:, 1:])

    return Classifier(lambda x: torch.zeros(len(x), count), dtype=model.dtype).replace(labelled=logits)


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
    net = readouts(model, features, weights, biases)
    chance = torch.tensor([_by_chance(net, attack, x[k : k + 1], noise.at(k), epsilon, k) for k in range(len(x))])
    asked = Request(attacks=[replace(attack, strengths=(epsilon,))], seed=seed, diagnose=False, progress=False)
    found = evaluate_request(net, (x, torch.arange(len(x))), asked).minimal_size(attack.name)
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


_USUAL = 8 / 255
_BATCH = 512
_OTHERS = ("fab", "fmn", "square", "hop-skip-jump")
_WITHOUT_GRADIENTS = ("square", "hop-skip-jump")
_IMAGE_ATTACKS = ("stadv", "elastic")
_NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
PLANTED = 24
"""Images of a binarisation test, at most."""


def read_in_full(known: KnownSubject, record: DiagnosisRecord, attacks: Sequence[Attack], seed: int) -> DiagnosisRecord:
    """The record with what the indicators of a full diagnosis read of the same samples. ``attacks``: whose numbers are
    to be judged; the first that goes by gradients is looked at."""
    chosen = [attack for attack in attacks if ways_back(attack.plan(attack.searches[0]))]
    if not chosen or not record.index or known.model.knowledge != "gradients":
        return record
    attack, model = chosen[0], drop_failing_gradient(known.model, known.work.rows[:2])
    rows = torch.tensor([int(np.flatnonzero(known.work.index == i)[0]) for i in record.index])
    x, labels = known.work.rows[rows].to(model.device, model.dtype), known.work.labels[rows].to(model.device)
    with warnings.catch_warnings(), model.counting() as passes:
        warnings.simplefilter("ignore", RobustnessWarning)
        look = _looked_at(known, model, attack, x, labels, record.index, seed)
        read = [_reading(indicator, look) for indicator in _indicators(look)]
    return record.model_copy(
        update={
            "readings": (*record.readings, *read),
            "forward": round(record.forward + passes.forward / len(rows), 2),
            "backward": round(record.backward + passes.backward / len(rows), 2),
        }
    )


def _indicators(look: LookedAt) -> list[Indicator]:
    """All of a full diagnosis; the binarisation test once for each attack that it was made of."""
    left_out = {Binarisation} | (set() if look.searched.black_box else {BlackBoxWins})
    found = [kind() for kind in INDICATORS.usable().values() if kind.part != "always" and kind not in left_out]
    return [*found, *(Binarisation(attack) for attack in look.searched.binarised)]


def _reading(indicator: Indicator, look: LookedAt) -> Reading:
    found, severity = indicator.measure(look), indicator.severity
    if not isinstance(indicator, Binarisation):
        return reading_of(indicator, found, severity)
    test = look.searched.binarised[indicator.attack]
    if test.informative and test.convex:
        return reading_of(indicator, found, severity)
    chance = float(test.by_chance[test.set_up].float().mean()) if bool(test.set_up.any()) else 1.0
    why = "sound networks do so too" if test.informative else f"random points find {100 * chance:.0f} % of them"
    told = reading_of(indicator, found, "note")
    return told.model_copy(update={"means": f"{indicator.means}, which says little: {why}", "decides": False})


def _looked_at(
    known: KnownSubject, model: Classifier, attack: Attack, x: Tensor, labels: Tensor, index: Sequence[int], seed: int
) -> LookedAt:
    noise = Noise.of(seed, torch.tensor(index, device=x.device), "full diagnosis")
    ways = ways_back(attack.plan(attack.searches[0])) or {None}
    strength = float(attack.strengths[len(attack.strengths) // 2])
    sizes = _sizes(model, attack, x, labels, seed)
    searched = Searched(
        epsilon=strength if attack.threat == attack_named("linf").threat else _USUAL,
        strengths=torch.tensor(attack.strengths, device=x.device, dtype=x.dtype),
        sizes=sizes,
        black_box=frozenset(f"{kind}-{attack.name}" for kind in _WITHOUT_GRADIENTS) & set(sizes),
        transferred=_transferred(known, model, x, labels, noise, strength),
        nearest=_nearest(known, model, x, labels, _NORMS.get(attack.name)),
        binarised=_binarised(model, x[:PLANTED], attack, strength, seed),
    )
    return LookedAt(model, x, labels, noise, ways, searched)


def _sizes(model: Classifier, attack: Attack, x: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    kinds = {OWN: (attack, seed), SEED: (attack, seed + 1)}
    for kind in (f"{kind}-{attack.name}" for kind in _OTHERS):
        if kind in catalogue():
            kinds[kind] = (replace(attack_named(kind), strengths=attack.strengths), seed)
    return {kind: _found(model, each, x, labels, number) for kind, (each, number) in kinds.items()}


def _found(model: Classifier, attack: Attack, x: Tensor, labels: Tensor, seed: int) -> Tensor:
    asked = Request(attacks=[attack], seed=seed, diagnose=False, progress=False, effort="default")
    return torch.from_numpy(evaluate_request(model, (x, labels), asked).minimal_size(attack.name)).to(x)


def _transferred(
    known: KnownSubject, model: Classifier, x: Tensor, labels: Tensor, noise: Noise, epsilon: float
) -> Tensor:
    """[B]: 0 where an example against a distilled network fools the model, 1 where it does not, -1: no example."""
    student = Classifier(distilled(model, known.work.rows[: len(known.work.labels)]))
    on_student = path(LookedAt(student, x.float(), labels, noise), epsilon)
    with torch.no_grad():
        right = model.logits(on_student.end.to(x.dtype), verifying=True).argmax(1) == labels
    return torch.where(on_student.wrong[-1], right.to(x.dtype), -1.0)


def _nearest(known: KnownSubject, model: Classifier, x: Tensor, labels: Tensor, norm: float | None) -> Tensor:
    """[B] distance in the norm to the nearest data point that the model puts into another class."""
    nearest = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)
    if norm is None:
        return nearest
    for first in range(0, len(known.work.labels), _BATCH):
        rows = known.work.rows[first : first + _BATCH].to(x)
        with torch.no_grad():
            found = model.logits(rows, verifying=True).argmax(1)
        distances = torch.cdist(x.flatten(1), rows.flatten(1), p=norm)
        nearest = nearest.minimum(distances.masked_fill(found[None] == labels[:, None], torch.inf).amin(1))
    return nearest


def _binarised(model: Classifier, x: Tensor, attack: Attack, strength: float, seed: int) -> dict[str, PlantedTest]:
    """The binarisation test of the attack, and of two of images."""
    tested: dict[str, PlantedTest] = {}
    others: Collection[str] = [name for name in _IMAGE_ATTACKS if name in catalogue() and x.dim() == 4]
    for each, epsilon in [(attack, strength), *((attack_named(name), None) for name in others)]:
        middle = each.strengths[len(each.strengths) // 2]
        found = binarisation(model, x, each, float(middle if epsilon is None else epsilon), seed)
        if found is not None:
            tested[each.name] = found
    return tested
