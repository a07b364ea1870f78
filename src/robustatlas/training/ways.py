"""How models of a reference are trained against each attack: as its own field does, by a preset, or as is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from robustatlas.attacks.catalogue import attack_named
from robustatlas.common.errors import UserError
from robustatlas.metrics.references.building import Rule
from robustatlas.threats.perceptual import Perceptual
from robustatlas.training.presets import PRESETS, Preset
from robustatlas.training.recipes import Recipe, check_options, recipe_named
from robustatlas.training.settings import Settings

ALL, STANDARD = "all", "standard"
"""Names that settings may be given for, beside those of attacks: every training, and the one against none."""
STEPS = 10
"""Of crafting, where neither a field nor the user says otherwise."""
_ELASTIC = 30
"""UAR takes so many for elastic, "due to its more difficult optimization problem" (section 4)."""
_OTHERS: dict[Rule, str] = {"acc": "pgd", "ata": "uniform"}
"""What each rule's paper trains by, where an attack's own field has no training of its own."""

FAMILIES = ("multirobustbench", "uar", "uar-imagenet100")
"""Beginnings of the names of presets that are of one attack each."""

PerAttack = Mapping[str, Mapping[str, Any]]
"""Attack (or :data:`ALL`, :data:`STANDARD`) -> `recipe`, `steps`, `rate`, settings of the trainer and the recipe."""


def own_recipe(attack: str, rule: Rule = "acc") -> str:
    """The recipe that an attack's own field trains by: perceptual adversarial training against lpips (Laidlaw et al.
    2021), projected ascent on its threat model, or for ATA UAR's targeted one, against all others.

    >>> own_recipe("lpips"), own_recipe("l1"), own_recipe("elastic", "ata")
    ('pat', 'pgd', 'uniform')
    """
    return "pat" if isinstance(attack_named(attack).threat, Perceptual) else _OTHERS[rule]


def own_steps(attack: str, rule: Rule = "acc") -> int:
    """The steps of crafting that the rule's paper takes against an attack.

    >>> own_steps("elastic", "ata"), own_steps("linf", "ata"), own_steps("elastic")
    (30, 10, 10)
    """
    return _ELASTIC if (attack, rule) == ("elastic", "ata") else STEPS


@dataclass(frozen=True)
class Course:
    """How networks are trained against one attack. ``rate``: length of a step as a share of the strength; None: that of
    the preset or the recipe. ``options``: of the recipe. ``settings``: of the trainer. ``preset``: whose recipe it is;
    None for none."""

    recipe: str
    steps: int
    rate: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    preset: Preset | None = None

    def against(self, attack: str, strength: float, features: str | None) -> Recipe:
        """The recipe against one attack."""
        if self.preset is not None:
            return self.preset.recipe({attack: strength}, self.steps, self.rate, features, **self.options)
        return recipe_named(self.recipe, {attack: strength}, self.steps, self.rate, features=features, **self.options)

    def asked(self, given: Mapping[str, Any]) -> Course:
        """The same with what is asked for."""
        trainer = {each.name for each in fields(Settings)}
        named = {key: value for key, value in given.items() if key in ("recipe", "steps", "rate")}
        if "recipe" in named and self.preset is not None and named["recipe"] != self.preset.kind:
            named |= {"preset": None, "options": {}}
        way = replace(self, **named)
        settings = replace(way.settings, **{key: value for key, value in given.items() if key in trainer})
        options = {key: value for key, value in given.items() if key not in {*named, *trainer}}
        check_options(way.recipe, options)
        return replace(way, settings=settings, options={**way.options, **options})


def way_of(
    attack: str | None,
    rule: Rule,
    family: str = "",
    per_attack: PerAttack | None = None,
    usual: Course | None = None,
) -> Course:
    """How a network of a reference is trained against ``attack`` (None: standard training).

    ``family``: presets of a paper, one for each attack, such as "multirobustbench"; empty for none. ``per_attack``:
    what is asked for of some attacks or of all. ``usual``: without presets; an empty recipe, or no steps, are those of
    the attack's own field. None: all defaults.

    >>> way = way_of("elastic", "acc", "multirobustbench", {"elastic": {"epochs": 3}})
    >>> way.recipe, way.steps, way.settings.epochs, way.settings.batch_size
    ('pgd', 20, 3, 256)
    """
    if family and family not in FAMILIES:
        raise UserError(f"There are no presets {family}-ATTACK; expected {', '.join(FAMILIES)}.")
    given = dict(per_attack or {})
    every, mine = given.get(ALL, {}), given.get(attack or STANDARD, {})
    if attack is None:
        trainer = {each.name for each in fields(Settings)}
        mine = {**{key: value for key, value in every.items() if key in trainer}, **mine}
        settings = PRESETS[f"{family}-linf"].settings if family else (usual or Course("", 0)).settings
        return Course(STANDARD, 0, settings=settings).asked(mine)
    mine = {**every, **mine}
    if family:
        preset = PRESETS.get(f"{family}-{attack}")
        if preset is None or list(preset.fights) != [attack]:
            raise UserError(f"There is no preset {family}-{attack}; leave {attack} out, or train without presets.")
        (fight,) = preset.fights.values()
        way = Course(preset.kind, fight.steps, None, {}, preset.settings, preset)
        return way.asked(mine)
    base = usual or Course("", 0)
    own = replace(base, recipe=base.recipe or own_recipe(attack, rule), steps=base.steps or own_steps(attack, rule))
    return own.asked(mine)
