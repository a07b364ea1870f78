"""The nineteen attacks of ImageNet-UA, each at three levels and on a grid of twenty strengths. Images whose shorter
side is below 85 pixels have the settings of CIFAR-10, others those of ImageNet. ``"paper"`` runs each attack as its
public code did: published map and start, plain ascent by steps of one length, the last iterate judged, and samples that
are misclassified clean attacked as well."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from robustatlas.attacks.definition import ALL_SEARCHES, Attack, AttackInfo, AttackRun, ProtocolName
from robustatlas.attacks.families import (
    ASCENTS_AT_LEVELS,
    DRAWS,
    FINE_ASCENTS,
    RIDGES,
    SMOOTH,
    VALLEYS,
    Constants,
    runs_at_levels,
)
from robustatlas.metrics.references.imagenet_ua import CIFAR10, IMAGENET, Strengths, to_sound_units
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.historical.imagenet_ua.moves import (
    HistoricalUaBlur,
    HistoricalUaElastic,
    HistoricalUaGlitch,
    HistoricalUaJpeg,
    HistoricalUaKaleidoscope,
    HistoricalUaKlotski,
    HistoricalUaPixel,
    HistoricalUaWhirlpool,
)
from robustatlas.threats.historical.imagenet_ua.patterns import (
    HistoricalUaEdge,
    HistoricalUaFbm,
    HistoricalUaFog,
    HistoricalUaGabor,
    HistoricalUaHsv,
    HistoricalUaMix,
    HistoricalUaPolkadot,
    HistoricalUaPrison,
    HistoricalUaSnow,
    HistoricalUaTexture,
    HistoricalUaWood,
)
from robustatlas.threats.imagenet_ua.blur import UaBlur
from robustatlas.threats.imagenet_ua.edge import UaEdge
from robustatlas.threats.imagenet_ua.elastic import UaElastic
from robustatlas.threats.imagenet_ua.fbm import UaFbm
from robustatlas.threats.imagenet_ua.fog import UaFog
from robustatlas.threats.imagenet_ua.gabor import UaGabor
from robustatlas.threats.imagenet_ua.glitch import UaGlitch
from robustatlas.threats.imagenet_ua.hsv import UaHsv
from robustatlas.threats.imagenet_ua.jpeg import UaJpeg
from robustatlas.threats.imagenet_ua.kaleidoscope import UaKaleidoscope
from robustatlas.threats.imagenet_ua.klotski import UaKlotski
from robustatlas.threats.imagenet_ua.mix import UaMix
from robustatlas.threats.imagenet_ua.pixel import UaPixel
from robustatlas.threats.imagenet_ua.polkadot import UaPolkadot
from robustatlas.threats.imagenet_ua.prison import UaPrison
from robustatlas.threats.imagenet_ua.snow import UaSnow
from robustatlas.threats.imagenet_ua.texture import UaTexture
from robustatlas.threats.imagenet_ua.whirlpool import UaWhirlpool
from robustatlas.threats.imagenet_ua.wood import UaWood

SOURCE = "Kaufmann et al. 2023 (ImageNet-UA)"

_FADED = "The public code changes the image like this at every strength; the default fades it in from none."
_HALF_A_PIXEL = "The public code reads the image half a pixel off even without a shift; the default does not."
_SAME_SETS = "The threat model is the published one; the public code searches them from one side."


@dataclass(frozen=True)
class Published:
    """Settings of the public code for an attack: length and number of its steps."""

    length: float
    steps: int


@dataclass(frozen=True)
class UaEntry:
    """One attack: both threat models, the published steps on ImageNet and on CIFAR-10, unit and note, the constants of
    its runs at twenty strengths, and the ascents at three levels."""

    name: str
    threat: ThreatModel
    historical: ThreatModel
    large: Published
    small: Published
    unit: str
    note: str
    historical_unit: str = ""
    family: Constants = SMOOTH
    ascents_at_levels: tuple[AttackRun, ...] = ASCENTS_AT_LEVELS

    def attack(self, protocol: ProtocolName, *, levels: bool = False) -> Attack:
        """Return the attack at the twenty strengths, or at the three levels."""
        large, small = (
            self._sound(steps, three, levels) if protocol == "default" else self._published(steps, three, levels)
            for three, steps in ((IMAGENET[self.name], self.large), (CIFAR10[self.name], self.small))
        )
        return replace(large, small=small)

    def _sound(self, steps: Published, three: Strengths, levels: bool) -> Attack:
        sound = to_sound_units(self.name, three)
        about = AttackInfo(self.unit, SOURCE, self.note)
        runs = self.family.runs
        if levels:
            published = PGD(steps.steps, length=steps.length * sound[1] / three[1])
            runs = runs_at_levels(self.ascents_at_levels, published, self._published_starts(steps))
        return Attack(
            f"ua-{self.name}", self.threat, runs, strengths_around(sound) if not levels else sound, about,
            rules=self.family.rules, search_order=ALL_SEARCHES,
        )  # fmt: skip

    def _published_starts(self, steps: Published) -> int:
        """Return the number of runs by the published steps at three levels.

        Half of their passes must have room for both kinds of ascents, and ascents by finer steps need none of them.
        """
        has_room = steps.steps >= _STEPS_FOR_BOTH and self.ascents_at_levels is not FINE_ASCENTS
        return _PUBLISHED_STARTS if has_room else 0

    def _published(self, steps: Published, three: Strengths, levels: bool) -> Attack:
        run = AttackRun(PGD(steps.steps, length=steps.length), "cross-entropy", judge="last")
        about = AttackInfo(self.historical_unit or self.unit, SOURCE, self.note)
        return Attack(
            f"ua-{self.name}", self.historical, (run,), three if levels else strengths_around(three), about,
            search_order=("every", "bisection"), contains_clean=False, repairs=True,
        )  # fmt: skip


_STEPS_FOR_BOTH = 40
"""Published steps from which on both kinds of ascents run: as strong or stronger in all entries but one."""
_PUBLISHED_STARTS = 2
"""Starts of the published steps then."""


def strengths_around(levels: Strengths, count: int = 20) -> tuple[float, ...]:
    """``count`` strengths in equal ratios, from a fifth of the lowest level to twice the highest, and the levels among
    them: each in the place of the one that is nearest in ratio.

    Example:
        >>> strengths_around((0.3, 0.4, 0.5), 7)
        (0.06, 0.09589, 0.1533, 0.3, 0.4, 0.5, 1.0)
    """
    steps = np.geomspace(levels[0] / 5, 2 * levels[-1], count)
    strengths = [float(f"{step:.4g}") for step in steps]
    for level in levels:
        strengths[int(np.abs(np.log(steps / level)).argmin())] = level
    return tuple(strengths)


ENTRIES = (
    UaEntry(
        "jpeg", UaJpeg(), HistoricalUaJpeg(), Published(0.0024, 80), Published(0.0024, 50),
        "change of a cosine coefficient, pixels in [0, 1]",
        f"Unlike jpeg-linf of 2019 nothing is quantised, and chrominance has the full resolution. {_SAME_SETS}",
    ),
    UaEntry(
        "elastic", UaElastic(), HistoricalUaElastic(), Published(0.003, 100), Published(0.006, 30),
        "l2 norm of coarse displacements, half the image side is 1",
        "Unlike elastic of 2019 the displacements are coarse and bounded as a whole. The public code zooms the image "
        "and darkens its border even without a displacement; the default does not.",
    ),
    UaEntry(
        "wood", UaWood(), HistoricalUaWood(), Published(0.005, 80), Published(0.000625, 70),
        "bend of a ring, half the image side is 1", _FADED,
        # Near a ring the gradient grows without bound: long steps lead nowhere.
        family=RIDGES, ascents_at_levels=FINE_ASCENTS,
    ),
    UaEntry(
        "glitch", UaGlitch(), HistoricalUaGlitch(), Published(0.005, 90), Published(0.0025, 60),
        "shift of a bar, half the image width is 1", _HALF_A_PIXEL,
    ),
    UaEntry(
        "kaleidoscope", UaKaleidoscope(), HistoricalUaKaleidoscope(), Published(0.005, 90), Published(0.005, 30),
        "change of a colour, pixels in [0, 1]", _FADED,
        family=VALLEYS,
    ),
    UaEntry(
        "pixel", UaPixel(), HistoricalUaPixel(), Published(1.0, 100), Published(1.0, 60),
        "l2 norm of mixing weights", "The threat model is the published one; the start is random in every weight.",
    ),
    UaEntry(
        "snow", UaSnow(), HistoricalUaSnow(), Published(0.1, 100), Published(0.2, 20),
        "number of full flakes",
        "Unlike snow of 2019 flakes lie anywhere and are bounded as a whole. The public code bounds the l2 norm of "
        "fourth roots of the flakes, and bleaches the image at every strength; the default bounds the flakes "
        "themselves, in whole flakes (the square of the published strength), and fades the bleaching in.",
        historical_unit="l2 norm of fourth roots of the flakes",
        family=VALLEYS,
    ),
    UaEntry(
        "gabor", UaGabor(), HistoricalUaGabor(), Published(0.0003125, 100), Published(0.0025, 80),
        "weight of one kernel, pixels in [0, 1]",
        "Unlike gabor of 2019 the noise is sparse, not normalised, and of both signs. The public code draws another "
        "kernel at every step; the default keeps the most promising one.",
        family=VALLEYS,
    ),
    UaEntry(
        "edge", UaEdge(), HistoricalUaEdge(), Published(0.02, 60), Published(0.02, 60),
        "change of a pixel on an edge, pixels in [0, 1]", _FADED,
    ),
    UaEntry(
        "fbm", UaFbm(), HistoricalUaFbm(), Published(0.006, 29), Published(0.006, 29),
        "number of a gradient of the noise",
        f"{_SAME_SETS} Its last update never reaches the image, so one step less than published is made.",
    ),
    UaEntry(
        "fog", UaFog(), HistoricalUaFog(), Published(0.05, 40), Published(0.05, 40),
        "number of the plasma",
        f"Unlike fog of 2019 nothing is stretched or divided by a maximum. {_SAME_SETS}",
    ),
    UaEntry(
        "hsv", UaHsv(), HistoricalUaHsv(), Published(0.006, 20), Published(0.003, 20),
        "change of hue, saturation and value, each in [0, 1]", _SAME_SETS,
    ),
    UaEntry(
        "klotski", UaKlotski(), HistoricalUaKlotski(), Published(0.01, 40), Published(0.005, 50),
        "shift of a block, half the image side is 1", _HALF_A_PIXEL,
    ),
    UaEntry(
        "mix", UaMix(), HistoricalUaMix(), Published(1.0, 70), Published(0.5, 30),
        "l2 norm of the weights of another picture",
        "The public code mixes in images of the same batch; here it is one of the first images of the data set.",
        family=DRAWS,
    ),
    UaEntry(
        "polkadot", UaPolkadot(), HistoricalUaPolkadot(), Published(0.3, 40), Published(0.3, 40),
        "l2 norm of the strengths of the dots", _FADED,
        family=VALLEYS,
    ),
    UaEntry(
        "prison", UaPrison(), HistoricalUaPrison(), Published(0.0015, 30), Published(0.0015, 20),
        "change of a pixel on a bar, pixels in [0, 1]", _FADED,
    ),
    UaEntry(
        "blur", UaBlur(), HistoricalUaBlur(), Published(0.03, 40), Published(0.015, 20),
        "weight of the blurred image", _SAME_SETS,
    ),
    UaEntry(
        "texture", UaTexture(), HistoricalUaTexture(), Published(0.003, 80), Published(0.003, 30),
        "weight of white", _FADED,
    ),
    UaEntry(
        "whirlpool", UaWhirlpool(), HistoricalUaWhirlpool(), Published(4.0, 40), Published(16.0, 50),
        "l2 norm of rotations, radians",
        f"The public code turns every whirlpool by half a radian at least; the default from none. {_HALF_A_PIXEL}",
        family=VALLEYS,
    ),
)  # fmt: skip

_BY_NAME = {entry.name: entry for entry in ENTRIES}


def ua_attacks(protocol: ProtocolName) -> list[Attack]:
    """Return all nineteen at twenty strengths."""
    return [entry.attack(protocol) for entry in ENTRIES]


def attacks_at_levels(names: Iterable[str], protocol: ProtocolName) -> list[Attack]:
    """Return the attacks ``names`` at the three levels."""
    return [_BY_NAME[name].attack(protocol, levels=True) for name in names]
