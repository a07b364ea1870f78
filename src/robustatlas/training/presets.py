"""Trainings as papers print them: network, recipe, strengths, steps, optimiser and schedule, by one name. What a paper
does not print, such as a weight decay or an augmentation, is its public code's."""

from dataclasses import replace

from robustatlas.common.errors import unknown_name_error
from robustatlas.training.families import CHOSEN, CURVES, L1_LENGTHS, LINF, MULTIROBUSTBENCH, SGD, UAR
from robustatlas.training.preset import Fight, Preset, describe_differences
from robustatlas.training.settings import Settings

__all__ = ["PRESETS", "Fight", "Preset", "describe_differences", "preset_named"]


def preset_named(name: str) -> Preset:
    """Return the preset of that name.

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
        raise unknown_name_error("preset", name, PRESETS, "'robustatlas train --presets' lists them")
    return PRESETS[name]


_UNION = Settings(**SGD, epochs=50, schedule="tri", weight_decay=5e-4, crafting="train", held_out=0)
_MADAAN = Settings(
    **{**SGD, "learning_rate": 0.21}, epochs=30, schedule="cyclic", weight_decay=5e-4, crafting="train", held_out=0
)
_BALL = "Random starts are uniform in the ball; the public code's have norm 1."
_MADAAN_FIGHTS = {
    "linf": Fight(LINF, 10, 1 / 255),
    "l2": Fight(128 / 255, 10, 30 / 255),
    "l1": Fight(2000 / 255, 20, 1.0),
}


def _union(kind: str, linf: float = 0.003, *differs: str) -> Preset:
    source = "Maini et al. 2020, CIFAR-10; l2 at .3, as their code"
    fights = {
        "linf": Fight(0.03, 40, linf, "neutral"),
        "l2": Fight(0.3, 50, 0.05, "neutral"),
        "l1": Fight(12.0, 50, 1.0, "neutral"),
    }
    return Preset(source, "cifar10", "preact18", kind, fights, _UNION, differs=(L1_LENGTHS, *differs))


PRESETS: dict[str, Preset] = {
    **MULTIROBUSTBENCH,
    **UAR,
    "ah-ascending": Preset(
        "the adversarial hypervolume paper, algorithm 2",
        "cifar10",
        "resnet18",
        "ascending",
        {"linf": Fight(LINF, 10, LINF / 4)},
        Settings(
            **{**SGD, "learning_rate": 0.2},
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
        Settings(**SGD, epochs=76, schedule="step:74", weight_decay=2e-4, held_out=0),
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
            **SGD,
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
        {"linf": Fight(LINF, 10, 2 / 255)},
        Settings(**SGD, epochs=110, schedule="step:100,105", weight_decay=5e-4, held_out=0),
    ),
    "fast": Preset(
        "Wong et al. 2020 (fast is better than free), CIFAR-10",
        "cifar10",
        "preact18",
        "pgd",
        {"linf": Fight(LINF, 1, 10 / 255)},
        Settings(
            **{**SGD, "learning_rate": 0.2},
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
        differs=(L1_LENGTHS, _BALL),
    ),
    "mng-ac": Preset(
        "Madaan et al. 2021 (MNG-AC)",
        "cifar10",
        "wrn-28-10",
        "mng-ac",
        _MADAAN_FIGHTS,
        replace(_MADAAN, crafting="batch"),
        {"weight": 12.0},
        (L1_LENGTHS, _BALL),
    ),
    "e-at": Preset(
        "Croce and Hein 2022 (E-AT), fine-tuning on CIFAR-10",
        "cifar10",
        "preact18",
        "e-at",
        {"linf": Fight(LINF, 10, LINF), "l1": Fight(12.0, 10, 12.0)},
        Settings(**{**SGD, "learning_rate": 0.01}, epochs=3, schedule="piecewise-ft", weight_decay=5e-4, held_out=0),
        differs=("The weights to begin with are given by --from.", "The paper prints no steps; 10 are taken."),
    ),
    "variation": Preset(
        "Dai et al. 2022 (variation regularisation), linf",
        "cifar10",
        "resnet18",
        "variation",
        {"linf": Fight(LINF, 10, 2 / 255)},
        Settings(**SGD, epochs=200, batch_size=256, schedule="piecewise", weight_decay=5e-4, selection="best"),
        {"weight": 0.1},
        (CHOSEN,),
    ),
    "mart": Preset(
        "Wang et al. 2020 (MART), its public code",
        "cifar10",
        "resnet18",
        "mart",
        {"linf": Fight(0.031, 10, 0.007)},
        Settings(
            **{**SGD, "learning_rate": 0.01}, epochs=120, schedule="step:74,89,99", weight_decay=3.5e-3, held_out=0
        ),
        {"beta": 5.0},
    ),
    "awp": Preset(
        "Wu et al. 2020 (AWP on adversarial training)",
        "cifar10",
        "preact18",
        "awp",
        {"linf": Fight(LINF, 10, 2 / 255)},
        Settings(**SGD, epochs=200, schedule="step:100,150", weight_decay=5e-4, held_out=0),
        {"gamma": 0.01},
    ),
    **CURVES,
}
"""Name to preset."""
