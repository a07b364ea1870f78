"""The attacks on images beyond lp norms: spatial, colour, compression, weather, perceptual, patches, corruptions.

The default procedure searches the sound sets; ``"paper"`` runs each attack as its public code did: historical map,
steps, start, last iterate, and samples that are misclassified clean are attacked and judged as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from robustatlas.attacks.definition import Attack, Procedure, Stage, frontier, grid
from robustatlas.objectives import Objective
from robustatlas.optimizers.adam import Adam
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.fmn import FMN, WANDERING
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

_STEPS = 20  # of every attack of MultiRobustBench but lpips
_UAR_RATE = _STEPS**-0.5
_MRB_RATE = 2 / (_STEPS - 2)

_LONG = PGD(steps=20, rate=0.5, schedule="cosine", momentum=0.5)
_PERCEPTUAL_ASCENT = PGD(steps=10, rate=0.1, schedule="cosine", momentum=0.85, scaled=True)


def _ascents(steps: int) -> tuple[Stage, ...]:
    ascent = PGD(steps, rate=0.25, schedule="cosine", momentum=0.75)
    return Stage(ascent, "cross-entropy", start="best"), Stage(ascent, "margin", targets=3, start="best")


ASCENTS, _BRIEF_ASCENTS = _ascents(20), _ascents(16)
_LONG_ASCENTS = (Stage(_LONG, "margin", start="best"), Stage(_LONG, "cross-entropy", start="best"))
_FINE = PGD(steps=25, rate=0.05, schedule="cosine", momentum=0.75)
FINE_ASCENTS = (
    Stage(_FINE, "margin", targets=3, start="best"),
    Stage(_FINE, "cross-entropy", start="best", restarts=4),
)
"""For sets of which a few numbers move all pixels at once: a longer step throws away the example that it starts at, and
the others need many starts."""

_MANY = PGD(steps=10, rate=0.25, schedule="cosine", momentum=0.75)
MANY_ASCENTS = (
    Stage(_MANY, "cross-entropy", start="best", restarts=24),
    Stage(_MANY, "margin", targets=3, start="best"),
)
"""For sets of so few numbers that an ascent ends in the nearest of many valleys: short ones, from many starts."""


def _resumed(rate: float, steps: int = 40) -> tuple[Stage, ...]:
    """What goes on from where the ascents failed by little."""
    return (Stage(PGD(steps, rate, schedule="cosine", momentum=0.75), "margin", start="missed"),)


_CLOSINGS = {ASCENTS: _resumed(0.1), FINE_ASCENTS: _resumed(0.02, steps=80), MANY_ASCENTS: _resumed(0.1)}
"""By steps two fifths as long as those of the ascents."""

BOUND = Stage(FMN(steps=10), "margin")
_FAR_BOUND = Stage(replace(WANDERING, steps=12), "margin")

_SCAN = Stage(Scan(), "margin")


@dataclass(frozen=True)
class Entry:
    """What the catalogue knows of one attack: both threat models, the grid, and the optimizer of the paper.

    ``bound`` and ``stages``: the first bound and the ascents of the default procedure; ``one_number``: the parameter is
    a single number, which is scanned.
    """

    name: str
    threat: ThreatModel
    historical: ThreatModel
    strengths: tuple[float, ...]
    unit: str
    source: str
    optimizer: Optimizer  # type: ignore[type-arg]
    note: str
    objective: Objective = "cross-entropy"
    historical_nested: bool = True
    bound: Stage = BOUND
    stages: tuple[Stage, ...] = ASCENTS
    one_number: bool = False

    def attack(self, procedure: Procedure) -> Attack:
        """The attack by the default procedure or by the paper's."""
        if procedure == "paper":
            return Attack(
                name=self.name,
                threat=self.historical,
                strengths=self.strengths,
                stages=(Stage(self.optimizer, self.objective, judge="last"),),
                unit=self.unit,
                source=self.source,
                note=self.note,
                nested=self.historical_nested,
                contains_clean=self.historical == self.threat,
                repairs=True,
            )
        sound = Attack(
            name=self.name,
            threat=self.threat,
            strengths=self.strengths,
            stages=self.stages,
            bound=(self.bound,),
            descent=_BRIEF_ASCENTS if self.stages == ASCENTS else None,
            closing=_CLOSINGS.get(self.stages, ()),
            unit=self.unit,
            source=self.source,
            note=self.note,
        )
        if not self.one_number:
            return sound
        return replace(sound, stages=(_SCAN,), bound=(_SCAN,), descent=(), closing=(), frontier=(_SCAN,))


