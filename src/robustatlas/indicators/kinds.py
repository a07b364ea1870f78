"""Do kinds of attack agree, and with what the data show themselves?"""

from __future__ import annotations

import torch

from robustatlas.indicators.attack_failures import searched
from robustatlas.indicators.base import Indicator, LookedAt, Measured
from robustatlas.indicators.searched import OWN, SEED

_FAR = 3.0
_LEAST = 0.05
_HALF = 0.5


class KindsDiffer(Indicator):
    """By how much smaller another kind's example is, as a logarithm, where two seeds of one kind differ by less."""

    name = "kinds"
    part = "full"
    decides = False
    needs = "scores"
    means = "kinds of attack differ far more than seeds do"
    remedy = "Take the union of kinds, or an audit ('robustatlas audit RUN')"
    source = "ours: seeds share blind spots, kinds do not"
    limit = f"smaller by more than {_FAR:g} times what 95 % of the samples differ between seeds"

    def measure(self, look: LookedAt) -> Measured:
        """No pass of its own."""
        found = searched(look)
        own, seed = (found.sizes[kind].clamp(1e-9, 1e6).log() for kind in (OWN, SEED))
        others = [sizes for kind, sizes in found.sizes.items() if kind not in (OWN, SEED)]
        best = torch.stack(others).amin(0).clamp(1e-9, 1e6).log() if others else own
        usual = (own - seed).abs().quantile(0.95).clamp_min(_LEAST)
        values = torch.minimum(own, seed) - best
        return Measured.of(values, values > _FAR * usual)


class OneKindAlone(Indicator):
    """How much larger the second smallest example of all kinds is than the smallest."""

    name = "one-kind"
    part = "full"
    decides = False
    needs = "scores"
    means = "one kind of attack alone breaks samples that all others leave"
    remedy = "Add that kind to the evaluation, and an audit"
    source = "ours"
    limit = "the next smallest example is at least twice as large"

    def measure(self, look: LookedAt) -> Measured:
        """No pass of its own."""
        kinds = {kind: sizes for kind, sizes in searched(look).sizes.items() if kind != SEED}
        ordered = torch.stack(list(kinds.values())).clamp(1e-9, 1e6).sort(0).values
        if len(ordered) < 2:
            return Measured.of(torch.zeros_like(look.margin), look.labels < 0)
        ratio = ordered[1] / ordered[0]
        return Measured.of(ratio, (ordered[0] < 1e6) & (ratio * _HALF >= 1))


class NearestData(Indicator):
    """Distance to the nearest data point that the model puts into another class, relative to the size found."""

    name = "nearest-data"
    part = "full"
    needs = "scores"
    severity = "masked"
    threshold = 0.05
    means = "a data point of another class is nearer than the smallest example found"
    remedy = "The attack misses examples that the data hold: repair, or attacks without gradients"
    source = "ours; inter-class distances (Goepfert et al.)"
    limit = "nearer than what was found"

    def measure(self, look: LookedAt) -> Measured:
        """No pass of its own; the data were classified once."""
        found = searched(look)
        own = torch.minimum(found.sizes[OWN], found.sizes[SEED])
        nearer = (found.nearest < own) & (found.nearest <= found.largest)
        return Measured.of((found.nearest / own.clamp_min(1e-9)).nan_to_num(1.0, posinf=1e6).clamp_max(1e6), nearer)
