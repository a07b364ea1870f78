"""The attacks on images beyond lp norms. MultiRobustBench bisects the strengths of every attack (C.2), also of fog,
snow and gabor, which are not nested. ``"paper"`` runs each attack as its public code did: historical map, steps, start,
last iterate; samples that are misclassified clean are attacked and judged as well."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from robustatlas.attacks.definition import Attack, AttackInfo, Leg, Plan, ProtocolName, Search, Stage, grid
from robustatlas.attacks.lp import DENSE, LP_BELOW, LP_BOUNDS
from robustatlas.attacks.plans import (
    AGAIN,
    AUTO_PGD_STEPS,
    SEVERAL,
    as_published,
    ascents_of,
    bound,
    legs,
    plans,
    restarts,
    swept,
    two_kinds,
    unbroken,
)
from robustatlas.attacks.search.plan import NEAREST, Judge, ruled
from robustatlas.attacks.search.rules import PATIENT, MostPasses, StopFruitless
from robustatlas.models.objectives import Objective
from robustatlas.optimizers.adam import Adam
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.fmn import FMN, long_fmn
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.lpa import LPA
from robustatlas.optimizers.perceptual_descent import PerceptualDescent
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.ppgd import PPGD
from robustatlas.optimizers.scan import Once, Scan
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.color import Brightness, Contrast, Hue, Saturation
from robustatlas.threats.corruption import CORRUPTIONS, Corruption
from robustatlas.threats.elastic import Elastic
from robustatlas.threats.flow import StAdv
from robustatlas.threats.fog import Fog
from robustatlas.threats.gabor import Gabor
from robustatlas.threats.historical.color import HistoricalBrightness
from robustatlas.threats.historical.elastic import HistoricalElastic
from robustatlas.threats.historical.flow import HistoricalStAdv
from robustatlas.threats.historical.fog import HistoricalFog
from robustatlas.threats.historical.gabor import HistoricalGabor
from robustatlas.threats.historical.jpeg import HistoricalJpegL1, HistoricalJpegL2, HistoricalJpegLinf
from robustatlas.threats.historical.perceptual import HistoricalPerceptual
from robustatlas.threats.historical.recolor import HistoricalRecolor
from robustatlas.threats.historical.snow import HistoricalSnow
from robustatlas.threats.historical.warp import HistoricalAffine, HistoricalPerspective
from robustatlas.threats.jpeg import JpegL1, JpegL2, JpegLinf
from robustatlas.threats.patch import Patch
from robustatlas.threats.perceptual import Perceptual
from robustatlas.threats.recolor import Recolor
from robustatlas.threats.snow import Snow
from robustatlas.threats.warp import Affine, Perspective

UAR = "Kang et al. 2019 (UAR), as run by MultiRobustBench"
MRB = "Dai et al. 2023 (MultiRobustBench)"

_STEPS = 20  # of MultiRobustBench's code, for all but lpips; its paper says UAR's own settings for UAR's
_UAR_PGD = PGD(_STEPS, _STEPS**-0.5)

_PERCEPTUAL_ASCENT = PGD(steps=10, rate=0.1, schedule="cosine", momentum=0.85, scaled=True)
_ASCENT = PGD(steps=16, rate=0.25, schedule="cosine", momentum=0.75)
_LONG, _BRIEF = replace(_ASCENT, rate=0.5), replace(_ASCENT, steps=10)
_FINE, _FINEST = replace(_ASCENT, steps=25, rate=0.05), replace(_ASCENT, steps=60, rate=0.03)
_BOUND_STEPS = 12

FROM_CLEAN = (bound(FMN(_BOUND_STEPS)), Leg(Stage(long_fmn(_BOUND_STEPS), "dlr"), "bound"))
"""Of two kinds: a careful run towards the nearest class, and one of long steps by another objective."""
_RESTARTS = restarts(replace(AGAIN, steps=_BOUND_STEPS), kick=1.0)
BOUNDS = (*FROM_CLEAN, *_RESTARTS)
PATIENCE = StopFruitless(stubborn=12)


def usual(ascent: Optimizer[Any], several: int = 1) -> tuple[Leg, ...]:
    """What is done below the bounds: ascents of two kinds, towards ``several`` classes and from as many starts, and
    towards more classes where nothing was found."""
    return (*two_kinds(ascent, ascent, classes=several, starts=several), *unbroken(ascent))


USUAL = usual(_ASCENT)
LONG_STEPS = two_kinds(_LONG, _LONG)
FINE = two_kinds(_FINEST, _FINE, classes=SEVERAL, starts=4)
_FINE_AWAY = Leg(Stage(_FINEST, "margin", start="best"), runs=SEVERAL)
FINE_BOTH_WAYS = (replace(FINE[0], runs=5), _FINE_AWAY, *FINE[1:])
"""Where a few numbers move all pixels at once: a longer step throws away the example that it starts at, and the others
need many starts. On the margin towards the nearest classes alone, or also away from the true one."""
_AWAY = (Stage(_BRIEF, "cross-entropy", start="best"), Stage(_BRIEF, "margin", start="best"))
MANY_STARTS = legs("ascend", *_AWAY, runs=28)
"""Where an ascent ends in the nearest of many valleys, as there are few numbers or draws that are never optimised:
short ones away from the true class, from many starts."""

_SCAN = Stage(Scan(), "margin")
SCANNED = plans(legs("ascend", _SCAN), legs("bound", _SCAN), (), frontier=ruled(legs("bound", _SCAN), (PATIENT,)))
"""For threat models of a single number."""


def ascending(
    below: tuple[Leg, ...] = USUAL,
    bounds: tuple[Leg, ...] = BOUNDS,
    patience: StopFruitless = PATIENCE,
    at_strength: tuple[Leg, ...] | None = None,
) -> dict[Search, Plan]:
    """The plans of an attack beyond lp: bounds, restarts, and what is done ``below``: ascents, those of two
    kinds at every strength (there those of ``at_strength``, where it is given)."""
    each = ascents_of(below if at_strength is None else at_strength)
    return plans(each, bounds, below, patience=patience, most=MostPasses(), frontier=swept())


_MANY_BOUNDS = (replace(FROM_CLEAN[0], runs=NEAREST), *FROM_CLEAN[1:])


def by_bounds(below: tuple[Leg, ...] = USUAL) -> dict[Search, Plan]:
    """:func:`ascending`, for threat models that choose among draws and never optimise these. Each bound chooses anew,
    and goes towards as many classes as AutoAttack targets. There are no restarts, which would keep their draws."""
    return ascending(below, _MANY_BOUNDS)


BY_ASCENTS, BY_FINE_STEPS = (ascending(below, FROM_CLEAN) for below in (MANY_STARTS, FINE_BOTH_WAYS))
"""Without restarts, which find nothing here that the ascents would not."""

_AS_IN_LP = StopFruitless()
AS_LINF = ascending(LP_BELOW["linf"], LP_BOUNDS["linf"], _AS_IN_LP)
"""For threat models that are boxes of as many numbers as the image has, or nearly: what the linf norm runs."""
COEFFICIENTS = ascending(patience=_AS_IN_LP)
"""For threat models that are an lp norm of coefficients."""
_FROM_OUTSIDE = APGDL1(steps=60)
_INSIDE_L1 = replace(_FROM_OUTSIDE, schedule=INSIDE)
_BELOW_L1 = (*two_kinds(_INSIDE_L1, _FROM_OUTSIDE, SEVERAL), *unbroken(_INSIDE_L1))
COEFFICIENTS_L1 = ascending(_BELOW_L1, (bound(DENSE), *_RESTARTS), _AS_IN_LP)
"""In l1 a step to the best vertex of the ball changes few coefficients by much, and many ascents lead nowhere. So
bounds are those of the l1 norm, and ascents are Auto-PGD's: one kind inside of the ball, the other from outside."""


