"""Any classifier as one thing: inputs in [0, 1] to logits, on its device, in eval mode, with its passes counted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from robustatlas.errors import UserError

Precision = Literal["float32", "bfloat16"]


class _CountBackward(torch.autograd.Function):
    """The identity; counts the samples of each backward pass through it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, classifier: Classifier) -> Tensor:
        ctx.classifier = classifier
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.classifier.backward_passes += len(gradient)
        return gradient, None


def _logits_of(output: Any) -> Tensor:
    """The logits in what a network returned: a tensor, ``.logits`` or ``["logits"]`` (Hugging Face), or a first
    element."""
    if isinstance(output, Mapping) and "logits" in output:
        output = output["logits"]
    elif not isinstance(output, Tensor) and hasattr(output, "logits"):
        output = output.logits
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, Tensor):
        raise UserError(
            f"The model returned {type(output).__name__}; expected logits as a tensor [B, C], a dict with 'logits', "
            "or an object with .logits. Wrap it in a function that returns the logits."
        )
    return output


class Classifier:
    """A network that maps inputs in [0, 1] to logits.

    Args:
        net: an ``nn.Module`` or any callable from ``[B, ...]`` in [0, 1] to logits ``[B, C]`` (also a dict or object
            with ``logits``).
        mean, std: per-channel normalisation applied before ``net`` (``None``: the network takes [0, 1]).
        device: where to run; by default where the parameters of ``net`` are. Another device gets a copy; ``net``
            itself stays.
        precision: ``"bfloat16"`` runs the search under autocast; what counts is always verified in float32 or the
            network's own float64.
        name: what reports call it.

    ``net`` is never changed: it runs in eval mode inside :meth:`evaluating`, which restores every module's mode.

    Example:
        >>> net = torch.nn.Linear(4, 3)
        >>> model = Classifier(net)
        >>> model.logits(torch.rand(5, 4)).shape, model.forward_passes
        (torch.Size([5, 3]), 5)
    """

    def __init__(
        self,
        net: Callable[[Tensor], Any],
        mean: Sequence[float] | Tensor | None = None,
        std: Sequence[float] | Tensor | None = None,
        *,
        device: str | torch.device | None = None,
        precision: Precision = "float32",
        name: str | None = None,
    ) -> None:
        if not callable(net):
            raise UserError(
                f"The model is a {type(net).__name__}; expected an nn.Module or a function from images to logits."
            )
        if precision not in ("float32", "bfloat16"):
            raise UserError(f"precision={precision!r} is not known; expected 'float32' or 'bfloat16'.")
        parameter = (
            next((p for p in net.parameters() if p.is_floating_point()), None) if isinstance(net, nn.Module) else None
        )
        home = parameter.device if parameter is not None else torch.device("cpu")
        self.device = torch.device(device) if device is not None else home
        if isinstance(net, nn.Module) and self.device != home and parameter is not None:
            net = copy.deepcopy(net).to(self.device)
        self.net = net
        self.dtype = torch.float64 if parameter is not None and parameter.dtype == torch.float64 else torch.float32
        self.precision = precision
        self.name = name or str(getattr(net, "__name__", type(net).__name__))
        self.forward_passes = 0
        self.backward_passes = 0
        self._mean = self._statistic(mean, "mean")
        self._std = self._statistic(std, "std")
        if self._std is not None and bool((self._std <= 0).any()):
            raise UserError(f"std={std} has entries that are not positive; expected one positive number per channel.")

    def _statistic(self, values: Sequence[float] | Tensor | None, what: str) -> Tensor | None:
        if values is None:
            return None
        statistic = torch.as_tensor(values, dtype=self.dtype, device=self.device)
        if statistic.dim() > 1 or not bool(torch.isfinite(statistic).all()):
            raise UserError(
                f"{what}={values} does not fit; expected one finite number per channel, such as (0.49, 0.48, 0.45)."
            )
        return statistic

    def normalisation(self) -> dict[str, Tensor]:
        """``mean`` and ``std`` where they are given."""
        return {name: value for name, value in (("mean", self._mean), ("std", self._std)) if value is not None}

    @property
    def rounding(self) -> float:
        """How far, relative to the largest logit, search and verification may differ."""
        return 2.0**-7 if self.precision == "bfloat16" else 0.0

    def _normalised(self, x: Tensor) -> Tensor:
        for statistic in (self._mean, self._std):
            if statistic is not None and statistic.dim() == 1 and (x.dim() < 2 or x.shape[1] != len(statistic)):
                raise UserError(
                    f"mean/std have {len(statistic)} channels; the inputs have shape {tuple(x.shape)} (batch, "
                    f"channels, ...)."
                )
        shape = (-1, *(1,) * (x.dim() - 2))
        if self._mean is not None:
            x = x - self._mean.view(shape)
        if self._std is not None:
            x = x / self._std.view(shape)
        return x

    def logits(self, x: Tensor, *, verifying: bool = False) -> Tensor:
        """Logits ``[B, C]`` of ``x`` ``[B, ...]`` in [0, 1]; differentiable; counted.

        ``verifying`` switches autocast off, so that no success rests on reduced precision.
        """
        self.forward_passes += len(x)
        if x.requires_grad:
            x = _CountBackward.apply(x, self)  # type: ignore[no-untyped-call]
        x = self._normalised(x)
        if self.precision == "bfloat16" and not verifying:
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                return _logits_of(self._run(x)).float()
        return _logits_of(self._run(x)).to(x.dtype)

    def _run(self, x: Tensor) -> Any:
        try:
            return self.net(x)
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise UserError(
                f"The model failed on a batch of shape {tuple(x.shape)}: {type(error).__name__}: {error}. "
                "Try it on such a batch by itself; finished shards of the run are kept."
            ) from error

    @contextmanager
    def evaluating(self) -> Iterator[Classifier]:
        """Run the network in eval mode; the mode of each of its modules is restored at the end."""
        modules = list(self.net.modules()) if isinstance(self.net, nn.Module) else []
        modes = [module.training for module in modules]
        try:
            for module in modules:
                module.training = False
            yield self
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode

    def __repr__(self) -> str:
        return f"Classifier({self.name}, device={self.device}, precision={self.precision})"
