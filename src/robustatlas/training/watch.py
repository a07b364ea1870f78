"""What goes wrong in adversarial training, noticed in its history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.wording import strength
from robustatlas.metrics.references.building import learned_nothing
from robustatlas.training.recipes.base import Recipe

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
    """One sentence for each thing that looks wrong after the epochs of ``history``, which is worth saying once.

    - Strengths too large to learn: after three tenths of the epochs (three at least) the cross-entropy is still that of
      guessing, or as many images are classified correctly as by one constant answer.
    - Catastrophic overfitting of one-step training (Wong et al. 2020): accuracy under an attack of many steps collapses
      while that under the training's own stays.
    """
    found = []
    last = history[-1]
    against = ",".join(f"{o.name}={strength(o.epsilon, of=o.name)}" for o in recipe.against)
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
