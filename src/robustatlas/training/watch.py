"""Accuracies while a network is trained, quick and therefore optimistic, and what goes wrong in their history."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.common.typed_strengths import format_strength
from robustatlas.metrics.references.building import learned_nothing
from robustatlas.optimizers.crafting import Opponent, craft, network_mode
from robustatlas.outcomes.outcome import percent
from robustatlas.training.against import default_ascent, default_start
from robustatlas.training.recipes.base import Recipe, cross_entropy_objective

_STUCK = 0.97
"""A loss above this share of ln(classes) is that of guessing."""
_PATIENCE = 0.3
_COLLAPSE = 20.0
_GAP = 40.0


def check_loss(loss: float, epoch: int, learning_rate: float) -> None:
    """Raise :class:`UserError` where the loss is not a number any more."""
    if not math.isfinite(loss):
        raise UserError(
            f"The loss became {loss} in epoch {epoch + 1} at the learning rate {learning_rate:.3g}; lower the learning "
            "rate, or limit gradients by clip_norm=1. The checkpoint before it is kept."
        )


def concerns(history: Sequence[Mapping[str, Any]], recipe: Recipe, classes: int, epochs: int) -> list[str]:
    """Return a sentence for each thing that looks wrong after the epochs of ``history``.

    - Strengths too large to learn: after three tenths of the epochs (three at least) the cross-entropy is still that of
      guessing, or as many images are classified correctly as by one constant answer.
    - Catastrophic overfitting of one-step training (Wong et al. 2020): accuracy under an attack of many steps collapses
      while that under the training's own stays.
    """
    found = []
    last = history[-1]
    against = ",".join(f"{o.name}={format_strength(o.epsilon, attack=o.name)}" for o in recipe.against)
    lost = learned_nothing(last["training_accuracy"], classes)
    late = len(history) >= max(3, math.ceil(_PATIENCE * epochs))
    ramped = recipe.warmup == 0 or len(history) > recipe.warmup * epochs
    if recipe.against and late and ramped and (last["loss"] > _STUCK * math.log(classes) and lost):
        found.append(
            f"The network has learned nothing after {len(history)} epochs (loss {last['loss']:.2f}, guessing has "
            f"{math.log(classes):.2f}): {against} may be too strong to begin with. Let strengths rise over the first "
            "half (warmup=0.5), or take smaller ones."
        )
    one_step = [o for o in recipe.against if o.optimizer.steps == 1]
    robust = [record["robust"] for record in history if record.get("robust") is not None]
    if one_step and robust:
        now, best = robust[-1], max(robust)
        if best - now > _COLLAPSE or (last["training_accuracy"] - now > _GAP and len(history) > 1):
            found.append(
                f"Catastrophic overfitting: {last['training_accuracy']:.0f} % of the one-step examples are classified "
                f"correctly, but {now:.0f} % of those of many steps (best before: {best:.0f} %). Take more steps "
                "(steps=10), or selection='best'."
            )
    return found


STEPS = 20
"""Steps of the projected ascent that measures robust accuracy, for every recipe."""
_RATE = 0.125
_PURPOSE = "monitor"
_AT_ONCE = 256


def accuracies(
    net: nn.Module,
    opponents: Sequence[Opponent],
    x: Tensor,
    labels: Tensor,
    index: Tensor,
    seed: int = 0,
) -> dict[str, float]:
    """Return the percentage of images ``x`` [N, ...] that stay correct: "clean", under each opponent, and "union"
    under all (with any).

    ``net`` is measured in eval mode. An opponent takes 20 steps of projected gradient ascent (in l1 of Auto-PGD) on the
    cross-entropy, of which no iterate may be misclassified. Random starts belong to ``index`` [N] and ``seed``.
    """
    columns: dict[str, list[Tensor]] = {name: [] for name in ("clean", *(o.name for o in opponents))}
    with network_mode(net, "eval"):
        for part in torch.split(torch.arange(len(labels), device=labels.device), _AT_ONCE):
            images, truth = x[part], labels[part]
            with torch.no_grad():
                columns["clean"].append(net(images).argmax(1) == truth)
            for opponent in opponents:
                search = default_ascent(opponent.threat, STEPS, _RATE)
                strong = replace(opponent, optimizer=search, start=default_start(search))
                epsilon = torch.full((len(truth),), opponent.epsilon, dtype=images.dtype, device=images.device)
                noise = Noise.for_samples(seed, index[part], f"{_PURPOSE}/{opponent.name}")
                found = craft(net, strong, images, truth, epsilon, noise, cross_entropy_objective(truth))
                with torch.no_grad():
                    right = net(found.x).argmax(1) == truth
                columns[opponent.name].append(found.survived & right & columns["clean"][-1])
    standing = {name: torch.cat(parts) for name, parts in columns.items()}
    if opponents:
        standing["union"] = torch.stack(list(standing.values())).all(0)
    return {name: float(percent(int(column.sum()), len(labels))) for name, column in standing.items()}
