"""Models that write into the inputs they are given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier, seeded


def writing_warnings(model: Classifier, x: Tensor) -> list[str]:
    """A warning where the network or the ``prepare`` of ``model`` changes its input ``x`` [B, ...] behind the back of
    autograd (``x.detach().mul_(...)``). Each pass gets a copy, so that data stay as they are; but gradients do not see
    the change. Operations in place that autograd follows, such as ``nn.ReLU(inplace=True)``, are not faults."""
    guilty: list[str] = []

    def watched(part: Callable[[Tensor], Any], name: str) -> Callable[[Tensor], Any]:
        def run(given: Tensor) -> Any:
            before, behind = given.detach().clone(), given.grad_fn
            answer = part(given)
            if given.grad_fn is behind and not torch.equal(given.detach(), before):
                guilty.append(name)
            return answer

        return run

    prepare = None if model.prepare is None else watched(model.prepare, "its prepare")
    with suppress(UserError), seeded(0, model.device), torch.enable_grad():  # a failure is told by the other checks
        Classifier(model, prepare=prepare).answer(x.clone().requires_grad_(), watched(model.net, "the network"))
    return [
        f"The model writes into its input ({name}: an operation in place on a detached tensor, or inside no_grad). "
        "Every pass gets a copy, so the data stay as they are, but gradients do not see the change: write "
        "x = x * factor instead of x.detach().mul_(factor)."
        for name in dict.fromkeys(guilty)
    ]
