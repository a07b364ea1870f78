"""Dataclasses of tensors that share their leading dimension B, so that samples can be dropped from and added to all
of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

B = TypeVar("B", bound="Bundle")


@dataclass(frozen=True)
class Bundle:
    """Base of such dataclasses; fields that are neither tensors nor bundles (settings) belong to all samples alike."""


def _map(function: Callable[..., Tensor], first: B, *others: B) -> B:
    changes: dict[str, Any] = {}
    for field in fields(first):
        value = getattr(first, field.name)
        rest = [getattr(other, field.name) for other in others]
        if isinstance(value, Tensor):
            changes[field.name] = function(value, *rest)
        elif isinstance(value, Bundle):
            changes[field.name] = _map(function, value, *rest)
    return replace(first, **changes)


def take(bundle: B, index: Tensor) -> B:
    """The rows ``index`` (int64) of every tensor of a bundle."""
    return _map(lambda tensor: tensor.index_select(0, index), bundle)


def join(first: B, second: B) -> B:
    """The rows of two bundles, one after the other."""
    return _map(lambda a, b: torch.cat([a, b]), first, second)
