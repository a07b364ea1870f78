"""Labels and groups of attacks, as tables, plots and lists show them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AttackLabel:
    """Words for one attack: `label` in tables and under plots, `group` in lists."""

    label: str
    group: str


NORMS = "Norms"
SHAPE = "Shape"
CODEC = "JPEG"
COLOUR = "Colour"
PERCEPTION = "Perception"
WEATHER = "Weather and texture"
OCCLUSION = "Occlusion"
EVERYDAY = "Everyday changes"
UNFORESEEN = "ImageNet-UA"
COMPOSED = "Composed"
CORRUPTION = "Common corruptions"
OTHER = "Other"

_SETS = (NORMS, SHAPE, CODEC, COLOUR, PERCEPTION, WEATHER, OCCLUSION, EVERYDAY, UNFORESEEN)
GROUPS = (*_SETS, COMPOSED, CORRUPTION, OTHER)

_MEMBERS = {
    NORMS: ("linf", "l2", "l1", "l0"),
    SHAPE: ("elastic", "stadv", "affine", "perspective"),
    CODEC: ("jpeg-linf", "jpeg-l2", "jpeg-l1"),
    COLOUR: ("recolor", "hue", "saturation", "brightness", "contrast"),
    PERCEPTION: ("lpips",),
    WEATHER: ("fog", "snow", "gabor"),
    OCCLUSION: ("patch",),
    EVERYDAY: (
        "rotation", "translation", "translation-percent", "zoom", "shear", "tilt", "crop", "exposure", "gamma",
        "contrast-percent", "saturation-percent", "blur", "motion-blur", "noise", "jpeg-quality", "resolution",
        "occlusion", "fog-density", "rain-density", "snow-density",
    ),
    COMPOSED: ("carben",),
}  # fmt: skip
_GROUP_OF = {attack: group for group, attacks in _MEMBERS.items() for attack in attacks}
_LABELS = {
    "linf": "L∞", "jpeg-linf": "JPEG L∞", "jpeg-l2": "JPEG L2", "jpeg-l1": "JPEG L1", "stadv": "StAdv",
    "recolor": "ReColor", "lpips": "LPIPS", "carben": "CARBEN",
}  # fmt: skip
"""Labels that differ from the name with a capital and spaces."""

_UA = "ua-"
_UA_ACRONYMS = ("fbm", "hsv", "jpeg")


def attack_label(attack: str) -> AttackLabel:
    """Return the words for `attack`; an attack that is not listed here keeps its name as label.

    >>> [attack_label(name).label for name in ("linf", "ua-jpeg", "corruption-gaussian-noise", "mine")]
    ['L∞', 'UA JPEG', 'Gaussian noise', 'mine']
    """
    if attack.startswith("corruption-"):
        name = _with_capital(attack.removeprefix("corruption-"))
        is_taken = any(name == _label(known) for known in _GROUP_OF)
        return AttackLabel(f"{name} corruption" if is_taken else name, CORRUPTION)
    if attack.startswith(_UA):
        name = attack.removeprefix(_UA)
        return AttackLabel(f"UA {name.upper() if name in _UA_ACRONYMS else name}", UNFORESEEN)
    if attack in _GROUP_OF:
        return AttackLabel(_label(attack), _GROUP_OF[attack])
    return AttackLabel(attack, COMPOSED if "+" in attack else OTHER)


def _label(attack: str) -> str:
    return _LABELS.get(attack) or _with_capital(attack.replace("-percent", ", %"))


def _with_capital(name: str) -> str:
    words = name.replace("-", " ")
    return (words[:1].upper() + words[1:]).replace("Jpeg", "JPEG")
