"""Trees of tensors ``[B, ...]`` that share their leading dimension, so that samples are dropped and added in one call.

A tree is a tensor, or any nesting of tuples, lists, dicts and :class:`Bundle` s of tensors. A leaf that is not a tensor
is a setting that holds for all samples.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, TypeAlias, TypeVar, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.common.host import is_sync_free

Tree: TypeAlias = Any
T = TypeVar("T")


@dataclass(frozen=True)
class Bundle:
    """Base of frozen dataclasses that are trees: their fields are the children."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        pytree.register_pytree_node(
            cls,
            lambda bundle: ([getattr(bundle, field.name) for field in fields(bundle)], None),
            lambda children, _: cls(*children),
        )


@dataclass(frozen=True)
class Fixed(Bundle):
    """Numbers ``[B, ...]`` of a theta that are drawn or set, never optimised.

    They get no gradient, and arithmetic (:func:`map_tensors`, :func:`dot`) skips them.
    """

    values: Tensor


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """Return ``values`` [B] in a shape that broadcasts against ``like`` [B, ...]."""
    return values.view(-1, *(1,) * (like.dim() - 1))


def flatten(tensor: Tensor) -> Tensor:
    """Return a tensor ``[B, ...]`` as ``[B, D]``; a tensor ``[B]`` becomes ``[B, 1]``, and B may be 0."""
    return tensor.reshape(tensor.shape[0], math.prod(tensor.shape[1:]))


def _map_all(function: Callable[..., Any], first: T, *others: T) -> T:
    """Apply ``function`` to the corresponding tensors of trees of one structure, :class:`Fixed` ones included."""
    return cast(T, _map_tree(function, None, first, *others))


def _map_tree(function: Callable[..., Any], kept: type[Bundle] | None, first: Any, *others: Any) -> Any:
    """Apply ``function`` to the corresponding tensors and return a tree with the structure of ``first``.

    Bundles of the type ``kept`` are returned unchanged.
    """
    # Not torch's pytree.tree_map: its overhead is noticeable in every step of an attack on a small network.
    if isinstance(first, Tensor):
        return function(first, *others)
    if isinstance(first, Bundle):
        if kept is not None and isinstance(first, kept):
            return first
        names = first.__dataclass_fields__
        return type(first)(
            *(_map_tree(function, kept, getattr(first, name), *[getattr(o, name) for o in others]) for name in names)
        )
    if isinstance(first, (tuple, list)):
        parts = [_map_tree(function, kept, *each) for each in zip(first, *others, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if isinstance(first, dict):
        return {name: _map_tree(function, kept, part, *[o[name] for o in others]) for name, part in first.items()}
    return first


def take_rows(tree: T, index: Tensor) -> T:
    """Return the rows ``index`` (int64) of every tensor."""
    return _map_all(lambda tensor: tensor.index_select(0, index), tree)


def concatenate(first: T, second: T) -> T:
    """Return a tree with the rows of ``first``, then those of ``second``."""
    return _map_all(lambda a, b: torch.cat([a, b]), first, second)


def select(mask: Tensor, yes: T, no: T) -> T:
    """Return a tree with the rows of ``yes`` where ``mask`` [B] holds and those of ``no`` elsewhere.

    The result may share memory with ``yes`` or ``no``.
    """
    if not is_sync_free(mask.device):
        return _map_all(lambda a, b: torch.where(per_sample(mask, a), a, b), yes, no)
    # Few rows change in most steps, so copying only those is faster than torch.where; nonzero() waits for the device.
    rows = mask.nonzero().squeeze(1)
    if not len(rows) or len(rows) == len(mask):
        return yes if len(rows) else no
    return _map_all(lambda a, b: b.index_copy(0, rows, a.index_select(0, rows)), yes, no)


def copy(tree: T) -> T:
    """Return a copy of the tree that shares no memory with it."""
    return _map_all(lambda tensor: tensor.clone(memory_format=torch.contiguous_format), tree)


def write_rows(tree: T, index: Tensor, rows: T) -> None:
    """Overwrite the rows ``index`` of ``tree`` in place with ``rows``."""
    _map_all(lambda tensor, new: tensor.index_copy_(0, index, new), tree, rows)


def map_tensors(function: Callable[..., Tensor], first: T, *others: T) -> T:
    """Apply ``function`` to the corresponding tensors of trees of one structure, except :class:`Fixed` ones.

    The result has the :class:`Fixed` tensors of ``first``.
    """
    return cast(T, _map_tree(function, Fixed, first, *others))


def optimised_tensors(tree: Tree) -> list[Tensor]:
    """Return the tensors of a tree that are not :class:`Fixed`."""
    if isinstance(tree, Tensor):
        return [tree]
    leaves = pytree.tree_leaves(tree, is_leaf=lambda node: isinstance(node, Fixed))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def dot(first: T, second: T) -> Tensor:
    """Return the inner products ``[B]`` of two trees of one structure."""
    return reduce(
        torch.add,
        [flatten(a * b).sum(1) for a, b in zip(optimised_tensors(first), optimised_tensors(second), strict=True)],
    )


def norm(tree: Tree) -> Tensor:
    """Return the Euclidean norms ``[B]``."""
    lengths: list[Tensor] = [flatten(leaf).norm(dim=1) for leaf in optimised_tensors(tree)]
    return reduce(torch.hypot, lengths)


def max_abs(tree: Tree) -> Tensor:
    """Return the largest absolute values ``[B]``."""
    sizes = [flatten(leaf).abs().amax(1) for leaf in optimised_tensors(tree)]  # faster than vector_norm(ord=inf)
    return reduce(torch.maximum, sizes)


def require_gradient(tree: T) -> T:
    """Return the tree with detached tensors that require a gradient."""
    return map_tensors(lambda tensor: tensor.detach().requires_grad_(), tree)


def gradient(value: Tensor, tree: T, *, retain_graph: bool = False) -> T:
    """Return the gradient of the sum of ``value`` [B] with respect to a tree of :func:`require_gradient`.

    It has the structure of ``tree``, and zeros where ``value`` does not depend on a tensor.
    """
    leaves = optimised_tensors(tree)
    if not leaves or not value.requires_grad:
        return map_tensors(torch.zeros_like, tree)
    slopes = iter(torch.autograd.grad(value.sum(), leaves, retain_graph=retain_graph, materialize_grads=True))
    return map_tensors(lambda _: next(slopes), tree)
