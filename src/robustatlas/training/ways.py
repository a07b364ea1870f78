"""Training of a reference's models against each attack: as in the attack's own literature, by a preset, or as given."""

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
"""Names for settings of all trainings, and of the standard training without an attack."""
STEPS = 10
"""Default number of steps of crafting."""
_ELASTIC_STEPS = 30
"""Steps of UAR for elastic, "due to its more difficult optimization problem" (section 4)."""
_RULE_RECIPES: dict[Rule, str] = {"acc": "pgd", "ata": "uniform"}
"""Recipe of each rule's paper, for attacks whose own literature has no special training."""

FAMILIES = ("multirobustbench", "uar", "uar-imagenet100")
"""Prefixes of the names of presets against one attack each."""

PerAttack = Mapping[str, Mapping[str, Any]]
"""Attack (or :data:`ALL`, :data:`STANDARD`) -> `recipe`, `steps`, `rate`, settings of the trainer and the recipe."""


def field_recipe(attack: str, rule: Rule = "acc") -> str:
    """Return the recipe of an attack's own literature.

    It is perceptual adversarial training against lpips (Laidlaw et al. 2021); against others it is projected ascent on
    the threat model, or for ATA UAR's targeted ascent.

    >>> field_recipe("lpips"), field_recipe("l1"), field_recipe("elastic", "ata")
    ('pat', 'pgd', 'uniform')
    """
    return "pat" if isinstance(attack_named(attack).threat, Perceptual) else _RULE_RECIPES[rule]


def field_steps(attack: str, rule: Rule = "acc") -> int:
    """Return the steps of crafting against an attack in the rule's paper.

    >>> field_steps("elastic", "ata"), field_steps("linf", "ata"), field_steps("elastic")
    (30, 10, 10)
    """
    return _ELASTIC_STEPS if (attack, rule) == ("elastic", "ata") else STEPS


@dataclass(frozen=True)
class Course:
    """Training against one attack.

    Attributes:
        recipe: name of the recipe.
        steps: of crafting.
        rate: length of a step as a share of the strength; None: that of the preset or the recipe.
        options: settings of the recipe.
        settings: of the trainer.
        preset: that defines the recipe; None: no preset.
    """

    recipe: str
    steps: int
    rate: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    preset: Preset | None = None

    def against(self, attack: str, strength: float, features: str | None) -> Recipe:
        """Return the recipe against one attack."""
        if self.preset is not None:
            return self.preset.recipe({attack: strength}, self.steps, self.rate, features, **self.options)
        return recipe_named(self.recipe, {attack: strength}, self.steps, self.rate, features=features, **self.options)

    def with_settings(self, given: Mapping[str, Any]) -> Course:
        """Return this course with other settings of trainer, recipe, steps or rate."""
        trainer = {each.name for each in fields(Settings)}
        named = {key: value for key, value in given.items() if key in ("recipe", "steps", "rate")}
        if "recipe" in named and self.preset is not None and named["recipe"] != self.preset.kind:
            named |= {"preset": None, "options": {}}
        way = replace(self, **named)
        settings = replace(way.settings, **{key: value for key, value in given.items() if key in trainer})
        options = {key: value for key, value in given.items() if key not in {*named, *trainer}}
        check_options(way.recipe, options)
        return replace(way, settings=settings, options={**way.options, **options})


def find_course(
    attack: str | None,
    rule: Rule,
    family: str = "",
    per_attack: PerAttack | None = None,
    usual: Course | None = None,
) -> Course:
    """Return the training of a reference's network against ``attack`` (None: standard training).

    Args:
        attack: its name.
        rule: of the reference.
        family: presets of a paper, one for each attack, such as "multirobustbench"; empty: no presets.
        per_attack: settings for some attacks or for all.
        usual: training without presets; an empty recipe, or 0 steps, are those of the attack's own literature. None:
            all defaults.

    Example:
        >>> way = find_course("elastic", "acc", "multirobustbench", {"elastic": {"epochs": 3}})
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
        return Course(STANDARD, 0, settings=settings).with_settings(mine)
    mine = {**every, **mine}
    if family:
        preset = PRESETS.get(f"{family}-{attack}")
        if preset is None or list(preset.fights) != [attack]:
            raise UserError(f"There is no preset {family}-{attack}; leave {attack} out, or train without presets.")
        (fight,) = preset.fights.values()
        way = Course(preset.kind, fight.steps, None, {}, preset.settings, preset)
        return way.with_settings(mine)
    base = usual or Course("", 0)
    own = replace(base, recipe=base.recipe or field_recipe(attack, rule), steps=base.steps or field_steps(attack, rule))
    return own.with_settings(mine)
