"""Everyday changes as attacks: worst cases by a sweep over a stated grid, beside them what is typical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from robustatlas.attacks.definition import Attack, AttackInfo, AttackRun, ProtocolName, grid
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import FALLING_UNIT_PREFIX
from robustatlas.common.wording import list_names
from robustatlas.optimizers.sweep import Sweep
from robustatlas.threats.everyday.change import BORDERS, Bordered, Change, with_border
from robustatlas.threats.everyday.geometry import Cropped, Rotated, Sheared, Shifted, Tilted, Zoomed
from robustatlas.threats.everyday.light import Contrasted, Exposed, Gamma, Saturated
from robustatlas.threats.everyday.optics import Coarse, Grainy, Occluded, Recompressed, Shaken, Unfocused
from robustatlas.threats.everyday.weather import Foggy, Rainy, Snowy

DRAWS = 3
"""Draws of each sample at each strength that show what is typical of a change with random numbers."""

_RECOGNISED = "chosen here: people still recognise what they see"
_CIFAR_C = "severities 1, 3 and 5 of CIFAR-10-C (Hendrycks and Dietterich 2019)"
_IMAGENET_C = "severities 1, 3 and 5 of ImageNet-C (Hendrycks and Dietterich 2019)"
_AUGMIX = "the largest of AugMix (Hendrycks et al. 2020)"


@dataclass(frozen=True)
class Everyday:
    """One everyday change.

    Attributes:
        step: between the sizes at which a sweep looks, besides the strengths.
        suite: its three strengths in the suite, which ``source`` is about.
        beside: the attack of the catalogue that it is not to be mistaken for.
        small: what differs below 85 pixels.
    """

    name: str
    threat: Change
    strengths: tuple[float, ...]
    step: float
    unit: str
    suite: tuple[float, ...]
    source: str
    beside: str = ""
    small: Everyday | None = None

    def attack(self, strengths: Sequence[float] | None = None) -> Attack:
        """Return the attack at its own strengths, or at others."""
        at = tuple(map(float, strengths or self.strengths))
        return Attack(
            self.name,
            self.threat,
            (sweep_run(self.threat, self.step),),
            at,
            AttackInfo(self.unit, self.source, _note(self.threat, self.beside)),
            usual_rules=False,  # a sweep looks at every size
            typical=typical_draws(self.threat),
            small=None if self.small is None else self.small.attack(self.small.suite if strengths else None),
        )


def sweep_run(threat: Change, step: float) -> AttackRun:
    """Return the run of a sweep in steps of ``step`` and at the strengths; only the first mistake ends it."""
    return AttackRun(Sweep.for_threat(threat, step), "margin", "bound")


def typical_draws(threat: Change) -> int:
    """Return the number of typical draws of a change: one if nothing is random."""
    return DRAWS if threat.signed or threat.free else 1


def _note(threat: Change, beside: str) -> str:
    edges = [f"Beyond the edges {BORDERS[threat.border]} (border)."] if isinstance(threat, Bordered) else []
    return " ".join([*edges, *([f"Another attack, {beside}."] if beside else [])])


def with_edges(attacks: Sequence[Attack], border: str) -> list[Attack]:
    """``attacks``, those that show what lies beyond the edges with ``"reflect"``, ``"black"`` or ``"grey"`` there."""
    if not any(isinstance(attack.threat, Bordered) for attack in attacks):
        raise UserError(
            f"border={border!r} is for everyday changes that show what lies beyond the edges, and there is none among "
            f"{list_names([attack.name for attack in attacks])}; leave it out."
        )
    return [_with_edges(attack, border) if isinstance(attack.threat, Bordered) else attack for attack in attacks]


def _with_edges(attack: Attack, border: str) -> Attack:
    changed: Any = with_border(attack.threat, border)
    old, new = BORDERS[getattr(attack.threat, "border")], BORDERS[changed.border]  # noqa: B009 - of Bordered alone
    note = attack.about.note.replace(old, new)
    small = None if attack.small is None else _with_edges(attack.small, border)
    return replace(attack, threat=changed, about=replace(attack.about, note=note), small=small)


def _blur(strengths: tuple[float, ...], step: float, suite: tuple[float, ...], source: str) -> Everyday:
    return Everyday("blur", Unfocused(), strengths, step, "pixels, standard deviation", suite, source)


def _motion_blur(strengths: tuple[float, ...], step: float, suite: tuple[float, ...]) -> Everyday:
    return Everyday("motion-blur", Shaken(), strengths, step, "pixels, length", suite, _RECOGNISED)


def _noise(strengths: tuple[float, ...], step: float, suite: tuple[float, ...], source: str) -> Everyday:
    return Everyday("noise", Grainy(), strengths, step, "grey levels of 255, standard deviation", suite, source)


def _jpeg(suite: tuple[float, ...], source: str) -> Everyday:
    beside = "jpeg-linf, changes coefficients at will"
    return Everyday(
        "jpeg-quality", Recompressed(), grid(95, 19), 1, f"{FALLING_UNIT_PREFIX}quality", suite, source, beside
    )


def _coarse(suite: tuple[float, ...], source: str) -> Everyday:
    return Everyday(
        "resolution", Coarse(), grid(90, 18), 5, f"{FALLING_UNIT_PREFIX}per cent of the side", suite, source
    )


CHANGES: tuple[Everyday, ...] = (
    Everyday(
        "rotation", Rotated(), grid(30, 10), 2, "degrees either way", (10, 20, 30),
        "30 degrees and steps of 2: Engstrom et al. 2019; smaller ones chosen here", "affine, changes matrix entries",
    ),
    Everyday(
        "translation", Shifted(), grid(4, 4), 1, "pixels either way", (1, 2, 3),
        "3 pixels of 32: Engstrom et al. 2019; smaller ones chosen here",
    ),
    Everyday(
        "translation-percent", Shifted(per_cent=True), grid(12.5, 4), 3.125, "per cent of the side either way",
        (3.125, 6.25, 9.375), "1, 2 and 3 pixels of 32: Engstrom et al. 2019 have 3; smaller ones chosen here",
    ),
    Everyday(
        "zoom", Zoomed(), grid(30, 6), 5, "per cent, larger or smaller", (10, 20, 30),
        "30 per cent: the largest of ImageNet-C's zoom blur; smaller ones chosen here",
    ),
    Everyday(
        "shear", Sheared(), grid(20, 8), 2.5, "degrees either way", (5, 10, 15),
        f"15 degrees is about {_AUGMIX}; smaller ones chosen here",
    ),
    Everyday(
        "tilt", Tilted(), grid(30, 3), 10, "degrees either way", (10, 20, 30), _RECOGNISED,
        "perspective, changes matrix entries",
    ),
    Everyday("crop", Cropped(), grid(30, 3), 10, "per cent of the side cut off", (10, 20, 30), _RECOGNISED),
    Everyday(
        "exposure", Exposed(), grid(2, 4), 0.5, "stops either way", (0.5, 1, 2), _RECOGNISED,
        "brightness, adds to all pixels",
    ),
    Everyday("gamma", Gamma(), grid(100, 5), 20, "per cent more than 1, or its inverse", (20, 60, 100), _RECOGNISED),
    Everyday(
        "contrast-percent", Contrasted(), grid(90, 6), 15, "per cent more or less", (30, 60, 90),
        f"90 per cent: {_AUGMIX}; smaller ones chosen here",
        "contrast, multiplies pixels and keeps no mean grey",
    ),
    Everyday(
        "saturation-percent", Saturated(), grid(90, 6), 15, "per cent more or less", (30, 60, 90),
        f"90 per cent: {_AUGMIX}; smaller ones chosen here",
        "saturation, changes that of HSV",
    ),
    replace(
        _blur(grid(6, 12), 0.5, (1, 3, 6), f"Gaussian blur at {_IMAGENET_C}"),
        small=_blur(grid(1.2, 12), 0.1, (0.4, 0.7, 1.0), f"Gaussian blur at {_CIFAR_C}"),
    ),
    replace(_motion_blur(grid(24, 3), 8, (8, 16, 24)), small=_motion_blur(grid(9, 3), 3, (3, 6, 9))),
    replace(
        _noise(grid(100, 5), 20, (20, 40, 100), f"nearly {_IMAGENET_C}"),
        small=_noise(grid(25, 5), 5, (10, 20, 25), f"{_CIFAR_C}, in whole levels"),
    ),
    replace(
        _jpeg((75, 85, 95), f"{_IMAGENET_C}, the last one rounded to 5"),
        small=_jpeg((20, 40, 60), f"{_CIFAR_C}, the middle one rounded to 60"),
    ),
    replace(
        _coarse((40, 60, 75), f"pixelate at {_IMAGENET_C}"),
        small=_coarse((5, 15, 35), f"pixelate at {_CIFAR_C}"),
    ),
    Everyday(
        "occlusion", Occluded(), grid(40, 4), 10, "per cent of the area", (10, 20, 40),
        "40 per cent: the largest of random erasing (Zhong et al. 2020); smaller ones chosen here",
        "patch, puts anything inside of a square",
    ),
    Everyday(
        "fog-density", Foggy(), grid(75, 3), 25, "per cent of the light lost", (25, 50, 75), _RECOGNISED,
        "fog, is optimised",
    ),
    Everyday("rain-density", Rainy(), grid(4, 4), 1, "per cent of the pixels hit", (1, 2, 4), _RECOGNISED),
    Everyday(
        "snow-density", Snowy(), grid(8, 4), 2, "per cent of the pixels hit", (2, 4, 8), _RECOGNISED,
        "snow, is optimised",
    ),
)  # fmt: skip


def everyday_attacks(protocol: ProtocolName) -> list[Attack]:
    """Return all everyday changes at strengths for curves."""
    return [change.attack() for change in CHANGES]


def everyday_suite(protocol: ProtocolName) -> list[Attack]:
    """Return the changes at the three strengths of the suite.

    The translation in pixels is left out: it means another thing on images of another size.
    """
    return [change.attack(change.suite) for change in CHANGES if change.name != "translation"]
