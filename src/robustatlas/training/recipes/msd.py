"""Joint training by multi steepest descent."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import craft_steepest
from robustatlas.optimizers.frank_wolfe import VertexAscent
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L1
from robustatlas.training.against import default_ascent
from robustatlas.training.recipes.base import Batch, Recipe, cross_entropy_objective, require_balls


@dataclass(frozen=True)
class Msd(Recipe):
    """One attack on the union of lp balls, each of whose steps is the best of all norms' (Maini et al. 2020).

    In l1 a step moves coordinates that the box leaves room to move, as far as it does.
    """

    name: ClassVar[str] = "msd"
    source: ClassVar[str] = "Maini et al. 2020 (MSD)"
    opponents: ClassVar[str] = "several"
    mixes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        """Return steps without memory, since all norms share one point."""
        return VertexAscent(steps, rate) if isinstance(threat, L1) else default_ascent(threat, steps, rate)

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        strengths = [self.strength(opponent, batch) for opponent in self.against]
        value = cross_entropy_objective(batch.targets)
        return craft_steepest(net, self.against, batch.x, batch.labels, strengths, batch.noise, value), None
