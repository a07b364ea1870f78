"""What a run records of the gradients that an attack was given."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

Numbers = tuple[tuple[float, ...], ...]


class GradientRecord(BaseModel):
    """How gradients were taken, as a few samples of the data show it.

    Attributes:
        at: positions of these samples in the data set.
        ways: way back through input transformations (``"own"``: as the model does by itself) -> for each of the
            samples the binary logarithm of the length of its gradient of the margin, and random projections of its
            direction; empty where that is zero. Without ways: the attack takes no gradient.
        within: how far numbers of the same gradient may differ, from device to device.
        kinks: of each ReLU of the network, in the order of a pass, the standard deviation of its input at these
            samples, by which it was smoothed; empty where the attack does not smooth them.
        without: the share of some samples, classified correctly, at which no way gives a gradient.

    Example:
        >>> known = GradientRecord(at=(0,), ways={"own": ((1.0, 0.25),)}, within=0.05)
        >>> known.same(known.model_copy(update={"ways": {"own": ((1.0, 0.26),)}}))
        True
        >>> known.same(known.model_copy(update={"ways": {"own": ((),)}}))
        False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: tuple[int, ...] = ()
    ways: dict[str, Numbers] = {}
    within: float = 0.0
    kinks: tuple[float, ...] = ()
    without: float = 0.0

    def same(self, other: GradientRecord) -> bool:
        """Whether both are of the same gradient."""
        return (
            self.at == other.at
            and self.ways.keys() == other.ways.keys()
            and all(self._alike(numbers, other.ways[way]) for way, numbers in self.ways.items())
        )

    def _alike(self, mine: Numbers, given: Numbers) -> bool:
        return len(mine) == len(given) and all(map(self._near, mine, given))

    def _near(self, mine: Sequence[float], given: Sequence[float]) -> bool:
        return len(mine) == len(given) and all(
            abs(one - other) <= self.within for one, other in zip(mine, given, strict=True)
        )
