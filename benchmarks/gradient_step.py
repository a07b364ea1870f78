"""At which steps should gradients be compared with differences? An ablation on several kinds of networks.

Networks: the shelf of the package on 8x8 pixels, and, where ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA have them,
ResNet-32 on CIFAR-10 and a small network on MNIST, as they are (sound) and behind a wave on the pixels, behind rounding
with a leak, and behind a backward pass of random signs. Whether these are overestimated (by more than 5 points at any
of five strengths) is measured: the default evaluation against one that goes back through the network alone.

Rules: ``forward`` or ``central`` differences at eight random steps in [0, 1], of a fixed size a pixel, of a fixed
``length`` (that of 0.01 on 8x8 pixels), or ``claimed``: as far as the gradient claims the boundary to be (the margin
over the l1 norm of its gradient), at most so much.

Of each rule: the largest share of doubtful samples of a sound and the least of an overestimated network; the same gap
on each half (every second network by name), and with the threshold in its middle what is wrong on the other half.

    python benchmarks/gradient_step.py [--samples 40] [--output benchmarks/results/gradient_step.json]

What the output has already is not computed again.
"""

import argparse
import json
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import robustatlas as ra
from resumed import Resumed
from robustatlas.checks.indicators import LookedAt
from robustatlas.checks.indicators.base import DIRECTIONS
from robustatlas.checks.indicators.differences import cosine_of
from robustatlas.checks.indicators.gradients import AGREES
from robustatlas.common.bundle import flat, per_sample
from robustatlas.common.noise import Noise
from robustatlas.models.architectures import resnet32, small_cnn
from robustatlas.models.broken import BROKEN, SOUND
from robustatlas.models.weights import load_weights

KINDS = ("wave", "leak", "signs")
POINTS = 5.0
RESULTS = Path(__file__).parent / "results"
CIFAR = ("normal", "delta", "stadv", "recoloradv", "stadv_delta", "recoloradv_delta", "recoloradv_stadv_delta")
Sizes = Callable[[LookedAt], Tensor]
STRENGTHS = {"cifar10": [0.001, 0.002, 0.005, 0.01, 0.02], "mnist": [0.05, 0.1, 0.15, 0.2, 0.3]}


def fixed(size: float) -> Sizes:
    return lambda look: torch.full_like(look.margin, size)


def length(look: LookedAt) -> Tensor:
    return torch.full_like(look.margin, min(0.01, 0.08 / math.sqrt(flat(look.x).shape[1])))


def claimed(most: float) -> Sizes:
    def sizes(look: LookedAt) -> Tensor:
        slope = flat(look.slopes[0]).abs().sum(1).nan_to_num(0.0, posinf=0.0)
        return torch.where(slope > 0, look.margin.abs() / slope.clamp_min(1e-30), most).clamp(max=most)

    return sizes


SIZES = {".01": fixed(0.01), ".02": fixed(0.02), ".03": fixed(0.03), "length": length} | {
    f"claimed, {most:g}": claimed(most) for most in (0.01, 0.02, 0.03)
}
RULES = [f"{kind}, {size}" for kind in ("forward", "central") for size in SIZES]


class Behind(nn.Module):
    """A network behind something that misleads its gradient."""

    def __init__(self, net: Callable[[Tensor], Tensor], kind: str) -> None:
        super().__init__()
        self.net, self.kind = net, kind

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "wave":
            return self.net(x + 0.01 * (2 * math.pi * x / 0.004).sin())
        if self.kind == "leak":
            return self.net(((x * 7).round() / 7 - 0.02 * x.flip(-1)).detach() + 0.02 * x.flip(-1))
        signs = torch.where((x.detach() * 7919).sin() > 0, 1.0, -1.0)
        return self.net(x.detach() + signs * (x - x.detach()))


@dataclass(frozen=True)
class Subject:
    """A network, and whether its robust accuracy is right; None: to be measured against ``plain``."""

    name: str
    right: bool | None
    model: ra.Classifier
    images: Tensor
    labels: Tensor
    plain: ra.Classifier | None = None


def networks() -> Iterator[Subject]:
    known = json.loads((RESULTS / "trust.json").read_text())["networks"]
    over = {row["network"]: row["overestimated by"] for row in known}
    digits = ra.load_dataset("digits")
    for source in [*(f"sound:{name}" for name in SOUND), *(f"broken:{name}" for name in BROKEN)]:
        if source.startswith("sound") or over.get(source, 0.0) > POINTS:
            yield Subject(source, source.startswith("sound"), ra.load_model(source), digits.images, digits.labels)
    folder = Path(os.environ.get("ROBUSTATLAS_MODELS", ""))
    if not (folder / "cifar10_resnet32_normal.safetensors").is_file():
        return
    cifar, mnist = ra.load_dataset("cifar10"), ra.load_dataset("mnist")
    net = small_cnn()
    load_weights(net, folder / "mnist_mmr_universal.safetensors")
    yield from behind("mnist", ra.Classifier(net.eval()), mnist.images[:120], mnist.labels[:120], all_kinds=True)
    for name in CIFAR:
        net, mean, std = resnet32()
        load_weights(net, folder / f"cifar10_resnet32_{name}.safetensors")
        model = ra.Classifier(net.eval(), mean=mean, std=std)
        all_kinds = name in ("normal", "stadv_delta")
        yield from behind(f"cifar10 {name}", model, cifar.images[5000:5120], cifar.labels[5000:5120], all_kinds)


