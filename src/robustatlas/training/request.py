"""Request of one training by names: architecture, preset or recipe, opponents, settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.wording import suggestion
from robustatlas.data import Dataset
from robustatlas.models.card import WEIGHTS
from robustatlas.models.classifier import Classifier
from robustatlas.models.networks import network_for
from robustatlas.models.weights import copy_weights, load_weights
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.presets import describe_differences, preset_named
from robustatlas.training.recipes import Recipe, recipe_named
from robustatlas.training.settings import Settings
from robustatlas.training.trainer import Trained, train


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """A training by names; None: as the preset has it, or by default. ``preset`` or ``recipe``: one of the two;
    neither: the recipe standard. ``against``: attack -> strength. ``given``: settings of the trainer. ``weights``: to
    begin with, a file, the folder of another training, or a model. ``keep``: weights are kept after every so many
    epochs. The others are as of :func:`robustatlas.training.network_named` and
    :func:`robustatlas.training.recipe_named`.

    >>> asked = TrainingRequest(architecture="digits-cnn", preset="trades", given={"epochs": 2})
    >>> asked.plan(seed=1)[1].epochs
    2
    """

    architecture: str
    preset: str | None = None
    recipe: str | None = None
    against: Mapping[str, float] | None = None
    steps: int | None = None
    rate: float | None = None
    features: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    weights: Path | Classifier | None = None
    keep: int | None = None
    device: str | None = None
    notes: tuple[str, ...] = ()

    def plan(self, seed: int) -> tuple[Recipe, Settings, list[str]]:
        """Return recipe, settings, and notes about the preset for the card."""
        recipe, settings = self._planned(seed)
        if self.preset is None:
            return recipe, settings, [*self.notes]
        preset, changed = preset_named(self.preset), self.overrides()
        notes = [
            f"Trained by the preset {self.preset} ({preset.source}).",
            *preset.differences(self.features),
            *self.notes,
        ]
        return recipe, settings, [*notes, *([f"Not as in the preset: {'; '.join(changed)}."] if changed else [])]

    def overrides(self) -> list[str]:
        """Return a phrase for each thing that is not as in the preset; none without one."""
        if self.preset is None:
            return []
        preset = preset_named(self.preset)
        recipe, settings = self._planned(preset.settings.seed)
        return describe_differences(preset, self.architecture, recipe, settings)

    def _planned(self, seed: int) -> tuple[Recipe, Settings]:
        crafting = (self.against, self.steps, self.rate, self.features)
        if self.preset is None:
            recipe = recipe_named(self.recipe or "standard", *crafting, **self.options)
            return recipe, Settings(**{**self.given, "seed": seed})
        preset = preset_named(self.preset)
        if self.recipe is not None:
            raise UserError(f"The preset {self.preset!r} has its own recipe, {preset.kind}; leave --recipe out.")
        return preset.recipe(*crafting, **self.options), replace(preset.settings, **{**self.given, "seed": seed})

    def train(
        self,
        data: Dataset,
        out: Path,
        seed: int,
        extra: Dataset | None = None,
        progress: bool | TrainingDisplay | None = None,
    ) -> Trained:
        """Train on ``data`` (and ``extra`` images) into the folder ``out``, going on with what it holds."""
        recipe, settings, notes = self.plan(seed)
        net = network_for(self.architecture, data, seed)
        if isinstance(self.weights, Path):
            load_weights(net, self.weights / WEIGHTS if self.weights.is_dir() else self.weights)
            notes.append(f"It began with the weights in {self.weights}.")
        elif self.weights is not None:
            copy_weights(net, self.weights)
            notes.append(f"It began with the weights of {self.weights.name}.")
        return train(
            net, data, recipe, settings=settings, out=out, architecture=self.architecture, device=self.device,
            progress=progress, extra=extra, keep=self.keep, notes=notes,
        )  # fmt: skip


def check_settings(given: Mapping[str, Any], where: str = "") -> None:
    """Raise :class:`UserError` where the trainer has no setting of a ``given`` name; ``where`` these were given."""
    known = [each.name for each in fields(Settings)]
    for name in given:
        if name not in known:
            there = suggestion(name, known, f"known are {', '.join(known)}")
            raise UserError(f"{where}{name!r} is not a setting of the trainer{there}")