@dataclass(frozen=True)
class Entry:
    """One attack of the catalogue: both threat models, its grid, the default plans, and the optimizer of the paper."""

    name: str
    threat: ThreatModel
    historical: ThreatModel
    strengths: tuple[float, ...]
    unit: str
    note: str
    source: str = UAR
    optimizer: Optimizer[Any] = _UAR_PGD
    objective: Objective = "cross-entropy"
    historical_nested: bool = True
    plans: Mapping[Search, Plan] = field(default_factory=ascending)

    def attack(self, protocol: ProtocolName) -> Attack:
        """The attack by the default protocol or by the paper's."""
        about = AttackInfo(self.unit, self.source, self.note)
        if protocol == "default":
            return Attack(self.name, self.threat, self.plans, self.strengths, about)
        return Attack(
            self.name,
            self.historical,
            as_published(Stage(self.optimizer, self.objective, judge="last")),
            self.strengths,
            about,
            nested=self.historical_nested,
            contains_clean=self.historical == self.threat,
            repairs=True,
        )


_mrb = partial(Entry, source=MRB, optimizer=PGD(_STEPS, 2 / (_STEPS - 2)))
_number = partial(_mrb, plans=SCANNED)

ENTRIES = (
    Entry(
        "elastic", Elastic(), HistoricalElastic(), grid(1.0), "pixels of displacement before smoothing",
        "The public code of MultiRobustBench samples with align_corners=False: even without displacement the image is "
        "zoomed slightly and its border darkened. The default is the identity there, as under the PyTorch of UAR.",
        plans=AS_LINF,
    ),
    Entry(
        "jpeg-linf", JpegLinf(), HistoricalJpegLinf(), grid(0.2), "quantised DCT coefficients (half of it is applied)",
        "The public code averages chrominance over 2x2 pixels even without a perturbation; the default adds the "
        "changed coefficients to the image itself.",
        plans=AS_LINF,
    ),
    Entry(
        "jpeg-l2", JpegL2(), HistoricalJpegL2(), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        "l2 norm of quantised DCT coefficients", "As jpeg-linf.", plans=COEFFICIENTS,
    ),
    Entry(
        "jpeg-l1", JpegL1(), HistoricalJpegL1(), grid(20.0), "l1 norm of quantised DCT coefficients",
        "As jpeg-linf; the public code's bound of 2 on single coefficients counts from the current point, the "
        "default's from zero.",
        optimizer=FrankWolfe(_STEPS), plans=COEFFICIENTS_L1,
    ),
    Entry(
        "stadv", StAdv(), HistoricalStAdv(), grid(0.1), "displacement, half the image side is 1",
        "The paper's smoothness penalty is switched off in the public evaluation code (a type test fails), so "
        "published numbers come without it.",
        source="Xiao et al. 2018, as run by MultiRobustBench", optimizer=Adam(_STEPS), objective="margin",
    ),
    Entry(
        "recolor", Recolor(), HistoricalRecolor(), grid(0.1), "change of CIE LUV coordinates scaled to [0, 1]",
        "The public code moves unperturbed colours too (gamut projection and clipping of LUV); the default adds the "
        "change of colours to the image itself. Smoothness penalty: as stadv.",
        source="Laidlaw and Feizi 2019, as run by MultiRobustBench", optimizer=Adam(_STEPS), objective="margin",
        plans=ascending(usual(_ASCENT, SEVERAL), at_strength=USUAL),
    ),
    Entry(
        "fog", Fog(), HistoricalFog(), grid(50.0), "pixel values of 255",
        "The public code divides by a maximum that contains epsilon, so its threat model is not nested and does not "
        "contain the clean image. The default's fog grows with epsilon from none.",
        historical_nested=False,
        plans=BY_FINE_STEPS,
    ),
    Entry(
        "snow", Snow(), HistoricalSnow(), grid(0.1), "pixel values of 1",
        "The public code bleaches the image even at strength 0; the default bleaches and snows in proportion to the "
        "strength.",
        historical_nested=False, plans=ascending(LONG_STEPS, patience=_AS_IN_LP),
    ),
    Entry(
        "gabor", Gabor(), HistoricalGabor(), grid(10.0), "pixel values of 255",
        "The public code stretches the noise to its full range whatever its parameters, and activates the positions "
        "that its paper leaves out; the default's noise is bounded by epsilon.",
        historical_nested=False, plans=by_bounds(LONG_STEPS),
    ),
    _mrb(
        "affine", Affine(), HistoricalAffine(), grid(0.1), "change of a matrix entry",
        "The public code starts on one side, in [0, epsilon]; the threat model is the same.",
        plans=BY_ASCENTS,
    ),
    _mrb(
        "perspective", Perspective(), HistoricalPerspective(), grid(0.002), "change of a matrix entry",
        "The public code starts on one side, in [0, epsilon]; the threat model is the same.",
        plans=BY_ASCENTS,
    ),
    _number("hue", Hue(), Hue(), grid(0.5), "radians", "The default scans all values instead of gradient ascent."),
    _number("saturation", Saturation(), Saturation(), grid(0.5), "change of the factor", "As hue."),
    _number(
        "brightness", Brightness(), HistoricalBrightness(), grid(0.3), "added to all pixels",
        "The public code only brightens; the default darkens too. The default scans all values instead of gradient "
        "ascent.",
    ),
    _number("contrast", Contrast(), Contrast(), grid(0.5), "change of the factor", "As hue."),
)  # fmt: skip


