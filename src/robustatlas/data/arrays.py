"""Conversion of users' images and labels to arrays and tensors: views, foreign byte orders and lists included."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError, shorten

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that torch stores, but cannot compute with."""


def to_array(values: Any) -> NDArray[Any]:
    """Return ``values`` as a NumPy array; bfloat16 becomes float32."""
    if isinstance(values, Tensor):
        return _to_dense(values).cpu().numpy()
    try:
        array = np.asanyarray(values)
    except ValueError as error:
        raise _array_error(values) from error
    if np.ma.is_masked(array):
        raise UserError(
            f"data holds {shorten(repr(values))} with masked entries, which have no value; fill them first."
        )
    return np.asarray(array)


def to_tensor(values: Any) -> Tensor:
    """Return ``values`` as a tensor; it shares the memory of a NumPy array if torch can use it.

    >>> to_tensor(np.arange(3, dtype=">i8")[::-1])
    tensor([2, 1, 0])
    """
    if isinstance(values, Tensor):
        return _to_dense(values)
    array = to_array(values)
    if array.dtype.kind not in "biufc":
        raise _array_error(values)
    kind = np.dtype(np.float64) if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")  # the tensor is only read
        tensor = torch.from_numpy(np.require(array, kind, "C"))
    return tensor.long() if tensor.dtype in _UNSIGNED else tensor


def _to_dense(values: Tensor) -> Tensor:
    if values.is_meta:
        raise UserError("data holds a tensor on the device 'meta', which has no content; give one on 'cpu'.")
    dense = values.detach().to_dense() if values.layout != torch.strided else values.detach()
    if dense.dtype in _UNSIGNED:
        return dense.long()
    return dense.float() if dense.dtype == torch.bfloat16 else dense


def _array_error(values: Any) -> UserError:
    return UserError(f"data holds {shorten(repr(values))}, which is not an array of numbers; give images and labels.")
