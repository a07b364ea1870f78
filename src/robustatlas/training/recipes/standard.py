"""Training on clean images."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from robustatlas.training.recipes.base import Batch, Recipe


@dataclass(frozen=True)
class Standard(Recipe):
    """Mean cross-entropy on the images as they are."""

    name: ClassVar[str] = "standard"
    opponents: ClassVar[str] = "none"
    mixes: ClassVar[bool] = True

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        return batch.x, None
