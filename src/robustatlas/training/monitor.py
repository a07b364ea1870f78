"""Accuracies while a network is trained: quick, and therefore optimistic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from robustatlas.common.noise import Noise
from robustatlas.optimizers.crafting import Opponent, craft, in_mode
from robustatlas.outcomes.outcome import percent
from robustatlas.training.against import ascent, start_of
from robustatlas.training.recipes.base import entropy_of

STEPS = 20
"""Of the projected ascent that robust accuracy is measured by, whatever the recipe crafts with."""
_RATE = 0.125
_PURPOSE = "monitor"


def accuracies(
    net: nn.Module,
    opponents: Sequence[Opponent],
    x: Tensor,
    labels: Tensor,
    index: Tensor,
    seed: int = 0,
    batch_size: int = 256,
) -> dict[str, float]:
    """Percent of images that stay correct: "clean", under each opponent, and "union" under all (with any).

    Args:
        net: in any mode; measured in eval mode.
        opponents: their threat models and strengths; 20 steps of projected gradient ascent (in l1 of Auto-PGD) on the
            cross-entropy, of which no iterate may be misclassified.
        x: ``[N, ...]`` in [0, 1].
        labels: ``[N]``.
        index: ``[N]``, that random starts belong to.
        seed: of these.
        batch_size: images at once.
    """
    columns: dict[str, list[Tensor]] = {name: [] for name in ("clean", *(o.name for o in opponents))}
    with in_mode(net, "eval"):
        for part in torch.split(torch.arange(len(labels), device=labels.device), batch_size):
            images, truth = x[part], labels[part]
            with torch.no_grad():
                columns["clean"].append(net(images).argmax(1) == truth)
            for opponent in opponents:
                search = ascent(opponent.threat, STEPS, _RATE)
                strong = replace(opponent, optimizer=search, start=start_of(search))
                epsilon = torch.full((len(truth),), opponent.epsilon, dtype=images.dtype, device=images.device)
                noise = Noise.of(seed, index[part], f"{_PURPOSE}/{opponent.name}")
                found = craft(net, strong, images, truth, epsilon, noise, entropy_of(truth))
                with torch.no_grad():
                    right = net(found.x).argmax(1) == truth
                columns[opponent.name].append(found.survived & right & columns["clean"][-1])
    standing = {name: torch.cat(parts) for name, parts in columns.items()}
    if opponents:
        standing["union"] = torch.stack(list(standing.values())).all(0)
    return {name: float(percent(int(column.sum()), len(labels))) for name, column in standing.items()}
