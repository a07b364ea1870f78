"""What the trainer costs over a bare hand-written loop of the same recipe, and what joint recipes cost over one attack.

    python benchmarks/training_overhead.py [--rounds 5] [--batches 12] [--output FILE.json]

The small CNN on 28x28 grey images, batches of 128, ten steps of crafting. Bare loop and trainer alternate; of each
round the lower quartile of the updates counts, in seconds of the processor (and of the wall's clock), and of all rounds
the median of their ratios, so that other work on the machine disturbs little. Nothing is held out or written.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from robustatlas.datasets import Dataset
from robustatlas.models.architectures import small_cnn
from robustatlas.training import Recipe, Settings, TrainingDisplay, recipe_named, train

BATCH, STEPS = 128, 10
LINF, L2, L1 = 0.1, 1.5, 12.0


def images(count: int) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 1, 28, 28, generator=generator)
    return Dataset.of(x, torch.randint(10, (count,), generator=generator), "random", [str(k) for k in range(10)])


def bare_pgd(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    net.eval()
    delta = torch.empty_like(x).uniform_(-LINF, LINF)
    delta = (x + delta).clamp(0, 1) - x
    for _ in range(STEPS):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(net(x + delta), y), delta)
        with torch.no_grad():
            delta = (delta + LINF / 4 * gradient.sign()).clamp(-LINF, LINF)
            delta = (x + delta).clamp(0, 1) - x
    net.train()
    return F.cross_entropy(net(x + delta.detach()), y)


def bare_standard(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y)


def bare_trades(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    net.eval()
    with torch.no_grad():
        natural = net(x).softmax(1)
    x_adv = x + 0.001 * torch.randn_like(x)
    for _ in range(STEPS):
        x_adv.requires_grad_()
        loss = F.kl_div(net(x_adv).log_softmax(1), natural, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x_adv)
        with torch.no_grad():
            x_adv = x_adv + LINF / 4 * gradient.sign()
            x_adv = torch.min(torch.max(x_adv, x - LINF), x + LINF).clamp(0, 1)
    net.train()
    clean, attacked = net(x), net(x_adv.detach())
    divergence = F.kl_div(attacked.log_softmax(1), clean.softmax(1), reduction="batchmean")
    return F.cross_entropy(clean, y) + 6 * divergence


BARE: dict[str, Callable[[nn.Module, Tensor, Tensor], Tensor]] = {
    "standard": bare_standard,
    "pgd": bare_pgd,
    "trades": bare_trades,
}
RECIPES: dict[str, Recipe] = {
    "standard": recipe_named("standard"),
    "pgd": recipe_named("pgd", {"linf": LINF}, STEPS),
    "trades": recipe_named("trades", {"linf": LINF}, STEPS),
    "max of linf, l2": recipe_named("max", {"linf": LINF, "l2": L2}, STEPS),
    "max of linf, l2, l1": recipe_named("max", {"linf": LINF, "l2": L2, "l1": L1}, STEPS),
    "msd of linf, l2": recipe_named("msd", {"linf": LINF, "l2": L2}, STEPS),
    "msd of linf, l2, l1": recipe_named("msd", {"linf": LINF, "l2": L2, "l1": L1}, STEPS),
}


class Clock(TrainingDisplay):
    """Times the updates after the first one."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def update(self, done: int, loss: float | None) -> None:
        self.marks.append((time.process_time(), time.perf_counter()))

    def seconds(self) -> list[tuple[float, float]]:
        """Of each update: of the processor, and of the wall's clock."""
        return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(self.marks)]


def network() -> nn.Module:
    torch.manual_seed(0)
    return small_cnn()


def time_bare(name: str, data: Dataset) -> list[tuple[float, float]]:
    net, clock = network(), Clock()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for chosen in torch.randperm(len(data)).split(BATCH):
        loss = BARE[name](net, data.images[chosen], data.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.update(0, loss.item())
    return clock.seconds()


def time_trainer(recipe: Recipe, data: Dataset) -> list[tuple[float, float]]:
    clock = Clock()
    train(network(), data, recipe, settings=Settings(epochs=1, batch_size=BATCH, held_out=0), progress=clock)
    return clock.seconds()


def quartiles(seconds: list[tuple[float, float]]) -> dict[str, float]:
    """The lower quartile of updates, by each clock."""
    return {kind: quantiles([t[place] for t in seconds], n=4)[0] for place, kind in enumerate(("cpu", "wall"))}


def ratio(rounds: list[dict[str, dict[str, float]]], name: str, other: str) -> float:
    """Of two loops in the same round, the median of the rounds: a machine that slows down slows both."""
    return median(one[name]["cpu"] / one[other]["cpu"] for one in rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    data = images(options.batches * BATCH)
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(options.rounds):
        found: dict[str, list[tuple[float, float]]] = {}
        for name, recipe in RECIPES.items():
            loops = [(name, partial(time_trainer, recipe))]
            if name in BARE:
                loops.append((f"bare {name}", partial(time_bare, name)))
            found |= {name: measure(data) for name, measure in (loops if number % 2 else loops[::-1])}
        rounds.append({name: quartiles(each) for name, each in found.items()})
    best = {name: {kind: median(one[name][kind] for one in rounds) for kind in ("cpu", "wall")} for name in rounds[0]}
    result = {
        "batch": BATCH,
        "steps": STEPS,
        "rounds": options.rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "milliseconds_per_batch": {
            name: {kind: 1000 * value for kind, value in each.items()} for name, each in best.items()
        },
        "samples_per_second": {name: BATCH / each["cpu"] for name, each in best.items()},
        "overhead_percent": {name: 100 * (ratio(rounds, name, f"bare {name}") - 1) for name in BARE},
        "times_pgd": {name: ratio(rounds, name, "pgd") for name in RECIPES},
    }
    table = Table("recipe", "ms a batch", "samples/s", "over bare, %", "x pgd")
    for name, each in best.items():
        over = result["overhead_percent"].get(name)  # type: ignore[attr-defined]
        times_pgd = result["times_pgd"].get(name)  # type: ignore[attr-defined]
        table.add_row(
            name,
            f"{1000 * each['cpu']:.1f}",
            f"{BATCH / each['cpu']:.0f}",
            "" if over is None else f"{over:.1f}",
            "" if times_pgd is None else f"{times_pgd:.2f}",
        )
    Console().print(table)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
