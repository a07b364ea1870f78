"""Which inner attack training in l1 should have: what each finds of what ``evaluate`` finds, what networks trained with
it withstand, and what a step costs.

    python benchmarks/inner_l1.py [--sets digits,mnist,fashion-mnist] [--recipes pgd,max,msd] [--by NAMES] [--seeds N]
                                  [--samples N] [--output FILE.json]

Networks are trained by ``pgd`` in l1 and by ``max`` and ``msd`` in linf, l2 and l1, each time with another inner attack
of ten steps in l1 (``--by``: only with these). All inner attacks are tried on all networks. MNIST and Fashion-MNIST are
the test images of each: the first 8,000 train, the last evaluate. Evaluation is the package's own, at the strength
trained at. Seconds are the processor's. Networks that the output has already are not trained again.
"""

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import robustatlas as ra
from resumed import Resumed, Row
from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.data import Dataset
from robustatlas.models.objectives import cross_entropy
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import Crafted, Start, craft
from robustatlas.optimizers.frank_wolfe import FrankWolfe, VertexAscent
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.lp import L1, Linf, Lp
from robustatlas.training import Opponent, Settings, network_for, opponents_of, recipe_named

STEPS = 10
_PURPOSE = "inner-l1"


@dataclass(frozen=True)
class Movable(L1):
    """A step moves ``count`` coordinates of largest gradient by equal parts, among those not at the border of the box
    that they head to (Maini et al. 2020 draw 5 to 20 anew at each step)."""

    count: int = 20

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        return gradient

    def move(self, x: Tensor, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        room = torch.where(direction > 0, 1 - x - theta, x + theta)
        size = (direction.abs() * (room > 1e-3)).flatten(1)
        values, index = size.topk(min(self.count, size.shape[1]), sorted=False)
        share = (values > 0).to(theta.dtype) / self.count
        chosen = torch.zeros_like(size).scatter(1, index, share).view_as(theta)
        return theta + per_sample(length, theta) * chosen * direction.sign()


@dataclass(frozen=True)
class Inner:
    """An inner attack: its set, what searches it at so many steps, and which point is taken."""

    threat: Lp
    optimizer: Callable[[int], Optimizer[Any]]
    start: Start = "random"
    joint: bool = True
    """Whether multi steepest descent can take its steps."""

    def opponent(self, epsilon: float, steps: int = STEPS) -> Opponent:
        """It at a strength."""
        return Opponent("l1", self.threat, epsilon, self.optimizer(steps), self.start)


def ascent(steps: int) -> PGD:
    """Steps of a quarter of the strength."""
    return PGD(steps, 2.5 / steps)


_START: Literal["volume"] = "volume"
_SINGLE = ((1.0, 1.0),)
INNER: Mapping[str, Inner] = {
    "a twentieth": Inner(L1(_START), ascent),
    "20 movable": Inner(Movable(_START, count=20), ascent),
    "to the border": Inner(L1(_START), lambda steps: VertexAscent(steps, 2.5 / steps)),
    "apgd-l1": Inner(L1(_START), lambda steps: APGDL1(steps, _SINGLE, 0.05), "neutral", joint=False),
    "frank-wolfe": Inner(L1(_START), FrankWolfe, "neutral", joint=False),
}
"""A twentieth of the coordinates: steepest ascent as evaluations use it, which the box stops."""


@dataclass(frozen=True)
class Setting:
    """A data set with its network, strengths, and how it is trained."""

    network: str
    against: Mapping[str, float]
    training: int
    epochs: int
    learning_rate: float = 3e-3

    @property
    def epsilon(self) -> float:
        """In l1."""
        return self.against["l1"]


SETS: Mapping[str, Setting] = {
    "digits": Setting("digits-cnn", {"linf": 0.15, "l2": 0.8, "l1": 2.5}, 1197, 20, 1e-2),
    "mnist": Setting("small-cnn", {"linf": 0.2, "l2": 1.5, "l1": 12.0}, 1500, 6),
    "fashion-mnist": Setting("small-cnn", {"linf": 0.1, "l2": 1.25, "l1": 8.0}, 1500, 6),
}


def images(name: str, count: int) -> tuple[Dataset, Dataset]:
    """To train on, and to evaluate on."""
    if name == "digits":
        return ra.load_dataset("digits", "train").take(count), ra.load_dataset("digits")
    whole = ra.load_dataset(name)
    parts = (torch.arange(8000), torch.arange(8000, 10000))
    first, last = (
        Dataset.of(whole.images[part], whole.labels[part], f"{name} {part[0]}", whole.classes) for part in parts
    )
    return first.take(count, stratified=True), last


def trained(setting: Setting, data: Dataset, recipe: str, inner: Inner, seed: int) -> nn.Module:
    """A network trained with that inner attack in l1."""
    others = {name: strength for name, strength in setting.against.items() if name != "l1" and recipe != "pgd"}
    opponents = (*opponents_of(others, STEPS), inner.opponent(setting.epsilon))
    plan = replace(recipe_named(recipe, setting.against if others else {"l1": 1.0}, warmup=0.3), against=opponents)
    settings = Settings(epochs=setting.epochs, learning_rate=setting.learning_rate, held_out=0, seed=seed)
    return ra.train(network_for(setting.network, data, seed), data, plan, settings=settings, progress=False).net


def errors(net: nn.Module, data: Dataset, crafted: Callable[[Dataset], Crafted]) -> tuple[float, float]:
    """Percent misclassified at the points of an inner attack, and at any that it looked at."""
    found = crafted(data)
    with torch.no_grad():
        wrong = net(found.x).argmax(1) != data.labels
    return 100 * float(wrong.float().mean()), 100 * float((wrong | ~found.survived).float().mean())


def attack(net: nn.Module, inner: Inner, epsilon: float, steps: int = STEPS) -> Callable[[Dataset], Crafted]:
    """An inner attack on a network."""

    def crafted(data: Dataset) -> Crafted:
        noise, labels = Noise.of(0, data.index, _PURPOSE), data.labels
        return craft(
            net, inner.opponent(epsilon, steps), data.images, labels, torch.full((len(data),), epsilon), noise,
            lambda logits: cross_entropy(logits, labels, None),
        )  # fmt: skip

    return crafted


def evaluated(net: nn.Module, data: Dataset, against: Mapping[str, float]) -> dict[str, float]:
    """Percent that the package's evaluation breaks at these strengths, and "union" at any of them."""
    strengths = {name: [strength] for name, strength in against.items()}
    result = ra.evaluate(ra.Classifier(net), data, list(against), strengths=strengths, progress=False)
    accuracies = result.accuracies()
    broken = {name: 100 - accuracies.at(name, strength) for name, strength in against.items()}
    return broken | {"union": 100 * (1 - float(result.survivors(dict(against)).mean()))}


def measured(
    name: str, recipes: Sequence[str], inners: Sequence[str], seeds: int, samples: int, known: Sequence[Row]
) -> Iterator[Row]:
    """A row for each network that is not known: what evaluation breaks, and what each inner attack of 5, 10 and 20
    steps does."""
    there = {(row["set"], row["recipe"], row["by"], row["seed"]) for row in known}
    setting = SETS[name]
    training, test = images(name, setting.training)
    test = test.take(samples)
    for recipe, by, seed in product(recipes, inners, range(seeds)):
        if (recipe == "msd" and not INNER[by].joint) or (name, recipe, by, seed) in there:
            continue
        net = trained(setting, training, recipe, INNER[by], seed)
        broken = evaluated(net, test, {"l1": setting.epsilon} if recipe == "pgd" else setting.against)
        found = {
            other: {str(s): errors(net, test, attack(net, each, setting.epsilon, s)) for s in (5, STEPS, 20)}
            for other, each in INNER.items()
        }
        yield {"set": name, "recipe": recipe, "by": by, "seed": seed, "broken": broken, "found": found}


def seconds(name: str, repeats: int = 9) -> dict[str, float]:
    """Processor seconds of crafting a batch of 128 by each inner attack, over those in linf; medians of turns."""
    setting = SETS[name]
    training, _ = images(name, setting.training)
    data = training.take(128)
    net = network_for(setting.network, data).eval()
    linf = Inner(Linf(_START), ascent)
    crafts = {"linf": attack(net, linf, setting.against["linf"])}
    crafts |= {by: attack(net, inner, setting.epsilon) for by, inner in INNER.items()}
    spent: dict[str, list[float]] = {by: [] for by in crafts}
    for _ in range(repeats):
        for by, crafted in crafts.items():
            begun = time.process_time()
            crafted(data)
            spent[by].append(time.process_time() - begun)
    medians = {by: float(np.median(values)) for by, values in spent.items()}
    return {by: value / medians["linf"] for by, value in medians.items()}


def summary(rows: Sequence[Row], costs: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """For each set and inner attack: share found in ten steps over all networks, accuracies of its own, cost."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(row["set"] for row in rows):
        here = [row for row in rows if row["set"] == name]
        found[name] = {by: _line(by, here) | {"times_linf": costs.get(name, {}).get(by)} for by in INNER}
    return found


def _line(by: str, rows: Sequence[Row]) -> dict[str, Any]:
    last, anywhere = ([100 * row["found"][by][str(STEPS)][k] / row["broken"]["l1"] for row in rows] for k in range(2))
    own: dict[str, list[Row]] = {}
    for row in rows:
        if row["by"] == by:
            own.setdefault(row["recipe"], []).append(row)
    accuracy = {
        recipe: {what: _mean([100 - row["broken"][what] for row in each]) for what in each[0]["broken"]}
        for recipe, each in own.items()
    }
    shares = {"share_found": _mean(last), "lowest_share": round(min(last), 2), "share_found_anywhere": _mean(anywhere)}
    return shares | {"accuracy": accuracy}


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 2)


def shown(found: Mapping[str, Any]) -> Iterator[Table]:
    """A table for each set."""
    for name, each in found.items():
        table = Table("inner attack", "found, %", "lowest", "anywhere", "pgd", "max", "msd", "x linf", title=name)
        for by, row in each.items():
            own = [row["accuracy"].get(recipe, {}) for recipe in ("pgd", "max", "msd")]
            cells = [f"{a['l1']:.1f} ({a['union']:.1f})" if a else "" for a in own]
            shares = (row["share_found"], row["lowest_share"], row["share_found_anywhere"])
            cost = "" if row["times_linf"] is None else f"{row['times_linf']:.2f}"
            table.add_row(by, *(f"{share:.1f}" for share in shares), *cells, cost)
        yield table


def main() -> None:
    """Measure, print, and write after each network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--recipes", default="pgd,max,msd")
    parser.add_argument("--by", default=",".join(INNER))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    recipes, inners = given.recipes.split(","), given.by.split(",")
    costs: dict[str, dict[str, float]] = {}

    def beside(rows: list[Row]) -> dict[str, Any]:
        sets = {each: vars(SETS[each]) for each in costs}
        measured_on = {"steps": STEPS, "samples": given.samples, "machine": platform.platform()}
        return measured_on | {"sets": sets, "summary": summary(rows, costs)}

    kept = Resumed(given.output, beside)
    for name in given.sets.split(","):
        costs[name] = seconds(name)
        for row in measured(name, recipes, inners, given.seeds, given.samples, list(kept.rows)):
            kept.add(row)
            print(name, row["recipe"], row["by"], row["seed"], row["broken"], flush=True)
    for table in shown(summary(kept.rows, costs)):
        Console().print(table)


if __name__ == "__main__":
    main()
