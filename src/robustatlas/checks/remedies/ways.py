"""Ways for a gradient through a model whose own misleads: the same outputs, and gradients that lead somewhere."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack
from robustatlas.checks.indicators.numbers import in_float64
from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.noise import Noise
from robustatlas.models.classifier import Classifier
from robustatlas.models.gradients import surrogate

Scores = Callable[[Tensor], Tensor]
SPREAD = 8 / 255
"""Standard deviation of the neighbourhood that estimated gradients are averaged over (Tramèr et al. 2020)."""
PAIRS = 24
"""Antithetic pairs of an estimated gradient."""
DRAWS = 20
"""Of a randomised model, for a gradient (Athalye et al. 2018 average over 10 to 30)."""
_INSIDE = 1 / 1020
_TINY = 1e-20
"""Gradients below this are taken for lost."""
_WIDTH, _BATCH = 128, 64


@dataclass(frozen=True)
class Way:
    """The model, seen through other gradients. ``name``: of the remedy, for people and records. ``model``: with the
    same outputs and the other gradients. ``dear``: whether one gradient costs many passes."""

    name: str
    model: Classifier
    dear: bool = False


def estimated(model: Classifier) -> Way:
    """Gradients by antithetic finite differences over a Gaussian neighbourhood, as evolution strategies take them: they
    see jumps, and need no backward pass (Salimans et al. 2017; Tramèr et al. 2020 on k-winners-take-all)."""

    def through(x: Tensor) -> Tensor:
        estimate: Tensor = _Estimated.apply(x, scores_of(model))  # type: ignore[no-untyped-call]
        return estimate

    return Way("estimated gradient", model.going_through(through, f"estimated gradient, {PAIRS} pairs"), dear=True)


class _Estimated(torch.autograd.Function):
    """The scores; backward multiplies by differences along random directions that belong to the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scores: Scores) -> Tensor:
        noise = _noise_of(x)
        differences = []
        for pair in range(PAIRS):
            step = SPREAD * noise.child(pair).normal(*x.shape[1:], dtype=x.dtype)
            differences.append(scores((x + step).clamp(0, 1)) - scores((x - step).clamp(0, 1)))
        ctx.noise, ctx.shape = noise, x.shape
        ctx.save_for_backward(torch.stack(differences))
        return scores(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (differences,) = ctx.saved_tensors
        weights = (differences * gradient).sum(2)  # [pairs, B]
        total = torch.zeros(ctx.shape, dtype=gradient.dtype, device=gradient.device)
        for pair in range(PAIRS):
            step = ctx.noise.child(pair).normal(*ctx.shape[1:], dtype=gradient.dtype)
            total += per_sample(weights[pair], step) * step
        return total / (2 * SPREAD * PAIRS), None


def _noise_of(x: Tensor) -> Noise:
    """Streams [B] that belong to the pixels, so that no sample's directions depend on its batch."""
    bits = flat(x.detach().float()).contiguous().view(torch.int32).long()
    places = torch.arange(1, bits.shape[1] + 1, device=x.device) * 0x9E3779B1
    return Noise((bits * places).sum(1)).child(0)


def scores_of(model: Classifier) -> Scores:
    """The outputs of a model, without a gradient."""

    def scores(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model.logits(x, verifying=True)

    return scores


def precise(model: Classifier, x: Tensor) -> Way | None:
    """Gradients in float64, where those in float32 vanish; None where the network cannot compute ``x`` in it."""
    double = in_float64(model, x)
    if double is None:
        return None

    def approximation(x: Tensor) -> Tensor:
        raised: Tensor = _Raised.apply(x)  # type: ignore[no-untyped-call]
        return double.logits(raised.double(), verifying=True).to(x.dtype)

    return Way("float64", model.going_through(surrogate(scores_of(model), approximation), "float64"))


class _Raised(torch.autograd.Function):
    """To float64; gradients that float32 would lose come back with a largest entry of 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.dtype = x.dtype
        return x.double()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        largest = flat(gradient).abs().amax(1)
        lost = (largest > 0) & (largest < _TINY)
        return (gradient / per_sample(torch.where(lost, largest, 1.0), gradient)).to(ctx.dtype)


def inside(model: Classifier) -> Way:
    """The gradient a quarter of a grey level inside of [0, 1], where no value is exactly 0 or 1. What a network does at
    the border is seen from the side to which values can go."""

    def approximation(x: Tensor) -> Tensor:
        return model.logits(x + (x.clamp(_INSIDE, 1 - _INSIDE) - x).detach(), verifying=True)

    return Way("just inside [0, 1]", model.going_through(surrogate(scores_of(model), approximation), "just inside"))


def averaged(model: Classifier) -> Way:
    """Gradients that are averaged over draws (EOT: Athalye et al. 2018), and errors that most of fresh draws make."""
    return Way(f"mean over {DRAWS} draws", Classifier(model, draws=DRAWS), dear=True)


def transferred(model: Classifier, images: Tensor, epochs: int = 30) -> Way:
    """Gradients of a network that is distilled from the model on the fly: examples are transferred from it."""
    student = distilled(model, images, epochs)

    def approximation(x: Tensor) -> Tensor:
        logits: Tensor = student(x.float())
        return logits.to(x.dtype)

    return Way("distilled network", model.going_through(surrogate(scores_of(model), approximation), "distilled"))


def distilled(model: Classifier, images: Tensor, epochs: int = 30) -> nn.Module:
    """A small network that learns the outputs of the model at ``images`` [N, ...] and around them."""
    x = images.to(model.device, model.dtype)
    with torch.no_grad():
        taught = torch.cat([model.logits(part, verifying=True) for part in torch.split(x, _BATCH)])
    targets = (taught / taught.std().clamp_min(1e-12)).float()
    student = nn.Sequential(
        nn.Flatten(), nn.Linear(flat(x).shape[1], _WIDTH), nn.GELU(), nn.Linear(_WIDTH, _WIDTH), nn.GELU(),
        nn.Linear(_WIDTH, targets.shape[1]),
    ).to(model.device)  # fmt: skip
    noise = Noise.of(0, torch.arange(len(x), device=model.device), "distillation")
    optimizer = torch.optim.Adam(student.parameters(), 2e-3)
    with torch.enable_grad():
        for epoch in range(epochs):
            shaken = (x + SPREAD * noise.child(epoch).normal(*x.shape[1:], dtype=x.dtype)).clamp(0, 1).float()
            order = torch.argsort(noise.child(epoch).uniform())
            for rows in torch.split(order, _BATCH):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(student(shaken[rows]), targets[rows])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return student.eval().requires_grad_(False)


RUNS = 4
"""Ascents of a sample, each from a start of its own."""


def from_random_starts(attack: Attack) -> Attack:
    """The attack with all runs that begin at the clean sample begun at random points of the set, and more ascents.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> plan = from_random_starts(attack_named("linf")).plans["descent"]
    >>> {leg.stage.start for leg in plan.legs if leg.role == "bound"}
    {'random'}
    """
    plans = {}
    for search, plan in attack.plans.items():
        legs = []
        for leg in plan.legs:
            stage = replace(leg.stage, start="random") if leg.stage.start == "neutral" else leg.stage
            untargeted = leg.role == "ascend" and stage.targets is None
            legs.append(replace(leg, stage=stage, runs=max(leg.runs, RUNS) if untargeted else leg.runs))
        plans[search] = replace(plan, legs=tuple(legs))
    return replace(attack, plans=plans)


_SCALE = 10.0
"""Of the largest output that losses are given: softmax of it is neither flat nor exactly 0 and 1."""


def at_logits(model: Classifier, x: Tensor) -> list[Way]:
    """Gradients of what the last linear layer says, before softmax, tanh or whatever ends the network (Carlini and
    Wagner 2016). Networks that vote have several layers with a number for each class: a second way takes the logarithm
    of their mean probability (Tramèr et al. 2020 on EMPIR). Empty where no linear layer has a number for each class."""
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
