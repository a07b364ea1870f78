"""Changes of a function under steps, beside the changes that its gradient claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import flat

_LEAST = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Differences:
    """Differences of a function between K pairs of points around each of B samples.

    Attributes:
        changes: [K, B] difference of the function between the two points.
        claims: [W, K, B] the same difference by the gradient, for each of W backward rules.
    """

    changes: Tensor
    claims: Tensor

    @classmethod
    def from_pairs(
        cls, pairs: Iterable[tuple[Tensor, Tensor]], function: Callable[[Tensor], Tensor], slopes: Sequence[Tensor]
    ) -> Differences:
        """Return the differences of ``function`` [B] between pairs of points [B, ...], and the claims of ``slopes``."""
        changes, claims = [], []
        for one, other in pairs:
            with torch.no_grad():
                changes.append((function(one) - function(other)).double())
            step = flat(one - other).double()
            claims.append(torch.stack([(step * flat(slope).double()).sum(1) for slope in slopes]))
        return cls(torch.stack(changes), torch.stack(claims, 1))

    @property
    def agreement(self) -> Tensor:
        """[B] cosine of changes and claims by the best of the rules; 0 where either is zero or not finite."""
        return torch.stack([cosine_of(self.changes, claims) for claims in self.claims]).amax(0)

    @property
    def size(self) -> Tensor:
        """[B] root mean square of the changes."""
        return self.changes.square().mean(0).sqrt()

    @property
    def claimed_size(self) -> Tensor:
        """[B] root mean square of the claims, by the rule that claims most."""
        return self.claims.square().mean(1).sqrt().nan_to_num(0.0, posinf=0.0).amax(0)


def cosine_of(changes: Tensor, claims: Tensor) -> Tensor:
    """Return the cosine [B] of changes and claims [K, B], about zero and not about their means; 0 where either is zero.

    >>> cosine_of(torch.tensor([[1.0], [2.0]]), torch.tensor([[2.0], [4.0]]))
    tensor([1.], dtype=torch.float64)
    """
    one, other = (values.double() for values in (changes, claims))
    one, other = (values / values.abs().amax(0).clamp_min(_LEAST) for values in (one, other))
    lengths = (one.square().sum(0) * other.square().sum(0)).sqrt()
    return ((one * other).sum(0) / lengths.clamp_min(_LEAST)).nan_to_num(0.0)
