"""Joint training on the worst of several attacks."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from robustatlas.training.recipes.base import Batch, Recipe, select_worst


@dataclass(frozen=True)
class Max(Recipe):
    """For each image the example, of all attacks', with the highest loss (Tramèr and Boneh 2019).

    The losses are compared in the mode of crafting; at equal ones the first attack is taken.
    """

    name: ClassVar[str] = "max"
    source: ClassVar[str] = "Tramèr and Boneh 2019; Maini et al. 2020"
    opponents: ClassVar[str] = "any"
    mixes: ClassVar[bool] = True

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        return select_worst(net, batch, self.examples(net, batch), len(self.against))
