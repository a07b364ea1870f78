"""JAX functions as models."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier, Outputs
from robustatlas.models.classifier.network import Given
from robustatlas.models.frameworks.gradient import SIZES, Foreign, Pullback
from robustatlas.models.sources.packages import optional


def from_jax(
    function: Callable[[Any], Any],
    mean: Given = None,
    std: Given = None,
    *,
    outputs: Outputs = "logits",
    sizes: Sequence[int] = SIZES,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    name: str | None = None,
) -> Classifier:
    """A model that is a function of JAX. It is compiled, forward and backward, once for each of ``sizes``.

    Args:
        function: a jax array [B, ...] in [0, 1] (less ``mean``, divided by ``std``) to logits [B, C]; it must be
            traceable by ``jax.jit``, in eval mode, with its parameters bound
            (``lambda x: net.apply(parameters, x)``). Torch's images are [B, C, H, W]; transpose where channels come
            last.
        mean, std, outputs, name: see :class:`Classifier`.
        sizes: the sizes of batch that it is compiled for; other batches are cut into such and filled up.
        dtype: float32, or float64, for which JAX must have been started with ``jax_enable_x64``.
        device: where the tensors lie; arrays go over by DLPack, without a copy where both frameworks see the device.

    Returns:
        the model, which attacks ask for outputs and gradients as they ask a network of torch.

    Raises:
        UserError: JAX is not installed, or computes in float32 where float64 is asked for.

    Example:
        >>> import jax.numpy as jnp  # doctest: +SKIP
        >>> model = from_jax(lambda x: x.reshape(len(x), -1) @ jnp.ones((64, 10)))  # doctest: +SKIP
    """
    jax = optional("jax", "from_jax", "jax")
    if dtype == torch.float64 and not jax.config.jax_enable_x64:
        raise UserError(
            "JAX computes in float32 unless told otherwise; call jax.config.update('jax_enable_x64', True) before any "
            "array is made, or leave dtype out."
        )
    forward, compiled = jax.jit(function), CompiledJax(jax, function)

    def with_pullback(x: Tensor) -> tuple[Any, Pullback]:
        logits, pull = compiled(jax.dlpack.from_dlpack(x))
        return logits, lambda weights: pull(jax.dlpack.from_dlpack(weights.to(x.dtype)).astype(logits.dtype))

    net = Foreign(lambda x: forward(jax.dlpack.from_dlpack(x)), with_pullback)
    called = name or getattr(function, "__name__", type(function).__name__)
    return Classifier(net, mean, std, outputs=outputs, batch_size=sizes, dtype=dtype, device=device, name=called)


class CompiledJax:
    """A function of JAX, compiled once for each shape into a way forward and a way back.

    The way back needs intermediate results and the function's own parameters. Only the former are handed on by the
    compiled way forward: what it returns is copied, and parameters may be large.
    """

    def __init__(self, jax: ModuleType, function: Callable[[Any], Any]) -> None:
        self._jax, self._function = jax, function
        self._known: dict[Any, tuple[Any, list[Any]]] = {}
        self._forward = jax.jit(self._traced)
        self._back = jax.jit(lambda pullback, weights: pullback(weights)[0])

    def __call__(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        """The outputs, and what takes weights for them to the gradient."""
        outputs, fresh = self._forward(x)
        structure, leaves = self._known[x.shape, x.dtype]
        rest = iter(fresh)
        pullback = self._jax.tree.unflatten(structure, [next(rest) if leaf is None else leaf for leaf in leaves])
        return outputs, lambda weights: self._back(pullback, weights)

    def _traced(self, x: Any) -> tuple[Any, list[Any]]:
        """The outputs, and those leaves of the pullback that depend on ``x``; the others are remembered."""
        outputs, pullback = self._jax.vjp(self._function, x)
        leaves, structure = self._jax.tree.flatten(pullback)
        varies = [isinstance(leaf, self._jax.core.Tracer) for leaf in leaves]
        self._known[x.shape, x.dtype] = structure, [None if v else a for a, v in zip(leaves, varies, strict=True)]
        return outputs, [leaf for leaf, v in zip(leaves, varies, strict=True) if v]
