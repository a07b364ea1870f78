"""Random numbers that belong to a sample, not to its position in a batch.

The j-th number of a sample is a hash of its key and j (the SplitMix64 finaliser of Steele, Lea and Flood, 2014).
So results do not depend on batch size, order, sharding or resume, and are the same on every device.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_MIX_2 = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB
_SIGN_BIT = 1 << 63


def _shift_right(bits: Tensor, count: int) -> Tensor:
    """Shift int64 to the right and fill with zeros: torch's own shift repeats the sign bit."""
    return (bits >> count).bitwise_and_((1 << (64 - count)) - 1)


def _mix(bits: Tensor) -> Tensor:
    bits = _shift_right(bits, 30).bitwise_xor_(bits).mul_(_MIX_1)
    bits = _shift_right(bits, 27).bitwise_xor_(bits).mul_(_MIX_2)
    return _shift_right(bits, 31).bitwise_xor_(bits)


@dataclass(frozen=True)
class Noise(Bundle):
    """Independent random streams, one per sample.

    ``keys`` is an int64 tensor ``[B]``. Drawing does not change the object: the same call gives the same numbers.
    Use a :meth:`child` for each further purpose.

    Example:
        >>> noise = Noise.for_samples(seed=0, indices=torch.tensor([7, 8]), purpose="linf")
        >>> noise.uniform(3).shape
        torch.Size([2, 3])
        >>> bool((noise.uniform(3)[1] == noise.take(torch.tensor([1])).uniform(3)[0]).all())
        True
    """

    keys: Tensor

    @classmethod
    def for_samples(cls, seed: int, indices: Tensor, purpose: str) -> Noise:
        """Return the streams of samples by their ``indices`` (int64 ``[B]``) for one purpose, e.g. an attack's name."""
        digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
        salt = int.from_bytes(digest, "little", signed=True)
        return cls(_mix(_mix(indices.long() * _GOLDEN) + salt))

    def child(self, number: int | Tensor) -> Noise:
        """Return the ``number``-th derived stream of each sample (an int, or int64 ``[B]``)."""
        offset = (number + 1) * _GOLDEN
        if isinstance(offset, int):
            offset = (offset + _SIGN_BIT) % (2 * _SIGN_BIT) - _SIGN_BIT  # wrap around as int64 tensors do
        return Noise(_mix(self.keys + offset))

    def row(self, position: int) -> Noise:
        """Return the stream of the sample at ``position`` of the batch."""
        return Noise(self.keys[position : position + 1])

    def take(self, index: Tensor) -> Noise:
        """Return the streams of the samples at the positions ``index``."""
        return Noise(self.keys[index])

    def _bits(self, shape: tuple[int, ...]) -> Tensor:
        counter = torch.arange(1, math.prod(shape) + 1, device=self.keys.device)
        return _mix(self.keys[:, None] + counter * _GOLDEN).view(-1, *shape)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return numbers ``[B, *shape]`` uniform on [0, 1)."""
        return _shift_right(self._bits(shape), 40).to(dtype).mul_(2.0**-24)  # exact: 24 bits

    def symmetric(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return numbers ``[B, *shape]`` uniform on [-1, 1)."""
        return self.uniform(*shape, dtype=dtype).mul_(2).sub_(1)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return standard normal numbers ``[B, *shape]``."""
        # The inverse distribution function needs one hash for each number; 2^-25 keeps it from 0, where it is infinite.
        centred = self.uniform(*shape, dtype=torch.float64) + 2.0**-25
        quantile: Tensor = torch.special.ndtri(centred)
        return quantile.to(dtype)

    def exponential(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return exponential numbers ``[B, *shape]`` with mean 1."""
        return -torch.log(self.uniform(*shape, dtype=torch.float64) + 2.0**-25).to(dtype)

    def sign(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return -1 or +1 with equal probability, ``[B, *shape]``."""
        return torch.where(self._bits(shape) < 0, -1.0, 1.0).to(dtype)

    def integers(self, high: int | Tensor, *shape: int) -> Tensor:
        """Return int64 ``[B, *shape]`` uniform in [0, high); ``high`` broadcasts against ``[B, *shape]``."""
        return (self.uniform(*shape, dtype=torch.float64) * high).long()
