"""ImageNet-UA: our default procedure beside the published optimizer on the same sets, at the three levels; and what a
map costs beside a pass of a ResNet-50.

    python benchmarks/imagenet_ua.py [--models delta,normal] [--samples 100] [--seeds 2] [--attacks ua-fog,ua-wood]
    python benchmarks/imagenet_ua.py --cost [--batch 4]

Takes the CIFAR-10 ResNet-32 weights in ROBUSTATLAS_MODELS and CIFAR-10 in ROBUSTATLAS_DATA. The published optimizer
runs with the published length and number of steps from random starts, its last iterate counts, and samples that are
misclassified clean count as wrong. As snow's sound sets have another unit, its steps are the published share of the
medium level there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.imagenet_ua import ENTRIES
from robustatlas.attacks.suites import attacks_of
from robustatlas.bundle import gradient, watched
from robustatlas.noise import Noise
from robustatlas.optimizers.pgd import PGD
from threats import subjects

SMALL = (32, 32)
SUITES = ("imagenet-ua", "imagenet-ua-extra")


def published_on_sound_sets(sound: Attack, paper: Attack) -> Attack:
    """The published optimizer on the sets of ``sound``."""

    def stepping(leg: Any) -> Any:
        optimizer: PGD = leg.stage.optimizer
        if paper.about.unit != sound.about.unit:
            assert optimizer.length is not None
            scale = sound.strengths[1] / paper.strengths[1]
            optimizer = replace(optimizer, length=scale * optimizer.length)
        return replace(leg, stage=replace(leg.stage, optimizer=optimizer))

    return replace(
        paper.map(stepping), threat=sound.threat, strengths=sound.strengths, repairs=False, contains_clean=True
    )


def numbers(model: ra.Classifier, data: ra.Dataset, attack: Attack, search: str, samples: int, seed: int) -> Any:
    """Accuracies at the levels, in percent, and passes of a sample at all of them together."""
    result = ra.evaluate(model, data, attack, search=search, samples=samples, seed=seed, progress=False)  # type: ignore[arg-type]
    return {
        "accuracies": result.outcome(attack.name).accuracies().tolist(),
        "passes": float(sum(result.passes(attack.name))),
    }


def compared(models: dict[str, ra.Classifier], data: ra.Dataset, options: argparse.Namespace) -> None:
    """A row for each model and attack, written as soon as it is known."""
    chosen = options.attacks.split(",") if options.attacks else None
    pairs = zip(attacks_of(SUITES, sides=SMALL), attacks_of(SUITES, "paper", SMALL), strict=True)
    pairs = [(sound, paper) for sound, paper in pairs if chosen is None or sound.name in chosen]
    rows: list[dict[str, Any]] = []
    for sound, paper in pairs:
        for name, model in models.items():
            same = published_on_sound_sets(sound, paper)
            found = {
                "default": [numbers(model, data, sound, "descent", options.samples, s) for s in range(options.seeds)],
                "published": [numbers(model, data, same, "every", options.samples, s) for s in range(options.seeds)],
            }
            rows.append({"model": name, "attack": sound.name, "samples": options.samples} | found)
            said = "; ".join(f"{how} " + ", ".join(_said(each) for each in runs) for how, runs in found.items())
            print(f"{name} {sound.name}: {said}", flush=True)
            options.output.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _said(found: dict[str, Any]) -> str:
    return "/".join(f"{value:.1f}" for value in found["accuracies"]) + f" ({found['passes']:.0f} passes)"


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


def seconds(once: Callable[[], object], times: int = 5) -> float:
    """Processor seconds, the fewest of several runs after a first one."""
    once()
    found = []
    for _ in range(times):
        begun = time.process_time()
        once()
        found.append(time.process_time() - begun)
    return min(found)


def costs(batch: int) -> None:
    """Forward and backward of every map at its medium level on images of 224x224 pixels, beside a ResNet-50's."""
    torch.manual_seed(0)
    x, net = torch.rand(batch, 3, 224, 224), resnet50()
    weights, image = torch.randn_like(x), x.clone().requires_grad_()
    whole = seconds(lambda: torch.autograd.grad(net(image).sum(), image))
    print(f"ResNet-50: {whole / batch:.3f} s an image, forward and backward, {torch.get_num_threads()} threads")
    for entry in ENTRIES:
        attack, noise = entry.attack("default", levels=True), Noise.of(0, torch.arange(batch), "cost")
        theta = attack.threat.start(x, torch.full((batch,), attack.strengths[1]), noise)

        def once(threat: Any = attack.threat, theta: Any = theta) -> object:
            leaf = watched(theta)
            return gradient((threat.apply(x, leaf) * weights).flatten(1).sum(1), leaf)

        print(f"{attack.name}: {seconds(once) / batch:.4f} s, {100 * seconds(once) / whole:.1f} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", action="store_true", help="only the cost of the maps")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--models", default="delta,normal")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--attacks", help="only these")
    parser.add_argument("--output", type=Path, default=Path("imagenet_ua.json"))
    options = parser.parse_args()
    if options.cost:
        costs(options.batch)
        return
    models, data = subjects(options.models.split(","))
    compared(models, data, options)


if __name__ == "__main__":
    main()
