"""Adversarial training of the hypervolume paper: strengths that rise over the epochs, and a margin attack."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.models.objectives import probability_margin
from robustatlas.optimizers.crafting import Opponent, craft, network_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, divergence


@dataclass(frozen=True)
class Ascending(Recipe):
    """TRADES on the images and on their margin-attacked copies, at the strength t epsilon / T in epoch t of T.

    The copies x~ have the lowest margin of probabilities p_y - max p_j that projected ascent finds. ``points``:

    - "union" (the paper's listing): the TRADES loss over the batch [x; x~], with an inner attack of the same radius
      around each point. Around x~ it may reach twice the radius from x, unless ``anchored``;
    - "adversarial": the same over x~ alone; "replace": TRADES on x with x~ in place of its inner attack.

    ``ascending=False`` keeps the strength at epsilon. Examples are crafted just before their update.
    """

    name: ClassVar[str] = "ascending"
    source: ClassVar[str] = "the adversarial hypervolume paper, algorithm 2"

    beta: float = 5.0
    points: Literal["union", "adversarial", "replace"] = "union"
    anchored: bool = False
    ascending: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.points not in ("union", "adversarial", "replace"):
            raise UserError(f"points={self.points!r} is not known; expected union, adversarial or replace.")
        if not self.beta > 0:
            raise UserError(f"beta={self.beta}; expected a positive weight of the divergence, such as 5.")

    def strength(self, opponent: Opponent, batch: Batch) -> Tensor:
        """Return t epsilon / T, from epsilon / T in the first epoch to epsilon in the last."""
        share = (batch.epoch + 1) / batch.epochs if self.ascending else 1.0
        return share * super().strength(opponent, batch)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        labels = batch.labels
        with network_mode(net, batch.mode):
            low = self.craft(net, batch, value=lambda logits: probability_margin(logits, labels, None)).x
            if self.points == "replace":
                x, inner = batch.x, low
            else:
                union = self.points == "union"
                x, labels = (torch.cat([batch.x, low]), labels.repeat(2)) if union else (low, labels)
                inner = self._inner(net, batch, x, labels)
        clean, attacked = net(x), net(inner)
        loss = self.cross_entropy(clean, labels) + self.beta * divergence(clean, attacked).mean()
        return Update(loss, accuracy(attacked, labels))

    def _inner(self, net: nn.Module, batch: Batch, x: Tensor, labels: Tensor) -> Tensor:
        """Return the points of highest divergence around each of ``x``."""
        copies = len(x) // len(batch.x)
        keys = torch.cat([batch.noise.child(1 + k).keys for k in range(copies)])
        epsilon = self.strength(self.against[0], batch).repeat(copies)
        with torch.no_grad():
            natural = net(x)
        noise = replace(batch.noise, keys=keys)
        found = craft(
            net,
            self.against[0],
            x,
            labels,
            epsilon,
            noise,
            lambda logits: divergence(natural, logits),
            start="near",
        ).x
        if not self.anchored:
            return found
        threat, centre = self.against[0].threat, batch.x.repeat(copies, *(1,) * (batch.x.dim() - 1))
        return threat.apply(centre, threat.project(centre, found - centre, epsilon)).detach()