ENTRIES = (
    Entry(
        "elastic",
        Elastic(),
        HistoricalElastic(),
        grid(1.0),
        "pixels of displacement before smoothing",
        UAR,
        PGD(_STEPS, _UAR_RATE),
        "The public code samples with align_corners=False: even without displacement the "
        "image is zoomed slightly and its border darkened. The default is the identity there.",
    ),
    Entry(
        "jpeg-linf",
        JpegLinf(),
        HistoricalJpegLinf(),
        grid(0.2),
        "quantised DCT coefficients (half of it is applied)",
        UAR,
        PGD(_STEPS, _UAR_RATE),
        "The public code averages chrominance over 2x2 pixels even without a perturbation; "
        "the default adds the changed coefficients to the image itself.",
    ),
    Entry(
        "jpeg-l2",
        JpegL2(),
        HistoricalJpegL2(),
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        "l2 norm of quantised DCT coefficients",
        UAR,
        PGD(_STEPS, _UAR_RATE),
        "As jpeg-linf.",
    ),
    Entry(
        "jpeg-l1",
        JpegL1(),
        HistoricalJpegL1(),
        grid(20.0),
        "l1 norm of quantised DCT coefficients",
        UAR,
        FrankWolfe(_STEPS),
        "As jpeg-linf; the public code's bound of 2 on single coefficients counts from the "
        "current point, the default's from zero.",
    ),
    Entry(
        "stadv",
        StAdv(),
        HistoricalStAdv(),
        grid(0.1),
        "displacement, half the image side is 1",
        "Xiao et al. 2018, as run by MultiRobustBench",
        Adam(_STEPS),
        "The paper's smoothness penalty is switched off in the public evaluation code (a type"
        " test fails), so published numbers come without it.",
        objective="margin",
    ),
    Entry(
        "recolor",
        Recolor(),
        HistoricalRecolor(),
        grid(0.1),
        "change of CIE LUV coordinates scaled to [0, 1]",
        "Laidlaw and Feizi 2019, as run by MultiRobustBench",
        Adam(_STEPS),
        "The public code moves unperturbed colours too (gamut projection and clipping of "
        "LUV); the default adds the change of colours to the image itself. Smoothness "
        "penalty: as stadv.",
        objective="margin",
        bound=_FAR_BOUND,
    ),
    Entry(
        "fog",
        Fog(),
        HistoricalFog(),
        grid(50.0),
        "pixel values of 255",
        UAR,
        PGD(_STEPS, _UAR_RATE),
        "The public code divides by a maximum that contains epsilon, so its sets are not "
        "nested and do not contain the clean image. The default's fog grows with epsilon from"
        " none.",
        historical_nested=False,
        stages=FINE_ASCENTS,
    ),
    Entry(
        "snow",
        Snow(),
        HistoricalSnow(),
        grid(0.1),
        "pixel values of 1",
        UAR,
        PGD(_STEPS, _UAR_RATE),
        "The public code bleaches the image even at strength 0; the default bleaches and "
        "snows in proportion to the strength.",
        historical_nested=False,
        stages=_LONG_ASCENTS,
    ),
    Entry(
        "gabor",
        Gabor(),
        HistoricalGabor(),
        grid(10.0),
        "pixel values of 255",
        UAR,
        PGD(_STEPS, _UAR_RATE),
        "The public code stretches the noise to its full range whatever its parameters, and "
        "activates the positions that its paper leaves out; the default's noise is bounded by"
        " epsilon.",
        historical_nested=False,
        stages=_LONG_ASCENTS,
    ),
    Entry(
        "affine",
        Affine(),
        HistoricalAffine(),
        grid(0.1),
        "change of a matrix entry",
        MRB,
        PGD(_STEPS, _MRB_RATE),
        "The public code starts on one side, in [0, epsilon]; the sets are the same.",
        stages=MANY_ASCENTS,
    ),
    Entry(
        "perspective",
        Perspective(),
        HistoricalPerspective(),
        grid(0.002),
        "change of a matrix entry",
        MRB,
        PGD(_STEPS, _MRB_RATE),
        "The public code starts on one side, in [0, epsilon]; the sets are the same.",
    ),
    Entry(
        "hue",
        Hue(),
        Hue(),
        grid(0.5),
        "radians",
        MRB,
        PGD(_STEPS, _MRB_RATE),
        "The default scans the set instead of gradient ascent.",
        one_number=True,
    ),
    Entry(
        "saturation",
        Saturation(),
        Saturation(),
        grid(0.5),
        "change of the factor",
        MRB,
        PGD(_STEPS, _MRB_RATE),
        "As hue.",
        one_number=True,
    ),
    Entry(
        "brightness",
        Brightness(),
        HistoricalBrightness(),
        grid(0.3),
        "added to all pixels",
        MRB,
        PGD(_STEPS, _MRB_RATE),
        "The public code only brightens; the default darkens too. The default scans the set "
        "instead of gradient ascent.",
        one_number=True,
    ),
    Entry(
        "contrast",
        Contrast(),
        Contrast(),
        grid(0.5),
        "change of the factor",
        MRB,
        PGD(_STEPS, _MRB_RATE),
        "As hue.",
        one_number=True,
    ),
)