def lpips(protocol: ProtocolName) -> Attack:
    """The union of PPGD and LPA; for whole curves a minimum-size attack, stronger and without inner iterations."""
    paper = protocol == "paper"
    judge: Judge = "last" if paper else "best"
    steps = 40 if paper else 20
    published = (
        Stage(PPGD(steps=steps, rate=2 / steps), "margin", judge=judge),
        Stage(LPA(steps=steps), "margin", judge=judge),
    )
    return Attack(
        "lpips",
        HistoricalPerceptual() if paper else Perceptual(),
        as_published(*published) if paper else _perceptual(legs("ascend", *published)),
        grid(0.5),
        AttackInfo(
            "distance of normalised activations",
            "Laidlaw et al. 2021 (PPGD and LPA)",
            "The public code's projections may end slightly outside of the set. Without a features file the attacked "
            "network's own activations are compared.",
        ),
        repairs=paper,
        unbounded=not paper,
    )


def _perceptual(published: tuple[Leg, ...]) -> dict[Search, Plan]:
    def clean(steps: int, objective: Objective = "margin") -> Leg:
        return Leg(Stage(PerceptualDescent(steps), objective, start="neutral"), "bound")

    nearer = Stage(PerceptualDescent(steps=20, beyond=0.005), "margin", start="best")
    bounds = (clean(45), clean(30, "log-margin"))
    return plans(published, bounds, legs("refine", nearer), frontier=swept(bounds[:1], _PERCEPTUAL_ASCENT))


def patch(protocol: ProtocolName) -> Attack:
    """Anything inside a square."""
    about = AttackInfo(
        "side of the square, as a share of the image's",
        "Brown et al. 2017; strength as proposed with the adversarial hypervolume",
    )
    ascent = APGD(AUTO_PGD_STEPS)
    return Attack("patch", Patch(), ascending(two_kinds(ascent, ascent)), grid(0.5), about)


def corruption(name: str) -> Attack:
    """One of the common corruptions at its five severities."""
    return Attack(
        f"corruption-{name.replace('_', '-')}",
        Corruption(name),
        {"every": Plan((Leg(Stage(Once(), "margin")),))},
        Corruption.levels,
        AttackInfo(
            "severity",
            "Hendrycks and Dietterich 2019",
            "Nothing is optimised; each severity is judged by itself, on all samples.",
        ),
        nested=False,
        contains_clean=False,
        repairs=True,
    )


def image_attacks(protocol: ProtocolName) -> list[Attack]:
    """All of them."""
    return [
        *(entry.attack(protocol) for entry in ENTRIES),
        lpips(protocol),
        patch(protocol),
        *(corruption(name) for name in CORRUPTIONS),
    ]
