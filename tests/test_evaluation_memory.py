"""What an attack holds at once, in multiples of its inputs."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import robustatlas as ra
from robustatlas.attacks.definition import Leg
from robustatlas.attacks.lp import autoattack

SIDE = 64
BATCH = 4
INPUTS = BATCH * 3 * SIDE * SIDE * 4


class Live(TorchDispatchMode):
    """Bytes of the tensors that are alive, and the most there ever were; small ones are not worth counting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._enter(leaf.untyped_storage())
        return result

    def _enter(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if size >= INPUTS // 8 and key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._leave, key, size)

    def _leave(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def brief(leg: Leg) -> Leg:
    optimizer: Any = leg.stage.optimizer
    steps = max(4, optimizer.fewest_steps)
    stage = replace(leg.stage, optimizer=replace(optimizer, steps=steps))
    return replace(leg, stage=stage, runs=1 if stage.targets else leg.runs)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_attack_holds_seventeen_times_its_inputs(norm: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 7, 16), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 10))
    images = torch.rand(BATCH, 3, SIDE, SIDE)
    data = (images, net(images).argmax(1))
    attack = autoattack(norm).map(brief)
    with Live() as live:
        ra.evaluate(net, data, [attack], strengths={norm: [1e-4, 5e-4]}, batch_size=BATCH, diagnose=False)
    assert live.most <= 17 * INPUTS