def behind(name: str, model: ra.Classifier, images: Tensor, labels: Tensor, all_kinds: bool) -> Iterator[Subject]:
    """A network as it is, and behind what misleads its gradient."""

    def plain(x: Tensor) -> Tensor:
        return model.logits(x, verifying=True)

    yield Subject(name, True, model, images, labels)
    for kind in KINDS if all_kinds else ():
        broken = Behind(plain, kind)
        through = ra.Classifier(ra.surrogate(broken, plain))
        yield Subject(f"{name}, {kind}", None, ra.Classifier(broken), images, labels, through)


def is_right(subject: Subject, samples: int = 16) -> bool:
    """Whether the default evaluation is at most 5 points above the best known at every strength."""
    grid = STRENGTHS[subject.name.split(",")[0].split()[0]] if subject.plain is not None else []

    def sizes(model: ra.Classifier) -> Any:
        given: dict[str, Any] = {"strengths": {"linf": grid}, "samples": samples, "diagnose": False}
        data = (subject.images, subject.labels)
        return ra.evaluate(model, data, "linf", effort="low", progress=False, **given).minimal_size("linf")

    if subject.right is not None or subject.plain is None:
        return bool(subject.right)
    default = sizes(subject.model)
    best = np.minimum(default, sizes(subject.plain))
    return all(100 * float((default > e).mean() - (best > e).mean()) <= POINTS for e in grid)


def shares(subject: Subject, samples: int) -> dict[str, float]:
    """Of each rule the share of doubtful samples in percent."""
    model = subject.model
    with model.evaluating(), torch.no_grad():
        right = model.logits(subject.images, verifying=True).argmax(1) == subject.labels
        x, y = subject.images[right][:samples], subject.labels[right][:samples]
        look = LookedAt(model, x, y, Noise.of(0, torch.arange(len(x)), "diagnosis"))
        found = {}
        signs = [look.noise.child(1000 + k).sign(*x.shape[1:]) for k in range(DIRECTIONS)]
        for name, sizes in SIZES.items():
            size = per_sample(sizes(look), x)
            there, back = (torch.stack([(x + s * size * sign).clamp(0, 1) - x for sign in signs]) for s in (1, -1))
            ahead, behind = (torch.stack([look.lead(look.logits(x + d)) for d in steps]) for steps in (there, back))
            for kind, changes, steps in (
                ("forward", ahead - look.margin, there),
                ("central", ahead - behind, there - back),
            ):
                claims = torch.stack([flat(step * look.slopes[0]).sum(1) for step in steps])
                doubtful = cosine_of(changes, claims) < AGREES
                found[f"{kind}, {name}"] = round(100 * float(doubtful.float().mean()), 1)
        return found


def judged(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rules by one half, reported on the other, and the other way round."""
    told: dict[str, dict[str, Any]] = {}
    ordered = sorted(rows, key=lambda row: row["network"].partition(":")[2] or row["network"])
    for rule in RULES:
        wrong, gaps = 0, []
        for one, other in ((ordered[::2], ordered[1::2]), (ordered[1::2], ordered[::2])):
            sound = max(row["shares"][rule] for row in one if row["right"])
            broken = min(row["shares"][rule] for row in one if not row["right"])
            gaps.append(round(broken - sound, 1))
            limit = (sound + broken) / 2
            wrong += sum((row["shares"][rule] > limit) == row["right"] for row in other)
        told[rule] = {
            "largest share of a sound one": max(row["shares"][rule] for row in rows if row["right"]),
            "least share of an overestimated one": min(row["shares"][rule] for row in rows if not row["right"]),
            "gaps of the halves": gaps,
            "wrong on the other halves": wrong,
        }
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    console, kept = Console(), Resumed(given.output, lambda rows: {"samples": given.samples})
    for subject in networks():
        if subject.name in kept:
            continue
        found = {"right": is_right(subject), "shares": shares(subject, given.samples)}
        kept.add({"network": subject.name, **found})
        console.print(kept.rows[-1], soft_wrap=True)
    told = judged(kept.rows)
    table = Table("rule", *next(iter(told.values())))
    for rule, found in told.items():
        table.add_row(rule, *map(str, found.values()))
    console.print(table)
    kept.write(rules=told)


if __name__ == "__main__":
    main()
