"""What a gradient claims of steps, beside what the steps change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import flatten

_LEAST = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Differences:
    """K pairs of points around each of B samples. ``changes``: [K, B] by how much the margin differs between the two.
    ``claims``: [W, K, B] what the gradient says of that, by each of W ways back."""

    changes: Tensor
    claims: Tensor

    @classmethod
    def between(
        cls, pairs: Iterable[tuple[Tensor, Tensor]], lead: Callable[[Tensor], Tensor], slopes: Sequence[Tensor]
    ) -> Differences:
        """Of ``pairs`` of points [B, ...]: the differences of their ``lead`` [B], and what ``slopes`` say."""
        changes, claims = [], []
        for ahead, behind in pairs:
            with torch.no_grad():
                changes.append((lead(ahead) - lead(behind)).double())
            step = flatten(ahead - behind).double()
            claims.append(torch.stack([(step * flatten(slope).double()).sum(1) for slope in slopes]))
        return cls(torch.stack(changes), torch.stack(claims, 1))

    @property
    def agreement(self) -> Tensor:
        """[B] the cosine of changes and claims by the best of the ways; 0 where either is nothing or no number."""
        return torch.stack([cosine_of(self.changes, claims) for claims in self.claims]).amax(0)

    @property
    def size(self) -> Tensor:
        """[B] of the changes: the root of their mean square."""
        return self.changes.square().mean(0).sqrt()

    @property
    def claimed(self) -> Tensor:
        """[B] of the claims, by the way that claims most."""
        return self.claims.square().mean(1).sqrt().nan_to_num(0.0, posinf=0.0).amax(0)


def cosine_of(changes: Tensor, claims: Tensor) -> Tensor:
    """[B]: the cosine of two lists of numbers [K, B], about zero, not about their means; 0 where either is nothing.

    >>> cosine_of(torch.tensor([[1.0], [2.0]]), torch.tensor([[2.0], [4.0]]))
    tensor([1.], dtype=torch.float64)
    """
    one, other = (values.double() for values in (changes, claims))
    one, other = (values / values.abs().amax(0).clamp_min(_LEAST) for values in (one, other))
    lengths = (one.square().sum(0) * other.square().sum(0)).sqrt()
    return ((one * other).sum(0) / lengths.clamp_min(_LEAST)).nan_to_num(0.0)
