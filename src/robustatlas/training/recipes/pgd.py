"""Adversarial training against one attack at one strength."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.training.recipes.base import Batch, Recipe, mix_clean


@dataclass(frozen=True)
class Pgd(Recipe):
    """Mean cross-entropy at the examples of projected gradient ascent on it (Madry et al. 2018).

    ``attacked`` is the share of each batch that is attacked, its first images; the rest stays clean (Croce and Hein
    2020 trained with one half).
    """

    name: ClassVar[str] = "pgd"
    source: ClassVar[str] = "Madry et al. 2018; as in MultiRobustBench (Dai et al. 2023)"
    mixes: ClassVar[bool] = True
    l2_start: ClassVar[str] = "radial"

    attacked: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.attacked <= 1:
            raise UserError(f"attacked={self.attacked}; expected the share of a batch that is attacked, in (0, 1].")

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        x = self.craft(net, batch).x
        return mix_clean(x, batch.x, self.attacked) if self.attacked < 1 else x, None
