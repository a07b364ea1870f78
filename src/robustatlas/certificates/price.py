"""What bounds cost, before they are computed."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Network
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.windowed import Windowed


def most_seconds(network: Network, x: Tensor) -> float:
    """Seconds of one bound backwards (CROWN) on a ball around ``x`` [1, ...], if every number before an activation is
    bounded from both sides: those of a few numbers in the middle of each layer, times how many there are.

    Example:
        >>> import robustatlas as ra
        >>> from robustatlas.certificates import Subject
        >>> subject = Subject(ra.load_model("builtin:digits-linf"), (1, 8, 8))
        >>> 0 < most_seconds(subject.network, torch.rand(1, 1, 8, 8)) < 60
        True
    """
    bounds = Bounds.of(network, NormBall(x.double(), torch.zeros(1).double().to(x.device), torch.inf), backwards=False)
    seconds = 0.0
    for position in bounds.sides:
        shape = network.graph.nodes[position].shape
        numbers = torch.Size(shape).numel()
        count = min(numbers, network.at_once)
        places = torch.arange(count, device=x.device) + (numbers - count) // 2
        begun = time.perf_counter()
        bounds.backward(position, Windowed.units(places, shape, bounds.low[position]), torch.zeros_like(places))
        seconds += 2 * (time.perf_counter() - begun) * numbers / count
    return seconds
