"""Hashes of what a run is about."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor


def digest(value: Any) -> str:
    """Twelve hexadecimal digits of what JSON says of ``value``."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def sha256_of_array(array: NDArray[Any]) -> str:
    """Hash of an array's type, shape and content.

    Args:
        array: of any type and shape.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> sha256_of_array(np.zeros(2)) == sha256_of_array(np.zeros((1, 2)))
        False
    """
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def sha256_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Hash of named tensors (a ``state_dict``), whatever their order, device and layout (sparse ones too).

    Args:
        tensors: name -> tensor.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> import torch
        >>> one, two = torch.zeros(2), torch.ones(2)
        >>> sha256_of_tensors({"a": one, "b": two}) == sha256_of_tensors({"b": two, "a": one})
        True
    """
    import torch  # here, so that reading outcomes needs no torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
        tensor = tensor.clone(memory_format=torch.contiguous_format)  # NumPy would hold the memory of the network's own
        digest.update(f"{name}:{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
