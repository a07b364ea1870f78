"""Remedies for modules of a network whose gradients mislead, found by swapping their backward rules."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.checks.indicators import DiagnosedSamples
from robustatlas.checks.indicators.differences import cosine_of
from robustatlas.checks.remedies.imitation import scores_of
from robustatlas.common.bundle import flat, per_sample
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.probing import BackwardError, input_gradient
from robustatlas.models.gradients import surrogate

_REACH = 0.1
"""Size of the random steps by which backward rules are compared: as far as attacks go."""
_STEPS = 16
_WORTHWHILE = 0.15
"""Mean cosine from which on a remedy is worth an attack; unrelated gradients have 0."""
_ALIKE = 0.99
_MOST = 2
_EARLY = ("input", "dropped")
_RULES = (*_EARLY, "identity", "secant")


@dataclass(frozen=True)
class GradientRemedy:
    """Model with its own outputs and other gradients. ``name`` stands for the remedy in texts."""

    name: str
    model: Classifier


@dataclass(frozen=True)
class Swap:
    """Modules of a network, and the backward rule that they get.

    ``name`` stands for the modules in texts, ``place`` in records.
    """

    name: str
    place: str
    modules: tuple[nn.Module, ...]
    rule: str


def find_gradient_remedies(model: Classifier, samples: DiagnosedSamples) -> list[GradientRemedy]:
    """Return the best remedies: those whose gradients claim what steps measure.

    Rules: ``identity`` (BPDA: Athalye et al. 2018); ``secant``, the mean slope over a neighbourhood, unit by unit;
    ``input``, which skips what comes before the module on the way back; ``dropped``, which skips the module forwards as
    well, for gradients alone (Yao et al. 2021).
    """
    steps, changes = _measure_steps(samples)
    found: list[tuple[float, Tensor, GradientRemedy]] = []
    for swap in _swaps(model.net) if isinstance(model.net, nn.Module) else ():
        swapped = _SwappedScores(model, swap)
        slope = swapped.slope(samples)
        if slope is not None:
            name, exact = f"{swap.rule} at {swap.name}", swap.rule != "dropped"
            scores = swapped if exact else surrogate(scores_of(model), swapped)
            remedy = GradientRemedy(name, model.with_stand_in(scores, f"{swap.rule}@{swap.place}"))
            found.append((float(cosine_of(changes, _claims(steps, slope)).mean()), slope, remedy))
    return _distinct(sorted(found, key=lambda each: -each[0]))


def _distinct(found: Sequence[tuple[float, Tensor, GradientRemedy]]) -> list[GradientRemedy]:
    """Return the first worthwhile remedies, at most two, without those whose gradients equal an earlier one's."""
    kept: list[tuple[Tensor, GradientRemedy]] = []
    for agreement, slope, remedy in found:
        new = all(_likeness(slope, other) < _ALIKE for other, _ in kept)
        if agreement > _WORTHWHILE and new and len(kept) < _MOST:
            kept.append((slope, remedy))
    return [remedy for _, remedy in kept]


def _likeness(one: Tensor, other: Tensor) -> float:
    return float(torch.cosine_similarity(flat(one), flat(other), dim=1).mean())


def _measure_steps(samples: DiagnosedSamples) -> tuple[Tensor, Tensor]:
    """Return random steps [K, B, ...] and the changes [K, B] of the margin under them."""
    signs = [
        samples.noise.child(2000 + number).sign(*samples.x.shape[1:], dtype=samples.x.dtype) for number in range(_STEPS)
    ]
    steps = torch.stack([(samples.x + _REACH * sign).clamp(0, 1) - samples.x for sign in signs])
    with torch.no_grad():
        margins = torch.stack([samples.rival_margins_at(samples.x + step) for step in steps])
    return steps, margins - samples.margin


def _claims(steps: Tensor, slope: Tensor) -> Tensor:
    """Return the changes [K, B] that a gradient [B, ...] claims for steps [K, B, ...]."""
    return torch.stack([flat(step * slope).double().sum(1) for step in steps])


def _swaps(net: nn.Module) -> Iterator[Swap]:
    """Yield each module with each rule, and all modules of a type together."""
    kinds: dict[type[nn.Module], list[nn.Module]] = {}
    for name, module in net.named_modules():
        if name:
            kinds.setdefault(type(module), []).append(module)
            for rule in _RULES:
                yield Swap(f"{name!r} ({type(module).__name__})", name, (module,), rule)
    for kind, modules in kinds.items():
        for rule in _RULES[len(_EARLY) :] if len(modules) > 1 else ():
            yield Swap(f"all {kind.__name__}", kind.__name__, tuple(modules), rule)


class _SwappedScores:
    """Scores of a model, some of whose modules have another backward rule."""

    def __init__(self, model: Classifier, swap: Swap) -> None:
        self.model, self.swap, self.applied = model, swap, False

    def __call__(self, x: Tensor) -> Tensor:
        with ExitStack() as stack:
            for module in self.swap.modules:
                stack.enter_context(self._swap_backward(module, x))
            return self.model.logits(x, verifying=True)

    def slope(self, samples: DiagnosedSamples) -> Tensor | None:
        """Return the gradient [B, ...] of the margin; None if there is none, or no module could be swapped."""
        with torch.enable_grad():
            leaf = samples.x.detach().clone().requires_grad_()
            margin = samples.rival_margins(self(leaf))
            try:
                slope = input_gradient(margin, leaf) if self.applied else None
            except BackwardError:
                return None
        return slope if slope is not None and bool(slope.isfinite().all()) else None

    @contextmanager
    def _swap_backward(self, module: nn.Module, x: Tensor) -> Iterator[None]:
        inside = False  # the secant calls the module itself, whose hook must not run again

        def replace_input(_: nn.Module, given: tuple[Any, ...]) -> Any:
            first = given[0] if given else None
            if not isinstance(first, Tensor) or first.shape != x.shape or not first.is_floating_point():
                return None
            self.applied = True
            return (x if self.swap.rule == "dropped" else x + (first - x).detach(), *given[1:])

        def replace_output(_: nn.Module, given: tuple[Any, ...], output: Any) -> Any:
            nonlocal inside
            first = given[0] if given else None
            if inside or not isinstance(output, Tensor) or not isinstance(first, Tensor):
                return None
            if output.shape != first.shape:
                return None
            self.applied, inside = True, True
            slope = _secant(module, first.detach()) if self.swap.rule == "secant" else 1.0
            inside = False
            return output.detach() + slope * (first - first.detach())

        early = self.swap.rule in _EARLY
        if early:
            handle = module.register_forward_pre_hook(replace_input)
        else:
            handle = module.register_forward_hook(replace_output)
        try:
            yield
        finally:
            handle.remove()


def _secant(module: nn.Module, first: Tensor) -> Tensor:
    """Return the mean slope of each unit over half a standard deviation of the units of its sample."""
    reach = per_sample(flat(first).std(1).clamp_min(1e-6) / 2, first)
    with torch.no_grad():
        slope: Tensor = (module(first + reach) - module(first - reach)) / (2 * reach)
        return slope
