"""Ways around the modules of a network that mislead, found by swapping their backward rules."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.checks.indicators import LookedAt
from robustatlas.checks.indicators.differences import cosine_of
from robustatlas.checks.remedies.ways import scores_of
from robustatlas.common.bundle import flat, per_sample
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.probing import BackwardError, input_gradient
from robustatlas.models.gradients import surrogate

_REACH = 0.1
"""Of the random steps by which ways are compared: as far as attacks go."""
_STEPS = 16
_LEADS = 0.15
"""Mean cosine from which on a way is worth an attack; unrelated gradients have 0."""
_ALIKE = 0.99
_MOST = 2
_EARLY = ("input", "dropped")
_RULES = (*_EARLY, "identity", "secant")


@dataclass(frozen=True)
class Way:
    """A model with its own outputs and with other gradients. ``name``: of the remedy, for people and records."""

    name: str
    model: Classifier


@dataclass(frozen=True)
class Swap:
    """Some modules, and the rule that their backward goes by."""

    name: str
    modules: tuple[nn.Module, ...]
    rule: str


def around(model: Classifier, look: LookedAt) -> list[Way]:
    """The best ways around modules of the network: what their gradient claims is compared with what steps measure.

    Rules: ``identity`` (BPDA: Athalye et al. 2018); ``secant``, the mean slope over a neighbourhood, unit by unit;
    ``input``, which skips what comes before the module on the way back; ``dropped``, which skips the module forwards as
    well, for gradients alone (Yao et al. 2021).
    """
    steps, changes = _measured(look)
    found: list[tuple[float, Tensor, Way]] = []
    for swap in _swaps(model.net) if isinstance(model.net, nn.Module) else ():
        through = _Through(model, swap)
        slope = through.slope(look)
        if slope is not None:
            name, exact = f"{swap.rule} at {swap.name}", swap.rule != "dropped"
            scores = through if exact else surrogate(scores_of(model), through)
            way = Way(name, model.with_stand_in(scores, name))
            found.append((float(cosine_of(changes, _claims(steps, slope)).mean()), slope, way))
    return _distinct(sorted(found, key=lambda each: -each[0]))


def _distinct(found: Sequence[tuple[float, Tensor, Way]]) -> list[Way]:
    """The first that lead, without those whose gradients are those of one before."""
    kept: list[tuple[Tensor, Way]] = []
    for agreement, slope, way in found:
        new = all(_likeness(slope, other) < _ALIKE for other, _ in kept)
        if agreement > _LEADS and new and len(kept) < _MOST:
            kept.append((slope, way))
    return [way for _, way in kept]


def _likeness(one: Tensor, other: Tensor) -> float:
    return float(torch.cosine_similarity(flat(one), flat(other), dim=1).mean())


def _measured(look: LookedAt) -> tuple[Tensor, Tensor]:
    signs = [look.noise.child(2000 + number).sign(*look.x.shape[1:], dtype=look.x.dtype) for number in range(_STEPS)]
    steps = torch.stack([(look.x + _REACH * sign).clamp(0, 1) - look.x for sign in signs])
    with torch.no_grad():
        return steps, torch.stack([look.lead(look.logits(look.x + step)) for step in steps]) - look.margin


def _claims(steps: Tensor, slope: Tensor) -> Tensor:
    """[K, B] what a gradient [B, ...] says of steps [K, B, ...]."""
    return torch.stack([flat(step * slope).double().sum(1) for step in steps])


def _swaps(net: nn.Module) -> Iterator[Swap]:
    """Each module by each rule, and all modules of a kind together."""
    kinds: dict[type[nn.Module], list[nn.Module]] = {}
    for name, module in net.named_modules():
        if name:
            kinds.setdefault(type(module), []).append(module)
            for rule in _RULES:
                yield Swap(f"{name!r} ({type(module).__name__})", (module,), rule)
    for kind, modules in kinds.items():
        for rule in _RULES[len(_EARLY) :] if len(modules) > 1 else ():
            yield Swap(f"all {kind.__name__}", tuple(modules), rule)


class _Through:
    """The scores of a model, of some of whose modules the backward goes by another rule."""

    def __init__(self, model: Classifier, swap: Swap) -> None:
        self.model, self.swap, self.applied = model, swap, False

    def __call__(self, x: Tensor) -> Tensor:
        with ExitStack() as stack:
            for module in self.swap.modules:
                stack.enter_context(self._hooked(module, x))
            return self.model.logits(x, verifying=True)

    def slope(self, look: LookedAt) -> Tensor | None:
        """The gradient [B, ...] of the lead by this way; None where it is none, or no module could be swapped."""
        with torch.enable_grad():
            leaf = look.x.detach().clone().requires_grad_()
            lead = look.lead(self(leaf))
            try:
                slope = input_gradient(lead, leaf) if self.applied else None
            except BackwardError:
                return None
        return slope if slope is not None and bool(slope.isfinite().all()) else None

    @contextmanager
    def _hooked(self, module: nn.Module, x: Tensor) -> Iterator[None]:
        inside = False

        def before(_: nn.Module, given: tuple[Any, ...]) -> Any:
            first = given[0] if given else None
            if not isinstance(first, Tensor) or first.shape != x.shape or not first.is_floating_point():
                return None
            self.applied = True
            return (x if self.swap.rule == "dropped" else x + (first - x).detach(), *given[1:])

        def after(_: nn.Module, given: tuple[Any, ...], output: Any) -> Any:
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
        handle = module.register_forward_pre_hook(before) if early else module.register_forward_hook(after)
        try:
            yield
        finally:
            handle.remove()


def _secant(module: nn.Module, first: Tensor) -> Tensor:
    """The mean slope of each unit over half a standard deviation of its sample's."""
    reach = per_sample(flat(first).std(1).clamp_min(1e-6) / 2, first)
    with torch.no_grad():
        slope: Tensor = (module(first + reach) - module(first - reach)) / (2 * reach)
        return slope
