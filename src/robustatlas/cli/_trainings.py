"""One training of the command line: what it is made of, and what is said at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._stopped import stopped_by_hand
from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError
from robustatlas.common.wording import strength

if TYPE_CHECKING:
    from robustatlas.data import Dataset
    from robustatlas.training import Recipe, Settings, Trained


@dataclass(frozen=True)
class TrainingRequest:
    """What ``robustatlas train`` was asked for; None: as the preset has it, or by default."""

    architecture: str
    data: Dataset
    extra: Dataset | None
    preset: str | None
    recipe: str | None
    against: Mapping[str, float] | None
    steps: int | None
    rate: float | None
    features: str | None
    options: Mapping[str, Any]
    given: Mapping[str, Any]
    weights: Path | None
    keep: int | None
    device: str | None
    notes: tuple[str, ...] = ()

    def plan(self, seed: int) -> tuple[Recipe, Settings, list[str]]:
        """Recipe, settings, and what the card is to say of the preset."""
        from robustatlas.training import Settings, recipe_named
        from robustatlas.training.presets import overridden, preset_named

        crafting = (self.against, self.steps, self.rate, self.features)
        if self.preset is None:
            recipe = recipe_named(self.recipe or "standard", *crafting, **self.options)
            return recipe, Settings(**{**self.given, "seed": seed}), [*self.notes]
        preset = preset_named(self.preset)
        if self.recipe is not None:
            raise UserError(f"The preset {self.preset!r} has its own recipe, {preset.kind}; leave --recipe out.")
        recipe = preset.recipe(*crafting, **self.options)
        settings = replace(preset.settings, **{**self.given, "seed": seed})
        changed = overridden(preset, self.architecture, recipe, replace(settings, seed=preset.settings.seed))
        notes = [
            f"Trained by the preset {self.preset} ({preset.source}).",
            *preset.differences(self.features),
            *self.notes,
        ]
        return recipe, settings, [*notes, *([f"Not as in the preset: {'; '.join(changed)}."] if changed else [])]


def carry_out(asked: TrainingRequest, out: Path, seed: int) -> None:
    """Train, and say what came of it."""
    from robustatlas.models.card import WEIGHTS
    from robustatlas.models.weights import load_weights
    from robustatlas.report.training import write_training_page
    from robustatlas.training import network_for, train

    recipe, settings, notes = asked.plan(seed)
    net = network_for(asked.architecture, asked.data, seed)
    if asked.weights is not None:
        load_weights(net, asked.weights / WEIGHTS if asked.weights.is_dir() else asked.weights)
        notes.append(f"It began with the weights in {asked.weights}.")
    with stopped_by_hand(lambda: f"Stopped. The checkpoint is in {out}; the same command goes on from there."):
        trained = train(
            net, asked.data, recipe, settings=settings, out=out, architecture=asked.architecture, device=asked.device,
            progress=True, extra=asked.extra, keep=asked.keep, notes=notes,
        )  # fmt: skip
    _say(trained, out, write_training_page(out))


def _say(trained: Trained, out: Path, page: Path) -> None:
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out accuracy, %")
    table.add_column("", justify="right")
    for name, value in trained.card.accuracies.items():
        at = trained.card.trained_on.get(name)
        table.add_row(name if at is None else f"{name} {strength(at, of=name)}", f"{value:.1f}")
    console.print(table)
    for note in trained.card.notes:
        console.print(safe(note), highlight=False, soft_wrap=True)
    for warning in trained.card.warnings:
        console.print(f"[yellow]Warning:[/yellow] {safe(warning)}", highlight=False, soft_wrap=True)
    console.print(f"Weights and card: {safe(out)}   Figure: {safe(page)}", highlight=False, soft_wrap=True)
