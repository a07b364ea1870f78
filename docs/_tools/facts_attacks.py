"""The table of all attacks: paper, unit, usual strengths, and what a person sees."""

from collections.abc import Sequence
from pathlib import Path

from facts_stored import ROOT, table

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.common import wording
from robustatlas.common.papers import named_in

PICTURES = ROOT / "docs" / "images" / "attacks"

SEEN = {
    "linf": "patches of colour and a fine grain",
    "l2": "faint smears, stronger in some places",
    "l1": "a few coloured spots",
    "l0": "single wrong pixels",
    "elastic": "the image wobbles, black at the border",
    "stadv": "pixels jump, edges fray",
    "affine": "turned, stretched, moved, black at the border",
    "perspective": "the image is seen from the side",
    "jpeg-linf": "grain of strong compression",
    "jpeg-l2": "the same, in some blocks",
    "jpeg-l1": "the same, in few blocks",
    "recolor": "colours drift, the same way everywhere",
    "hue": "all colours turn",
    "saturation": "colours fade or glow",
    "brightness": "darker or brighter",
    "contrast": "flatter or harder contrast",
    "lpips": "texture changes, shapes stay",
    "fog": "a veil of mist",
    "snow": "white streaks and a paler image",
    "gabor": "a faint wave pattern",
    "patch": "one square of noise",
    "ua-jpeg": "coloured noise in 8x8 blocks",
    "ua-elastic": "broad bends, black at the border",
    "ua-wood": "dark rings of wood",
    "ua-glitch": "bars shifted sideways in single colours",
    "ua-kaleidoscope": "coloured shapes with outlines",
    "ua-pixel": "coarse pixels in places",
    "ua-snow": "many flakes and a paler image",
    "ua-gabor": "sparse waves, dark and bright",
    "ua-edge": "edges are redrawn in colour",
    "ua-fbm": "clouds of noise",
    "ua-fog": "smooth mist, nothing stretched",
    "ua-hsv": "slow changes of colour and light",
    "ua-klotski": "blocks slide",
    "ua-mix": "another picture shines through",
    "ua-polkadot": "large coloured discs",
    "ua-prison": "grey bars",
    "ua-blur": "blurred in places",
    "ua-texture": "white areas between black edges",
    "ua-whirlpool": "eight whirls",
    "carben": "colour, rotation, contrast and grain together",
}
"""Looks of attacks at their usual strengths. Attacks on the same set look the same, and corruptions look as they are called."""


def set_name(attack: Attack) -> str:
    """Return the name of the attack whose set and strengths this one searches: itself, or a norm."""
    same = [
        name
        for name in SEEN
        if catalogue()[name].threat == attack.threat and catalogue()[name].strengths == attack.strengths
    ]
    return same[0] if same and attack.name not in SEEN else attack.name


def groups() -> dict[str, list[str]]:
    """Return the attacks with a set of their own, by group, as they stand on the pictures."""
    found: dict[str, list[str]] = {}
    called = [name for name in catalogue() if wording.wording(name).group in (wording.CORRUPTION, wording.EVERYDAY)]
    for name in (*SEEN, *called):
        found.setdefault(wording.wording(name).group, []).append(name)
    return found


def picture_path(group: str) -> Path:
    return PICTURES / f"{group.lower().replace(' ', '-')}.jpg"


def strength_range(attack: Attack) -> str:
    first, last = (wording.strength(attack.strengths[k], of=attack.name) for k in (0, -1))
    return f"{first} to {last}"


def on_small_images(name: str) -> Attack:
    """Return the attack of a name on images such as CIFAR-10's, which the usual strengths are meant for."""
    return catalogue()[name].on_images((32, 32))


def paper_name(attack: Attack) -> str:
    return next((match[0] for match in named_in(attack.about.source)), attack.about.source)


def group_table(attacks: Sequence[Attack], papers: bool) -> str:
    rows = [
        (f"`{one.name}`", *[paper_name(one)] * papers, one.about.unit, strength_range(one), SEEN[one.name])
        for one in attacks
    ]
    return table(("attack", *["paper"] * papers, "unit of strength", "strengths", "what one sees"), rows)


def attacks_table() -> str:
    """Return for each group its picture, and a row for each attack. A paper that all share stands above."""
    parts = []
    for group, names in groups().items():
        attacks = [on_small_images(name) for name in names]
        papers = list(dict.fromkeys(map(paper_name, attacks)))
        place = picture_path(group).relative_to(ROOT / "docs").as_posix()
        parts += [f"## {group}", f"![{group}: the clean image and three strengths of each attack]({place})"]
        if len(papers) == 1 and group != wording.EVERYDAY:
            parts.append(f"From {papers[0]}.")
        if all(name in SEEN for name in names):
            parts.append(group_table(attacks, len(papers) > 1))
        else:
            every = ", ".join(f"`{name}`" for name in names)
            severity = f"at severity {strength_range(attacks[0])}"
            where = severity if group == wording.CORRUPTION else "in the units of [their guide](everyday.md)"
            parts.append(f"They look as they are called, {where}: {every}.")
    return "\n\n".join(parts)


def norm_attacks_table() -> str:
    """Return the published attacks on the sets of the norms, by paper."""
    found: dict[str, list[str]] = {}
    for name, attack in catalogue().items():
        if set_name(attack) != name:
            found.setdefault(paper_name(attack), []).append(f"`{name}`")
    return table(("paper", "attacks"), [(paper, " ".join(names)) for paper, names in found.items()])
