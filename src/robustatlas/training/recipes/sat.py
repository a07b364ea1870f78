"""Joint training with one attack drawn at random."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.training.recipes.base import Batch, Recipe


@dataclass(frozen=True)
class Sat(Recipe):
    """Stochastic adversarial training (Madaan et al. 2021): one attack, each with the same probability.

    It is drawn for each "batch", as the public code does, or with ``per="sample"`` for each image, as papers say.
    """

    name: ClassVar[str] = "sat"
    source: ClassVar[str] = "Madaan et al. 2021 (SAT)"
    opponents: ClassVar[str] = "several"
    mixes: ClassVar[bool] = True

    per: Literal["batch", "sample"] = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per not in ("batch", "sample"):
            raise UserError(f"per={self.per!r} is not known; expected batch or sample.")

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        count = len(self.against)
        if self.per == "batch":
            return self.craft(net, batch, int(batch.shared.integers(count))).x, None
        return self._mixed(net, batch, batch.noise.child(count).integers(count)), None

    def _mixed(self, net: nn.Module, batch: Batch, drawn: Tensor) -> Tensor:
        x = batch.x
        for k in range(len(self.against)):
            rows = (drawn == k).nonzero().squeeze(1)
            if len(rows):
                group = batch.take(rows)
                x = x.index_copy(0, rows, self.craft(net, group, k).x)
        return torch.as_tensor(x)