def lpips(procedure: Procedure) -> Attack:
    """The union of PPGD and LPA; for whole curves a minimum-size attack, stronger and without inner iterations."""
    paper = procedure == "paper"
    judge: Literal["best", "last"] = "last" if paper else "best"
    steps = 40 if paper else 20
    bound = Stage(PerceptualDescent(steps=45), "margin", start="neutral")
    other = Stage(PerceptualDescent(steps=30), "log-margin", start="neutral")
    nearer = Stage(PerceptualDescent(steps=20, beyond=0.005), "margin", start="best")
    return Attack(
        name="lpips",
        threat=HistoricalPerceptual() if paper else Perceptual(),
        strengths=grid(0.5),
        stages=(
            Stage(PPGD(steps=steps, rate=2 / steps), "margin", judge=judge),
            Stage(LPA(steps=steps), "margin", judge=judge),
        ),
        descent=None if paper else (),
        bound=() if paper else (bound, other),
        polish=() if paper else (nearer,),
        frontier=() if paper else frontier(replace(bound, optimizer=PerceptualDescent(steps=80)), _PERCEPTUAL_ASCENT),
        unit="distance of normalised activations",
        source="Laidlaw et al. 2021 (PPGD and LPA)",
        note="The public code's projections may end slightly outside of the set. Without a "
        "features file the attacked network's own activations are compared.",
        repairs=paper,
        unbounded=not paper,
    )


def patch(procedure: Procedure) -> Attack:
    """Anything inside a square."""
    return Attack(
        name="patch",
        threat=Patch(),
        strengths=grid(0.5),
        stages=(Stage(APGD(steps=40), "margin", restarts=3),),
        bound=(Stage(FMN(steps=20), "margin"),),
        unit="side of the square, as a share of the image's",
        source="Brown et al. 2017; strength as proposed with the adversarial hypervolume",
    )


def corruption(name: str) -> Attack:
    """One of the common corruptions at its five severities."""
    return Attack(
        name=f"corruption-{name.replace('_', '-')}",
        threat=Corruption(name),
        strengths=(1.0, 2.0, 3.0, 4.0, 5.0),
        stages=(Stage(Once(), "margin"),),
        unit="severity",
        source="Hendrycks and Dietterich 2019",
        note="Nothing is optimised; each severity is judged by itself, on all samples.",
        nested=False,
        contains_clean=False,
        repairs=True,
    )


def image_attacks(procedure: Procedure) -> list[Attack]:
    """All of them."""
    return [
        *(entry.attack(procedure) for entry in ENTRIES),
        lpips(procedure),
        patch(procedure),
        *(corruption(name) for name in CORRUPTIONS),
    ]
