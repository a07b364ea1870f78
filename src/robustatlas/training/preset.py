"""Presets: trainings as papers describe them, and the differences of another training."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import pluralise
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import Opponent, Start
from robustatlas.training.against import OptimizerFactory, make_opponents
from robustatlas.training.recipes import RECIPES, Recipe, check_options
from robustatlas.training.settings import Settings


@dataclass(frozen=True)
class Fight:
    """One threat model of a preset.

    Attributes:
        strength: in the unit of the catalogue.
        steps: of crafting.
        length: of a step, in the unit of ``strength``.
        start: of examples; None: the recipe's.
        optimizer: function that makes the optimizer; None: the recipe's.
    """

    strength: float
    steps: int
    length: float
    start: Start | None = None
    optimizer: OptimizerFactory | None = None

    def rate(self, steps: int) -> float:
        """Return the length of one of ``steps`` steps as a share of the strength.

        All steps together are as long as those of the paper.

        Example:
            >>> [round(Fight(0.1, 40, 0.005).rate(steps), 6) for steps in (40, 7)]
            [0.05, 0.285714]
        """
        return self.length / self.strength * self.steps / max(steps, 1)


@dataclass(frozen=True)
class Preset:
    """Training as a paper describes it.

    Attributes:
        source: paper, and the place in it.
        data: name of the paper's data set.
        architecture: the network.
        kind: name of the recipe.
        fights: attack -> strength, steps and length of a step.
        settings: of the trainer.
        options: settings of the recipe.
        differs: a sentence for each difference from the paper.
        features: network by which the paper's lpips compares images; empty: the trained network.

    Example:
        >>> from robustatlas.training import preset_named
        >>> preset = preset_named("trades")
        >>> preset.architecture, preset.settings.epochs, preset.recipe().against[0].optimizer.steps
        ('wrn-34-10', 76, 10)
    """

    source: str
    data: str
    architecture: str
    kind: str
    fights: Mapping[str, Fight]
    settings: Settings
    options: Mapping[str, Any] = field(default_factory=dict)
    differs: tuple[str, ...] = ()
    features: str = ""

    def differences(self, features: str | None = None) -> tuple[str, ...]:
        """Return `differs`, with a sentence about the missing network of lpips if ``features`` is None."""
        if not self.features or features is not None:
            return self.differs
        own = f"Images are compared by the network itself; the paper takes {self.features} (--features does)."
        return (*self.differs, own)

    def recipe(
        self,
        against: Mapping[str, float] | None = None,
        steps: int | None = None,
        rate: float | None = None,
        features: str | None = None,
        **options: Any,
    ) -> Recipe:
        """Return the recipe; arguments replace the values of the paper.

        Args:
            against: attack -> strength. Steps stay those printed, and their lengths the same share of the strength;
                attacks that are not printed take those of the first one.
            steps: of all attacks. Where ``rate`` is not given, steps times length stays as printed.
            rate: length of a step of all attacks as a share of the strength.
            features: what ``lpips`` compares images by.
            **options: settings of the recipe.

        Returns:
            the recipe.

        Raises:
            UserError: settings that the recipe has not, unknown attacks, strengths in another unit.
        """
        kind = RECIPES[self.kind]
        check_options(self.kind, options)
        first = next(iter(self.fights.values()))
        opponents: list[Opponent] = []
        for name, strength in ({n: f.strength for n, f in self.fights.items()} if against is None else against).items():
            fight = self.fights.get(name, first)
            count = fight.steps if steps is None else steps
            (found,) = make_opponents(
                {name: strength},
                count,
                fight.rate(count) if rate is None else rate,
                optimizer=fight.optimizer or kind.optimizer,
                l2_start=kind.l2_start,
                features=features,
            )
            opponents.append(replace(found, start=fight.start or found.start))
        return kind(against=tuple(opponents), **{**self.options, **options})


def describe_differences(preset: Preset, architecture: str, recipe: Recipe, settings: Settings) -> list[str]:
    """Return a phrase for each difference of a training from the preset."""
    printed = preset.recipe()
    pairs: dict[str, tuple[Any, Any]] = {"network": (architecture, preset.architecture)}
    pairs |= {f.name: (getattr(settings, f.name), getattr(preset.settings, f.name)) for f in fields(Settings)}
    ours, theirs = ({o.name: o for o in each.against} for each in (recipe, printed))
    for name in ours | theirs:
        one, other = ours.get(name), theirs.get(name)
        pairs[name] = (one and value_as_typed(name, one.epsilon), other and value_as_typed(name, other.epsilon))
        if one is not None and other is not None:
            pairs[f"crafting in {name}"] = (_describe_crafting(one.optimizer), _describe_crafting(other.optimizer))
    options = [f.name for f in fields(recipe) if f.name != "against"]
    pairs |= {name: (getattr(recipe, name), getattr(printed, name)) for name in options}
    return [
        f"{what} {_format_value(one)} in place of {_format_value(other)}"
        for what, (one, other) in pairs.items()
        if one != other
    ]


def _describe_crafting(optimizer: Optimizer[Any]) -> str:
    """Return the steps of an optimizer and their length in words.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> _describe_crafting(PGD(10, 0.25))
        '10 steps of PGD of 0.25 of the strength'
    """
    steps = f"{pluralise(optimizer.steps, 'step')} of {type(optimizer).__name__}"
    rate = getattr(optimizer, "rate", None)
    return steps if rate is None else f"{steps} of {rate:.3g} of the strength"


def _format_value(value: object) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
