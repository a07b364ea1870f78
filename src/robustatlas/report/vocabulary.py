"""How attacks are called in front of people: short labels, groups, and the unit of their strengths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttackLabel:
    """The words for one attack: `label` in tables, `axis` under plots (with its unit), `group` in lists."""

    label: str
    axis: str
    group: str


NORMS = "Norms"
SHAPE = "Shape"
CODEC = "JPEG"
COLOUR = "Colour"
PERCEPTION = "Perception"
WEATHER = "Weather and texture"
OCCLUSION = "Occlusion"
CORRUPTION = "Common corruptions"
OTHER = "Other"

GROUPS = (NORMS, SHAPE, CODEC, COLOUR, PERCEPTION, WEATHER, OCCLUSION, CORRUPTION, OTHER)

_LABELS = {
    "linf": AttackLabel("L∞", "largest pixel change (pixels 0–1)", NORMS),
    "l2": AttackLabel("L2", "Euclidean size (pixels 0–1)", NORMS),
    "l1": AttackLabel("L1", "sum of pixel changes (pixels 0–1)", NORMS),
    "l0": AttackLabel("L0", "changed coordinates (count)", NORMS),
    "elastic": AttackLabel("Elastic", "displacement (pixels)", SHAPE),
    "stadv": AttackLabel("StAdv", "displacement (half image widths)", SHAPE),
    "affine": AttackLabel("Affine", "matrix entries (no unit)", SHAPE),
    "perspective": AttackLabel("Perspective", "matrix entries (no unit)", SHAPE),
    "jpeg-linf": AttackLabel("JPEG L∞", "DCT change, largest (half steps)", CODEC),
    "jpeg-l2": AttackLabel("JPEG L2", "DCT change, Euclidean (half steps)", CODEC),
    "jpeg-l1": AttackLabel("JPEG L1", "DCT change, sum (half steps)", CODEC),
    "recolor": AttackLabel("ReColor", "colour shift (LUV scaled to 0–1)", COLOUR),
    "hue": AttackLabel("Hue", "rotation (radians)", COLOUR),
    "saturation": AttackLabel("Saturation", "change of the factor (no unit)", COLOUR),
    "brightness": AttackLabel("Brightness", "added light (pixels 0–1)", COLOUR),
    "contrast": AttackLabel("Contrast", "change of the factor (no unit)", COLOUR),
    "lpips": AttackLabel("LPIPS", "perceptual distance (no unit)", PERCEPTION),
    "fog": AttackLabel("Fog", "fog density (grey levels 0–255)", WEATHER),
    "snow": AttackLabel("Snow", "snow brightness (pixels 0–1)", WEATHER),
    "gabor": AttackLabel("Gabor", "noise amplitude (grey levels 0–255)", WEATHER),
    "patch": AttackLabel("Patch", "share of the image covered", OCCLUSION),
}


def describe(attack: str, unit: str = "") -> AttackLabel:
    """The words for `attack`; one that is not in the list keeps its own name and the `unit` that is given.

    >>> describe("linf").label, describe("corruption-gaussian_noise").label, describe("mine").label
    ('L∞', 'Gaussian noise', 'mine')
    """
    if attack.startswith("corruption-"):
        words = attack.removeprefix("corruption-").replace("_", " ").replace("-", " ")
        name = (words[:1].upper() + words[1:]).replace("Jpeg", "JPEG")
        taken = any(name == known.label for known in _LABELS.values())
        return AttackLabel(f"{name} corruption" if taken else name, "severity (1–5)", CORRUPTION)
    return _LABELS.get(attack, AttackLabel(attack, f"strength ({unit})" if unit else "strength", OTHER))
