"""Results of attacks on the samples, for the indicators of a full diagnosis."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

OWN, SEED = "default", "another seed"
"""Names of the search that is diagnosed, and of the same search with another seed."""


@dataclass(frozen=True)
class PlantedTest:
    """Binarisation test of B samples under one attack.

    Attributes:
        found: [B] True if the attack found the planted example.
        by_chance: [B] True if random points of the set found it.
        set_up: [B] True if the readout tells the planted example from the points inside.
        convex: True if the set is an lp ball. In other sets, such as warps, a search for a planted example also ends in
            valleys of the set itself, with sound networks too.
    """

    found: Tensor
    by_chance: Tensor
    set_up: Tensor
    convex: bool

    @property
    def informative(self) -> bool:
        """True if chance finds few of the planted examples: at most the share that an attack may miss."""
        return bool(self.set_up.any()) and float(self.by_chance[self.set_up].double().mean()) <= MISSED


MISSED = 0.05
"""Share of the planted examples that an attack may miss (Zimmermann et al. 2022 ask for 95 %)."""


@dataclass(frozen=True)
class SearchResults:
    """Sizes of the smallest examples of B samples that kinds of attack found, infinite where they found none.

    Attributes:
        epsilon: strength of L-inf, at which paths of single attacks are looked at.
        strengths: [S] of the attack, as asked for.
        sizes: kind -> [B]; :data:`OWN` and :data:`SEED` among them.
        black_box: kinds that use no gradient.
        transferred: [B] 1 where an example against a distilled network does not transfer, 0 where it does, -1: none.
        nearest: [B] L-inf distance to the nearest data point that the model puts into another class.
        binarised: attack -> its binarisation test.
    """

    epsilon: float
    strengths: Tensor
    sizes: Mapping[str, Tensor]
    black_box: frozenset[str]
    transferred: Tensor
    nearest: Tensor
    binarised: Mapping[str, PlantedTest] = field(default_factory=dict)

    @property
    def strength(self) -> float:
        """Middle one of the strengths that were asked for, at which kinds are compared."""
        return float(self.strengths[len(self.strengths) // 2])

    @property
    def largest(self) -> float:
        """Largest strength that was asked for."""
        return float(self.strengths[-1])

    def white_box(self) -> Tensor:
        """Return the smallest size [B] by any kind that uses gradients."""
        return torch.stack([found for kind, found in self.sizes.items() if kind not in self.black_box]).amin(0)
