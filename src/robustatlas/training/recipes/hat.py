"""Helper-based adversarial training: less of a price in clean accuracy."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.models.loading import load_model
from robustatlas.optimizers.crafting import network_mode
from robustatlas.outcomes import sha256_of_tensors
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, divergence


@cache
def _load_helper(model: str) -> nn.Module:
    """Load a network of images in [0, 1] that is never trained."""
    found = load_model(model)
    if not isinstance(found.net, nn.Module):
        raise UserError(f"The helper {model!r} is a plain function; give a network, such as trained:nets/standard.")
    return found.net.eval().requires_grad_(False)


@dataclass(frozen=True)
class Hat(Recipe):
    """TRADES + gamma CE(f(x + h (x' - x)), y_h) (Rade and Moosavi-Dezfooli 2022).

    Helper points lie ``reach`` times as far out as the adversarial ones. Their label y_h is what a network of standard
    training says at x': ``helper``, as evaluations name models (``trained:nets/standard``), for images in [0, 1].
    """

    name: ClassVar[str] = "hat"
    source: ClassVar[str] = "Rade and Moosavi-Dezfooli 2022 (HAT)"

    helper: str = ""
    helper_sha256: str = ""
    beta: float = 2.5
    gamma: float = 0.5
    reach: float = 3.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.helper:
            raise UserError(
                "The recipe 'hat' takes its helper labels from a network of standard training; name one, "
                "helper='trained:nets/standard' (--set helper=trained:nets/standard)."
            )
        if not self.beta > 0 or not self.gamma >= 0 or not self.reach >= 1:
            raise UserError("beta must be positive, gamma not negative, and reach at least 1.")
        object.__setattr__(self, "helper_sha256", sha256_of_tensors(_load_helper(self.helper).state_dict()))

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        helper = _load_helper(self.helper).to(batch.x.device)
        with network_mode(net, batch.mode):
            x = self.craft_apart(net, batch)
        with torch.no_grad():
            labels = helper(x).argmax(1)
        clean, attacked, helped = net(batch.x), net(x), net(batch.x + self.reach * (x - batch.x))
        loss = self.cross_entropy(clean, batch.labels) + self.beta * divergence(clean, attacked).mean()
        loss = loss + self.gamma * F.cross_entropy(helped, labels)
        return Update(loss, accuracy(attacked, batch.labels))
