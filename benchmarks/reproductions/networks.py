"""A network trained once, and kept in a folder."""

from __future__ import annotations

from pathlib import Path

from torch import nn

import robustatlas as ra
from robustatlas.data import Dataset
from robustatlas.training import Recipe, Settings, load_trained, network_for


def trained(place: Path, architecture: str, data: Dataset, recipe: Recipe, settings: Settings) -> nn.Module:
    """The network in ``place``, trained now where there is none."""
    if not (place / "card.json").is_file():
        net = network_for(architecture, data, settings.seed)
        ra.train(net, data, recipe, settings=settings, out=place, architecture=architecture, progress=False)
    net = load_trained(place).net
    assert isinstance(net, nn.Module)
    return net
