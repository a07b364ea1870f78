"""What a map of ImageNet-UA costs on images of 224x224 pixels, beside a pass of a ResNet-50: time and memory.

    python benchmarks/imagenet_ua_cost.py [--batch 4] [--output FILE.json]

Forward and backward of every map at its medium level, with ImageNet's settings. Seconds are of the processor, the
fewest of several runs; memory is how much the process grows at most, by the kernel's count (Linux).
"""

import argparse
import ctypes
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.imagenet_ua import ENTRIES
from robustatlas.common.bundle import Tree, gradient, watched
from robustatlas.common.noise import Noise

SIDE = 224


class Bottleneck(nn.Module):
    """Three convolutions and what goes past them (He et al. 2016, figure 5)."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        past = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.past = past if stride > 1 or before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.past(x))


def resnet50() -> nn.Module:
    """ResNet-50 (He et al. 2016, table 1) with random weights: only its cost counts."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    before = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for number in range(count):
            layers.append(Bottleneck(before, 64 << stage, 2 if stage and not number else 1))
            before = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)).eval()


def seconds(once: Callable[[], object], times: int = 4) -> float:
    """Processor seconds, the fewest of several runs after a first one."""
    once()
    found = []
    for _ in range(times):
        begun = time.process_time()
        once()
        found.append(time.process_time() - begun)
    return min(found)


def megabytes(once: Callable[[], object]) -> float:
    """How much more memory the process has at most while it runs."""
    once()
    ctypes.CDLL(None).malloc_trim(0)
    before = _held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    once()
    return max(0.0, _held("VmHWM") - before) / 1024


def _held(what: str) -> int:
    """Kilobytes of this process."""
    (line,) = (row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith(what))
    return int(line.split()[1])


def through(attack: Attack, x: Tensor, theta: Tree, weights: Tensor) -> object:
    """Forward and backward of a map."""
    leaf = watched(theta)
    return gradient((attack.threat.apply(x, leaf) * weights).flatten(1).sum(1), leaf)


def costs(batch: int) -> list[dict[str, Any]]:
    """A row for the network and for each map, of one image."""
    torch.manual_seed(0)
    x, net = torch.rand(batch, 3, SIDE, SIDE), resnet50()
    weights, image = torch.randn_like(x), x.clone().requires_grad_()
    works: dict[str, Callable[[], object]] = {"ResNet-50": lambda: torch.autograd.grad(net(image).sum(), image)}
    for entry in ENTRIES:
        attack, noise = entry.attack("default", levels=True), Noise.of(0, torch.arange(batch), "cost")
        theta = attack.threat.start(x, torch.full((batch,), attack.strengths[1]), noise)
        works[attack.name] = partial(through, attack, x, theta, weights)
    rows = []
    for name, once in works.items():
        rows.append({"map": name, "seconds": seconds(once) / batch, "megabytes": megabytes(once) / batch})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = costs(asked.batch)
    if asked.output:
        asked.output.write_text(json.dumps({"batch": asked.batch, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
