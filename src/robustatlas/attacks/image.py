"""The attacks on images beyond lp norms. MultiRobustBench bisects the strengths of every attack (C.2), also of fog,
snow and gabor, which are not nested. ``"paper"`` runs each attack as its public code did: historical map, steps, start,
last iterate; samples that are misclassified clean are attacked and judged as well."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from robustatlas.attacks.definition import ALL_SEARCHES, Attack, AttackInfo, AttackRun, ProtocolName, grid
from robustatlas.attacks.families import (
    BOXES,
    COEFFICIENTS,
    COEFFICIENTS_L1,
    COLOURS,
    FLAKES,
    KERNELS,
    PATCHES,
    PERCEPTUAL,
    RIDGES,
    SMOOTH,
    VALLEYS,
    Constants,
    number,
)
from robustatlas.attacks.runs import grid_runs
from robustatlas.attacks.search.plan import Judge
from robustatlas.models.objectives import Objective
from robustatlas.optimizers.adam import Adam
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.lpa import LPA
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.ppgd import PPGD
from robustatlas.optimizers.scan import Once
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


@dataclass(frozen=True)
class Entry:
    """One attack of the catalogue: both threat models, its grid, and what searches it.

    The default protocol runs the constants of its ``family``. The paper's runs ``optimizer`` on ``objective`` over the
    ``historical`` threat model.
    """

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
    family: Constants = SMOOTH

    def attack(self, protocol: ProtocolName) -> Attack:
        """Return the attack by the default protocol or by the paper's."""
        about = AttackInfo(self.unit, self.source, self.note)
        if protocol == "default":
            return Attack(
                self.name, self.threat, self.family.runs, self.strengths, about, rules=self.family.rules,
                search_order=ALL_SEARCHES,
            )  # fmt: skip
        return Attack(
            self.name,
            self.historical,
            (AttackRun(self.optimizer, self.objective, judge="last"),),
            self.strengths,
            about,
            nested=self.historical_nested,
            contains_clean=self.historical == self.threat,
            repairs=True,
        )


# MultiRobustBench's code steps by 2 epsilon / (steps - 2) in the threat models of these entries.
_mrb = partial(Entry, source=MRB, optimizer=PGD(_STEPS, 2 / (_STEPS - 2)))
# Forty sizes up to the largest strength: the spacing stays when other strengths are asked for.
_number = partial(_mrb, family=number(0.5 / 40))

ENTRIES = (
    Entry(
        "elastic", Elastic(), HistoricalElastic(), grid(1.0), "pixels of displacement before smoothing",
        "The public code of MultiRobustBench samples with align_corners=False: even without displacement the image is "
        "zoomed slightly and its border darkened. The default is the identity there, as under the PyTorch of UAR.",
        family=BOXES,
    ),
    Entry(
        "jpeg-linf", JpegLinf(), HistoricalJpegLinf(), grid(0.2), "quantised DCT coefficients (half of it is applied)",
        "The public code averages chrominance over 2x2 pixels even without a perturbation; the default adds the "
        "changed coefficients to the image itself.",
        family=BOXES,
    ),
    Entry(
        "jpeg-l2", JpegL2(), HistoricalJpegL2(), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        "l2 norm of quantised DCT coefficients", "As jpeg-linf.", family=COEFFICIENTS,
    ),
    Entry(
        "jpeg-l1", JpegL1(), HistoricalJpegL1(), grid(20.0), "l1 norm of quantised DCT coefficients",
        "As jpeg-linf; the public code's bound of 2 on single coefficients counts from the current point, the "
        "default's from zero.",
        optimizer=FrankWolfe(_STEPS), family=COEFFICIENTS_L1,
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
        family=COLOURS,
    ),
    Entry(
        "fog", Fog(), HistoricalFog(), grid(50.0), "pixel values of 255",
        "The public code divides by a maximum that contains epsilon, so its threat model is not nested and does not "
        "contain the clean image. The default's fog grows with epsilon from none.",
        historical_nested=False,
        family=RIDGES,
    ),
    Entry(
        "snow", Snow(), HistoricalSnow(), grid(0.1), "pixel values of 1",
        "The public code bleaches the image even at strength 0; the default bleaches and snows in proportion to the "
        "strength.",
        historical_nested=False, family=FLAKES,
    ),
    Entry(
        "gabor", Gabor(), HistoricalGabor(), grid(10.0), "pixel values of 255",
        "The public code stretches the noise to its full range whatever its parameters, and activates the positions "
        "that its paper leaves out; the default's noise is bounded by epsilon.",
        historical_nested=False, family=KERNELS,
    ),
    _mrb(
        "affine", Affine(), HistoricalAffine(), grid(0.1), "change of a matrix entry",
        "The public code starts on one side, in [0, epsilon]; the threat model is the same.",
        family=VALLEYS,
    ),
    _mrb(
        "perspective", Perspective(), HistoricalPerspective(), grid(0.002), "change of a matrix entry",
        "The public code starts on one side, in [0, epsilon]; the threat model is the same.",
        family=VALLEYS,
    ),
    _number("hue", Hue(), Hue(), grid(0.5), "radians", "The default scans all values instead of gradient ascent."),
    _number("saturation", Saturation(), Saturation(), grid(0.5), "change of the factor", "As hue."),
    _number(
        "brightness", Brightness(), HistoricalBrightness(), grid(0.3), "added to all pixels",
        "The public code only brightens; the default darkens too. The default scans all values instead of gradient "
        "ascent.",
        family=number(0.3 / 40),
    ),
    _number("contrast", Contrast(), Contrast(), grid(0.5), "change of the factor", "As hue."),
)  # fmt: skip


def lpips(protocol: ProtocolName) -> Attack:
    """Return the union of PPGD and LPA, and for whole curves a minimum-size attack without inner iterations."""
    paper = protocol == "paper"
    judge: Judge = "last" if paper else "best"
    steps = 40 if paper else 20
    published = (
        AttackRun(PPGD(steps=steps, rate=2 / steps), "margin", judge=judge),
        AttackRun(LPA(steps=steps), "margin", judge=judge),
    )
    return Attack(
        "lpips",
        HistoricalPerceptual() if paper else Perceptual(),
        published if paper else (*grid_runs(*published), *PERCEPTUAL.runs),
        grid(0.5),
        AttackInfo(
            "distance of normalised activations",
            "Laidlaw et al. 2021 (PPGD and LPA)",
            "The public code's projections may end slightly outside of the set. Without a features file the attacked "
            "network's own activations are compared.",
        ),
        search_order=() if paper else ALL_SEARCHES,
        repairs=paper,
        unbounded=not paper,
    )


def patch(protocol: ProtocolName) -> Attack:
    """Return the attack that puts anything inside of a square."""
    about = AttackInfo(
        "side of the square, as a share of the image's",
        "Brown et al. 2017; strength as proposed with the adversarial hypervolume",
    )
    return Attack("patch", Patch(), PATCHES.runs, grid(0.5), about, rules=PATCHES.rules, search_order=ALL_SEARCHES)


def corruption(name: str) -> Attack:
    """Return one of the common corruptions at its five severities."""
    return Attack(
        f"corruption-{name.replace('_', '-')}",
        Corruption(name),
        (AttackRun(Once(), "margin"),),
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
    """Return all attacks on images beyond lp norms."""
    return [
        *(entry.attack(protocol) for entry in ENTRIES),
        lpips(protocol),
        patch(protocol),
        *(corruption(name) for name in CORRUPTIONS),
    ]
