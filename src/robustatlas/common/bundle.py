"""Trees of tensors ``[B, ...]`` that share their leading dimension, so that samples can be dropped from and added to
all at once. A tree is a tensor or any nesting of tuples, lists, dicts and :class:`Bundle` s of them. What is neither a
tensor nor such a container (settings) belongs to all samples alike."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, TypeAlias, TypeVar, cast

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from robustatlas.common.host import looking_is_free

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
    """Numbers ``[B, ...]`` of a theta that are drawn or set, never optimised: they get no gradient, and arithmetic
    (:func:`over`, :func:`dot`) leaves them alone."""

    values: Tensor


def per_sample(values: Tensor, like: Tensor) -> Tensor:
    """``values`` [B] shaped to broadcast against ``like`` [B, ...]."""
    return values.view(-1, *(1,) * (like.dim() - 1))


def flat(tensor: Tensor) -> Tensor:
    """``[B, ...]`` as ``[B, D]``; also where D is 1 and has no dimension, or B is 0."""
    return tensor.reshape(tensor.shape[0], math.prod(tensor.shape[1:]))


def _each(function: Callable[..., Any], first: T, *others: T) -> T:
    """``function`` of the corresponding tensors of equally built trees, :class:`Fixed` ones too."""
    return cast(T, _walked(function, None, first, *others))


def _walked(function: Callable[..., Any], held: type[Bundle] | None, first: Any, *others: Any) -> Any:
    """``function`` of the corresponding tensors, in a tree built like ``first``. Bundles of the kind ``held`` stay as
    they are. (torch's own walk is too slow for every step of a small network.)"""
    if isinstance(first, Tensor):
        return function(first, *others)
    if isinstance(first, Bundle):
        if held is not None and isinstance(first, held):
            return first
        names = first.__dataclass_fields__
        return type(first)(
            *(_walked(function, held, getattr(first, name), *[getattr(o, name) for o in others]) for name in names)
        )
    if isinstance(first, (tuple, list)):
        parts = [_walked(function, held, *each) for each in zip(first, *others, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if isinstance(first, dict):
        return {name: _walked(function, held, part, *[o[name] for o in others]) for name, part in first.items()}
    return first


def take(tree: T, index: Tensor) -> T:
    """The rows ``index`` (int64) of every tensor."""
    return _each(lambda tensor: tensor.index_select(0, index), tree)


def join(first: T, second: T) -> T:
    """The rows of two trees, one after the other."""
    return _each(lambda a, b: torch.cat([a, b]), first, second)


def select(mask: Tensor, yes: T, no: T) -> T:
    """``torch.where`` with a mask [B]. Where looking is free, only the rows that come from ``yes`` are copied, and the
    trees themselves are given where all rows come from one."""
    if not looking_is_free(mask.device):
        return _each(lambda a, b: torch.where(per_sample(mask, a), a, b), yes, no)
    rows = mask.nonzero().squeeze(1)
    if not len(rows) or len(rows) == len(mask):
        return yes if len(rows) else no
    return _each(lambda a, b: b.index_copy(0, rows, a.index_select(0, rows)), yes, no)


def copy(tree: T) -> T:
    """The same numbers in memory of their own."""
    return _each(lambda tensor: tensor.clone(memory_format=torch.contiguous_format), tree)


def put(tree: T, index: Tensor, rows: T) -> None:
    """Overwrite the rows ``index`` of ``tree`` in place."""
    _each(lambda tensor, new: tensor.index_copy_(0, index, new), tree, rows)


def over(function: Callable[..., Tensor], first: T, *others: T) -> T:
    """``function`` of the corresponding tensors of equally built trees; :class:`Fixed` ones stay those of ``first``."""
    return cast(T, _walked(function, Fixed, first, *others))


def free(tree: Tree) -> list[Tensor]:
    """The tensors that are not :class:`Fixed`."""
    if isinstance(tree, Tensor):
        return [tree]
    leaves = pytree.tree_leaves(tree, is_leaf=lambda node: isinstance(node, Fixed))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def dot(first: T, second: T) -> Tensor:
    """``[B]``: the inner product of two equally built trees."""
    return reduce(torch.add, [flat(a * b).sum(1) for a, b in zip(free(first), free(second), strict=True)])


def norm(tree: Tree) -> Tensor:
    """``[B]``: the Euclidean length."""
    lengths: list[Tensor] = [flat(leaf).norm(dim=1) for leaf in free(tree)]
    return reduce(torch.hypot, lengths)


def largest(tree: Tree) -> Tensor:
    """``[B]``: the largest absolute number."""
    sizes = [flat(leaf).abs().amax(1) for leaf in free(tree)]  # (vector_norm is slower)
    return reduce(torch.maximum, sizes)


def watched(tree: T) -> T:
    """The same tree as fresh leaves of automatic differentiation."""
    return over(lambda tensor: tensor.detach().requires_grad_(), tree)


def gradient(value: Tensor, tree: T, *, retain_graph: bool = False) -> T:
    """Gradient of the sum of ``value`` [B] with respect to a :func:`watched` tree, built like it; zeros where none
    is."""
    leaves = free(tree)
    if not leaves or not value.requires_grad:
        return over(torch.zeros_like, tree)
    slopes = iter(torch.autograd.grad(value.sum(), leaves, retain_graph=retain_graph, materialize_grads=True))
    return over(lambda _: next(slopes), tree)
