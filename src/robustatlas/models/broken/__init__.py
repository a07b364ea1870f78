"""Broken defenses on the shipped digits, and sound networks beside them. Each broken one only looks robust: its entry
says why, who broke it, and how. What judges robustness numbers can be tried on them: ``broken:NAME`` and ``sound:NAME``
are models like others."""

from torch import nn

from robustatlas.common.errors import unknown
from robustatlas.common.wording import listed
from robustatlas.models.broken.codec import CODEC
from robustatlas.models.broken.defense import BrokenDefense
from robustatlas.models.broken.discrete import DISCRETE
from robustatlas.models.broken.lying import LYING
from robustatlas.models.broken.randomised import RANDOMISED
from robustatlas.models.broken.saturated import SATURATED
from robustatlas.models.broken.shattered import SHATTERED
from robustatlas.models.broken.sound import SOUND

__all__ = ["BROKEN", "SOUND", "BrokenDefense", "load_broken", "load_sound"]

BROKEN: dict[str, BrokenDefense] = {
    defense.name: defense for defense in (*LYING, *DISCRETE, *SHATTERED, *SATURATED, *RANDOMISED, *CODEC)
}
"""Name behind ``broken:`` -> the defense."""


def load_broken(name: str) -> nn.Module:
    """A broken defense, in eval mode: images [B, 1, 8, 8] of the digits to outputs [B, 10].

    Example:
        >>> import torch
        >>> load_broken("rounded")(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    if name not in BROKEN:
        raise unknown("broken defense", name, BROKEN, f"there are {listed(list(BROKEN))}")
    return BROKEN[name].make().eval()


def load_sound(name: str) -> nn.Module:
    """A sound network beside the broken ones, of the same images.

    Example:
        >>> import torch
        >>> load_sound("linf")(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    if name not in SOUND:
        raise unknown("sound network", name, SOUND, f"there are {listed(list(SOUND))}")
    return SOUND[name]().eval()
