"""Trainings as papers print them: network, recipe, strengths, steps, optimiser and schedule, by one name. What a paper
does not print, such as a weight decay or an augmentation, is its public code's.

What takes days is not trained here: a preset's settings are checked against the paper, and its first updates run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.wording import instead
from robustatlas.optimizers.crafting import Opponent, Start
from robustatlas.training.against import opponents_of
from robustatlas.training.recipes import RECIPES, Recipe, check_options
from robustatlas.training.settings import Settings


@dataclass(frozen=True)
class Fight:
    """One threat model of a preset: its strength, the steps of crafting, their length in the same unit, and where they
    begin, unless it is where the recipe has them begin."""

    strength: float
    steps: int
    length: float
    start: Start | None = None


@dataclass(frozen=True)
class Preset:
    """A training as a paper prints it.

    Attributes:
        source: paper, and what of it.
        data: that it is for.
        architecture: the network.
        kind: name of the recipe.
        fights: attack -> strength, steps and length of a step.
        settings: of the trainer.
        options: settings of the recipe.
        differs: in what it is not as printed, one sentence each.

    Example:
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

    def recipe(
        self,
        against: Mapping[str, float] | None = None,
        steps: int | None = None,
        rate: float | None = None,
        features: str | None = None,
        **options: Any,
    ) -> Recipe:
        """The recipe; what is given counts in place of what is printed.

        Args:
            against: attack -> strength. Steps stay those printed, of attacks that are not those of the first that is;
                their lengths stay the same share of the strength.
            steps, rate: of all attacks, as of :func:`robustatlas.training.recipe_named`.
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
            (found,) = opponents_of(
                {name: strength},
                fight.steps if steps is None else steps,
                fight.length / fight.strength if rate is None else rate,
                optimizer=kind.optimizer,
                l2_start=kind.l2_start,
                features=features,
            )
            opponents.append(replace(found, start=fight.start or found.start))
        return kind(against=tuple(opponents), **{**self.options, **options})


def preset_named(name: str) -> Preset:
    """The preset of that name.

    Args:
        name: one of :data:`PRESETS`.

    Returns:
        the preset.

    Raises:
        UserError: there is none; the nearest name is suggested.

    Example:
        >>> preset_named("multirobustbench-linf").settings.batch_size
        256
    """
    if name not in PRESETS:
        there = "'robustatlas train --presets' lists them"
        raise UserError(f"There is no preset {name!r}{instead(name, PRESETS, there)}")
    return PRESETS[name]


def overridden(preset: Preset, architecture: str, recipe: Recipe, settings: Settings) -> list[str]:
    """A phrase for each thing that is not as in the preset.

    Args:
        preset: what was asked for.
        architecture: the network that is trained.
        recipe: what it is trained by.
        settings: of the trainer.

    Returns:
        phrases such as 'epochs 5 in place of 76'.

    Example:
        >>> trades = preset_named("trades")
        >>> overridden(trades, "resnet18", trades.recipe(), trades.settings)
        ['network resnet18 in place of wrn-34-10']
    """
    printed = preset.recipe()
    pairs: dict[str, tuple[Any, Any]] = {"network": (architecture, preset.architecture)}
    pairs |= {f.name: (getattr(settings, f.name), getattr(preset.settings, f.name)) for f in fields(Settings)}
    ours, theirs = ({o.name: o for o in each.against} for each in (recipe, printed))
    for name in ours | theirs:
        one, other = ours.get(name), theirs.get(name)
        pairs[name] = (one and one.epsilon, other and other.epsilon)
        if one is not None and other is not None:
            pairs[f"crafting in {name}"] = (one.optimizer, other.optimizer)
    options = [f.name for f in fields(recipe) if f.name != "against"]
    pairs |= {name: (getattr(recipe, name), getattr(printed, name)) for name in options}
    return [f"{what} {_said(one)} in place of {_said(other)}" for what, (one, other) in pairs.items() if one != other]


def _said(value: object) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


_SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9, "augmentation": "crop+flip"}
_MRB = Settings(**_SGD, epochs=100, batch_size=256, schedule="piecewise", weight_decay=5e-4, selection="best")
_UAR = Settings(**_SGD, epochs=200, batch_size=32, schedule="step:100,150", weight_decay=1e-4, held_out=0)
_UNION = Settings(**_SGD, epochs=50, schedule="tri", weight_decay=5e-4, crafting="train", held_out=0)
_MADAAN = Settings(
    **{**_SGD, "learning_rate": 0.21}, epochs=30, schedule="cyclic", weight_decay=5e-4, crafting="train", held_out=0
)
_LINF = 8 / 255
_CHOSEN = "The paper chooses the epoch on test images; here it is chosen on held-out training images."
_L1_LENGTHS = "In l1 crafting is by this package's inner attack, which finds its own lengths."
_BY_ADAM = "Crafting is by steps of the sign; the public code's is by Adam, with a penalty on roughness."
_MRB_DIFFERS = {
    "l1": (_L1_LENGTHS, "In l1 20 steps, of the public code's 100."),
    "stadv": (_BY_ADAM,),
    "recolor": (_BY_ADAM,),
    "elastic": ("The paper refers to the settings of Kang et al. 2019; these are its public code's, untargeted.",),
}
_BALL = "Random starts are uniform in the ball; the public code's have norm 1."
_MADAAN_FIGHTS = {
    "linf": Fight(_LINF, 10, 1 / 255),
    "l2": Fight(128 / 255, 10, 30 / 255),
    "l1": Fight(2000 / 255, 20, 1.0),
}


def _mrb(attack: str, strength: float, kind: str = "pgd") -> Preset:
    differs = (_CHOSEN, *_MRB_DIFFERS.get(attack, ()))
    fights = {attack: Fight(strength, 20, strength / (20**0.5 if attack == "elastic" else 18))}
    source = "Dai et al. 2023 (MultiRobustBench), the networks of acc*"
    return Preset(source, "cifar10", "resnet18", kind, fights, _MRB, differs=differs)


def _uar(attack: str, strength: float, steps: int = 10) -> Preset:
    fights = {attack: Fight(strength, steps, strength / steps**0.5)}
    return Preset("Kang et al. 2019 (UAR), the networks of ATA", "cifar10", "resnet56", "uniform", fights, _UAR)


def _union(kind: str, linf: float = 0.003, *differs: str) -> Preset:
    source = "Maini et al. 2020, CIFAR-10; l2 at .3, as their code"
    fights = {
        "linf": Fight(0.03, 40, linf, "neutral"),
        "l2": Fight(0.3, 50, 0.05, "neutral"),
        "l1": Fight(12.0, 50, 1.0, "neutral"),
    }
    return Preset(source, "cifar10", "preact18", kind, fights, _UNION, differs=(_L1_LENGTHS, *differs))


PRESETS: dict[str, Preset] = {
    "multirobustbench-linf": _mrb("linf", _LINF),
    "multirobustbench-l2": _mrb("l2", 0.5),
    "multirobustbench-l1": _mrb("l1", 12.0),
    "multirobustbench-stadv": _mrb("stadv", 0.05),
    "multirobustbench-recolor": _mrb("recolor", 0.06),
    "multirobustbench-elastic": _mrb("elastic", 0.5),
    "multirobustbench-lpips": _mrb("lpips", 0.5, "pat"),
    "uar-linf": _uar("linf", _LINF),
    "uar-l2": _uar("l2", 320 / 255),
    "uar-elastic": _uar("elastic", 2.0, steps=30),
    "uar-jpeg-linf": _uar("jpeg-linf", 0.25),
    "uar-joint": Preset(
        "Kang et al. 2019 (UAR), joint training against linf and elastic",
        "imagenet100",
        "timm:resnet50",
        "uniform",
        {"linf": Fight(_LINF, 10, _LINF / 10**0.5), "elastic": Fight(4.0, 30, 4 / 30**0.5)},
        Settings(
            **{**_SGD, "augmentation": "resized-crop+flip"},
            epochs=90,
            batch_size=256,
            schedule="step:30,60,80",
            warmup_epochs=5,
            weight_decay=1e-4,
            held_out=0,
        ),
        differs=("The learning rate rises from 0, and not from .0125.",),
    ),
    "ah-ascending": Preset(
        "the adversarial hypervolume paper, algorithm 2",
        "cifar10",
        "resnet18",
        "ascending",
        {"linf": Fight(_LINF, 10, _LINF / 4)},
        Settings(
            **{**_SGD, "learning_rate": 0.2},
            nesterov=True,
            epochs=400,
            batch_size=512,
            schedule="one-cycle",
            weight_decay=5e-4,
            decay_vectors=False,
            ema=0.995,
            selection="best",
            held_out=1024,
        ),
        {"beta": 5.0, "label_smoothing": 0.1},
        (
            "The paper prints neither step, steps, beta, batch nor optimiser: they are those of the training with "
            "generated data that it builds on (Wang et al. 2023).",
            "The learning rate rises over the first fifth, and not over the first fortieth.",
            "Generated images are given by --extra.",
        ),
    ),
    "trades": Preset(
        "Zhang et al. 2019 (TRADES), CIFAR-10",
        "cifar10",
        "wrn-34-10",
        "trades",
        {"linf": Fight(0.031, 10, 0.007)},
        Settings(**_SGD, epochs=76, schedule="step:74", weight_decay=2e-4, held_out=0),
        {"beta": 6.0},
    ),
    "trades-mnist": Preset(
        "Zhang et al. 2019 (TRADES), MNIST",
        "mnist",
        "trades-cnn",
        "trades",
        {"linf": Fight(0.3, 40, 0.01)},
        Settings(optimizer="sgd", learning_rate=0.01, epochs=100, schedule="step:54,74,89", held_out=0),
        {"beta": 1.0},
    ),
    "pat": Preset(
        "Laidlaw et al. 2021 (PAT, self-bounded), CIFAR-10",
        "cifar10",
        "resnet50",
        "pat",
        {"lpips": Fight(0.5, 10, 0.5)},
        Settings(
            **_SGD,
            epochs=100,
            batch_size=50,
            schedule="step:75,90",
            warmup_epochs=5,
            weight_decay=2e-4,
            clip_value=1.0,
            held_out=0,
        ),
    ),
    "bag-of-tricks": Preset(
        "Pang et al. 2021 (Bag of Tricks)",
        "cifar10",
        "wrn-34-10",
        "pgd",
        {"linf": Fight(_LINF, 10, 2 / 255)},
        Settings(**_SGD, epochs=110, schedule="step:100,105", weight_decay=5e-4, held_out=0),
    ),
    "fast": Preset(
        "Wong et al. 2020 (fast is better than free), CIFAR-10",
        "cifar10",
        "preact18",
        "pgd",
        {"linf": Fight(_LINF, 1, 10 / 255)},
        Settings(
            **{**_SGD, "learning_rate": 0.2},
            epochs=15,
            schedule="triangle",
            weight_decay=5e-4,
            crafting="train",
            held_out=0,
        ),
    ),
    "avg": _union("avg", 0.003, "The public code makes an update for each attack in turn (sequential=true)."),
    "max": _union("max", 0.005),
    "msd": _union("msd"),
    "sat": Preset(
        "Madaan et al. 2021 (SAT)",
        "cifar10",
        "wrn-28-10",
        "sat",
        _MADAAN_FIGHTS,
        Settings(**{**vars(_MADAAN), "clip_norm": 0.5}),
        differs=(_L1_LENGTHS, _BALL),
    ),
    "mng-ac": Preset(
        "Madaan et al. 2021 (MNG-AC)",
        "cifar10",
        "wrn-28-10",
        "mng-ac",
        _MADAAN_FIGHTS,
        replace(_MADAAN, crafting="batch"),
        {"weight": 12.0},
        (_L1_LENGTHS, _BALL),
    ),
    "e-at": Preset(
        "Croce and Hein 2022 (E-AT), fine-tuning on CIFAR-10",
        "cifar10",
        "preact18",
        "e-at",
        {"linf": Fight(_LINF, 10, _LINF), "l1": Fight(12.0, 10, 12.0)},
        Settings(**{**_SGD, "learning_rate": 0.01}, epochs=3, schedule="piecewise-ft", weight_decay=5e-4, held_out=0),
        differs=("The weights to begin with are given by --from.", "The paper prints no steps; 10 are taken."),
    ),
    "variation": Preset(
        "Dai et al. 2022 (variation regularisation), linf",
        "cifar10",
        "resnet18",
        "variation",
        {"linf": Fight(_LINF, 10, 2 / 255)},
        Settings(**_SGD, epochs=200, batch_size=256, schedule="piecewise", weight_decay=5e-4, selection="best"),
        {"weight": 0.1},
        (_CHOSEN,),
    ),
    "mart": Preset(
        "Wang et al. 2020 (MART), its public code",
        "cifar10",
        "resnet18",
        "mart",
        {"linf": Fight(0.031, 10, 0.007)},
        Settings(
            **{**_SGD, "learning_rate": 0.01}, epochs=120, schedule="step:74,89,99", weight_decay=3.5e-3, held_out=0
        ),
        {"beta": 5.0},
    ),
    "awp": Preset(
        "Wu et al. 2020 (AWP on adversarial training)",
        "cifar10",
        "preact18",
        "awp",
        {"linf": Fight(_LINF, 10, 2 / 255)},
        Settings(**_SGD, epochs=200, schedule="step:100,150", weight_decay=5e-4, held_out=0),
        {"gamma": 0.01},
    ),
    "robustness-curves": Preset(
        "Croce et al. 2019, adversarial training of the networks of robustness curves, MNIST",
        "mnist",
        "small-cnn",
        "pgd",
        {"linf": Fight(0.1, 40, 0.025)},
        Settings(optimizer="adam", learning_rate=1e-3, epochs=100, schedule="step:90", held_out=0),
        {"attacked": 0.5},
        ("The length of a step is not printed; a quarter of the strength is taken.",),
    ),
}
"""Name to preset."""
