"""TRADES: clean accuracy, and predictions that stay the same within the set."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.optimizers.crafting import Start, network_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, divergence


@dataclass(frozen=True)
class Trades(Recipe):
    """CE(f(x), y) + beta KL(f(x) || f(x')), where x' maximises that divergence (Zhang et al. 2019, eq. 5).

    Crafting begins next to x (noise of deviation .001) unless ``start`` is "random", as those who train with generated
    data do (Rebuffi et al. 2021). Gradients of the divergence reach both predictions, which one clean pass gives both
    terms; the public code makes that pass twice, which running statistics and dropout see.
    """

    name: ClassVar[str] = "trades"
    source: ClassVar[str] = "Zhang et al. 2019 (TRADES)"
    mixes: ClassVar[bool] = True

    beta: float = 6.0
    start: Start = "near"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta > 0:
            raise UserError(f"beta={self.beta}; expected a positive weight of the divergence, such as 6.")

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        with network_mode(net, batch.mode):
            x = self.craft_apart(net, batch, self.start)
        clean, attacked = net(batch.x), net(x)
        loss = self.cross_entropy(clean, batch.targets) + self.beta * divergence(clean, attacked).mean()
        return Update(loss, accuracy(attacked, batch.labels))
