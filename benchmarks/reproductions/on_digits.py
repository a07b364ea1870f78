"""Claims tested with three trainings each on 8x8 digits; networks and tables are kept in a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from claims import Claim, joint_training, of_several, over_seeds, said, verdict
from networks import trained
from torch import nn

import robustatlas as ra
from robustatlas.attacks.definition import Effort, grid
from robustatlas.metrics import OutcomeTable, adversarial_hypervolume
from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing, Transformation
from robustatlas.training import Settings, recipe_named

SEEDS = (0, 1, 2)
LINF, L2 = 0.15, 0.8
_BOTH = {"linf": LINF, "l2": L2}
_WARM = {"warmup": 0.3}


@dataclass(frozen=True)
class Scale:
    """How much is done: epochs, steps of crafting, test images, strengths of a curve, levels of a hypervolume, and the
    effort of the attacks."""

    epochs: int = 25
    steps: int = 5
    samples: int = 200
    strengths: int = 8
    levels: int = 10
    effort: Effort = "default"


RECIPES: Mapping[str, tuple[str, Mapping[str, float], Mapping[str, Any]]] = {
    "standard": ("standard", {}, {}),
    "linf": ("pgd", {"linf": LINF}, _WARM),
    "l2": ("pgd", {"l2": L2}, _WARM),
    "avg": ("avg", _BOTH, _WARM),
    "max": ("max", _BOTH, _WARM),
    "msd": ("msd", _BOTH, _WARM),
    "ascending": ("ascending", {"linf": LINF}, {}),
    "fixed": ("ascending", {"linf": LINF}, {"ascending": False}),
}
TRANSFORMATIONS: Mapping[str, Transformation] = {
    "bit depth 2": BitDepthReduction(2),
    "median 2 x 2": MedianSmoothing(2),
    "JPEG 50": JPEGCompression(50),
}


def claims(folder: Path, scale: Scale = Scale(), seeds: Sequence[int] = SEEDS) -> list[Claim]:
    """All of them."""
    on = f"digits, {len(seeds)} seeds, {scale.samples} images"
    return [
        *_union(folder, scale, seeds, on),
        *_carried(folder, scale, seeds, on),
        *_ascending(folder, scale, seeds, on),
        *_transformed(folder, scale, seeds, on),
    ]


def _union(folder: Path, scale: Scale, seeds: Sequence[int], on: str) -> list[Claim]:
    union = {
        name: [100 * float(_curves(folder, scale, name, seed).survivors(_BOTH).mean()) for seed in seeds]
        for name in ("linf", "l2", "avg", "max", "msd")
    }
    means = {name: float(np.mean(values)) for name, values in union.items()}
    return joint_training(
        means, ("linf", "l2"), lambda one, other: over_seeds(np.subtract(union[one], union[other]).tolist()), on
    )


def _carried(folder: Path, scale: Scale, seeds: Sequence[int], on: str) -> list[Claim]:
    lost, texts = [], []
    for norm, foreign in (("linf", "l2"), ("l2", "linf")):
        at = {norm: _BOTH[norm]}
        gaps = [
            100 * float(own.survivors(at).mean() - other.survivors(at).mean())
            for own, other in (
                (_curves(folder, scale, norm, seed), _curves(folder, scale, foreign, seed)) for seed in seeds
            )
        ]
        lost.append(over_seeds(gaps))
        texts.append(f"{norm} by {foreign} {said(lost[-1])}")
    return [
        Claim(
            "Robustness curves",
            "training against one norm does not carry to another",
            on,
            f"lost by training in the other norm, points at the trained strength: {', '.join(texts)}",
            of_several(lost),
        )
    ]


def _ascending(folder: Path, scale: Scale, seeds: Sequence[int], on: str) -> list[Claim]:
    volumes: dict[str, list[float]] = {}
    robust: dict[str, list[float]] = {}
    for name in ("ascending", "fixed"):
        tables = [_margins(folder, scale, name, seed) for seed in seeds]
        volumes[name] = [_volume(table) for table in tables]
        robust[name] = [100 * float(table.survivors({"linf": LINF}).mean()) for table in tables]
    found = []
    for what, values, unit in (("hypervolume", volumes, 100.0), ("robust accuracy", robust, 1.0)):
        gap = over_seeds([unit * (a - b) for a, b in zip(values["ascending"], values["fixed"], strict=True)])
        ours, theirs = (unit * float(np.mean(values[name])) for name in ("ascending", "fixed"))
        found.append(
            Claim(
                "Adversarial hypervolume",
                f"ascending strengths give a higher {what} than a fixed one",
                on,
                f"linf {LINF:g}: ascending {ours:.1f}, fixed {theirs:.1f}, difference {said(gap)}"
                + (" (x 100)" if unit > 1 else " points"),
                verdict(gap),
            )
        )
    return found


def _transformed(folder: Path, scale: Scale, seeds: Sequence[int], on: str) -> list[Claim]:
    bare = [_volume(_margins(folder, scale, "standard", seed)) for seed in seeds]
    found = []
    for how, backward in (("an attack that sees through them", "identity"), ("true gradients", "true")):
        texts, gaps = [], []
        for name in TRANSFORMATIONS:
            behind = [_volume(_margins(folder, scale, "standard", seed, name, backward)) for seed in seeds]
            gaps.append(over_seeds([100 * (b - t) for b, t in zip(bare, behind, strict=True)]))
            texts.append(f"{name} {said(gaps[-1])}")
        found.append(
            Claim(
                "Adversarial hypervolume",
                f"input transformations lower the hypervolume of a standard network, by {how}",
                on,
                f"bare {100 * float(np.mean(bare)):.1f} (x 100); lowered by {', '.join(texts)}",
                of_several(gaps),
            )
        )
    return found


def _volume(table: OutcomeTable) -> float:
    outcome = table.outcome("linf")
    return adversarial_hypervolume(outcome.margins, table.clean_margin, outcome.strengths).mean


def _trained(folder: Path, scale: Scale, name: str, seed: int) -> nn.Module:
    """The network of a recipe and seed."""
    recipe, against, settings = RECIPES[name]
    plan = recipe_named(recipe, against or None, scale.steps if against else None, **settings)
    trainer = Settings(epochs=scale.epochs, learning_rate=1e-2, held_out=0, seed=seed)
    return trained(folder / f"{name}-seed{seed}", "digits-cnn", ra.load_dataset("digits", "train"), plan, trainer)


def _curves(folder: Path, scale: Scale, name: str, seed: int) -> OutcomeTable:
    """Minimal strengths in linf and l2."""
    return ra.evaluate(
        ra.Classifier(_trained(folder, scale, name, seed), name=name),
        ra.load_dataset("digits"),
        ["linf", "l2"],
        strengths={"linf": grid(0.3, scale.strengths), "l2": grid(1.6, scale.strengths)},
        samples=scale.samples,
        effort=scale.effort,
        run=folder / f"{name}-seed{seed}" / "curves",
        progress=False,
    )


def _margins(
    folder: Path, scale: Scale, name: str, seed: int, behind: str | None = None, backward: Any = None
) -> OutcomeTable:
    """Margins at levels of linf, as the suite for the hypervolume has them."""
    net = _trained(folder, scale, name, seed)
    run = folder / f"{name}-seed{seed}" / "margins"
    if behind is not None:
        net = Defended(net, TRANSFORMATIONS[behind], backward=backward)
        run = run.with_name(f"margins {behind} {backward}".replace(" ", "-"))
    return ra.evaluate(
        ra.Classifier(net, name=name),
        ra.load_dataset("digits"),
        "hypervolume",
        exclude=["l2"],
        search="every",
        strengths={"linf": grid(LINF, scale.levels)},
        samples=scale.samples,
        effort=scale.effort,
        run=run,
        progress=False,
    )
