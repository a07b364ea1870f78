"""Training: recipes against any threat models, one trainer, references, calibration, callbacks."""

from robustatlas.models.card import Card, read_card
from robustatlas.models.networks import load_trained, network_for, network_named
from robustatlas.optimizers.crafting import Opponent, adversarial_examples, network_mode
from robustatlas.training.against import make_opponents
from robustatlas.training.calibration import Calibration, calibrate
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.presets import Preset, preset_named
from robustatlas.training.recipes import RECIPES, Recipe, recipe_named
from robustatlas.training.references import ReferencePlan, make_reference
from robustatlas.training.settings import Settings
from robustatlas.training.trainer import Trained, train

__all__ = [
    "RECIPES",
    "Calibration",
    "Card",
    "Opponent",
    "Preset",
    "Recipe",
    "ReferencePlan",
    "Settings",
    "Trained",
    "TrainingDisplay",
    "adversarial_examples",
    "calibrate",
    "load_trained",
    "make_opponents",
    "make_reference",
    "network_for",
    "network_mode",
    "network_named",
    "preset_named",
    "read_card",
    "recipe_named",
    "train",
]
