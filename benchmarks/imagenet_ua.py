"""ImageNet-UA: our default beside the published optimizer on the same sets, at low, medium and high.

    python benchmarks/imagenet_ua.py [--models delta,stadv] [--attacks ua-fog,ua-wood] [--first 1000] [--samples 100]
        [--seeds 2] [--kept FOLDER] [--minutes 10] [--output FILE.json]

Takes CIFAR-10 ResNet-32 weights in ROBUSTATLAS_MODELS and CIFAR-10 in ROBUSTATLAS_DATA. The published optimizer runs
with the published length and number of steps from random starts, its last iterate counts, and samples that are
misclassified clean count as wrong. As snow's sound sets have another unit, its steps are the published share of the
medium level there.

Images come in blocks, all attacks on the first block by the first seed before any other. What was found stays in the
folder, so that a benchmark that was stopped, or whose minutes are over, goes on there; the rows are always of all that
is there.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import robustatlas as ra
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.optimizers.pgd import PGD
from threats import subjects

SMALL = (32, 32)
SUITES = ("imagenet-ua", "imagenet-ua-extra")
BLOCK = 20
WAYS = ("default", "published")


def published_on_sound_sets(sound: Attack, paper: Attack) -> Attack:
    """The published optimizer on the sets of ``sound``."""

    def stepping(run: Any) -> Any:
        optimizer: PGD = run.optimizer
        if paper.about.unit != sound.about.unit:
            assert optimizer.length is not None
            scale = sound.strengths[1] / paper.strengths[1]
            optimizer = replace(optimizer, length=scale * optimizer.length)
        return replace(run, optimizer=optimizer)

    return replace(
        paper.with_runs(stepping), threat=sound.threat, strengths=sound.strengths, repairs=False, contains_clean=True
    )


@dataclass(frozen=True)
class Cell:
    """Unit of work: a block of images, by a seed, of a network, by one of the two ways."""

    first: int
    seed: int
    attack: str
    model: str
    way: str

    @property
    def file(self) -> str:
        return f"{self.attack} {self.model} {self.way} {self.seed} {self.first}.json"


def cells(attacks: list[str], asked: argparse.Namespace) -> Iterator[Cell]:
    """Yield the units of work: a little of everything before much of anything."""
    for first in range(asked.first, asked.first + asked.samples, BLOCK):
        for seed in range(asked.seeds):
            for attack in attacks:
                for model in asked.models.split(","):
                    for way in WAYS:
                        yield Cell(first, seed, attack, model, way)


def search_block(model: ra.Classifier, data: ra.Dataset, attack: Attack, cell: Cell) -> dict[str, Any]:
    """Return the images that stand at each level, and the passes of an image at all levels together."""
    result = ra.evaluate(
        model, data, attack, search="descent" if cell.way == "default" else "every",
        samples=list(range(cell.first, cell.first + BLOCK)), seed=cell.seed, diagnose=False, progress=False,
    )  # fmt: skip
    standing = result.clean[:, None] & ~result.outcome(attack.name).broken(attack.strengths)
    return {"standing": standing.astype(int).tolist(), "passes": float(sum(result.passes(attack.name)))}


def worked(kept: Path, pairs: dict[str, dict[str, Attack]], asked: argparse.Namespace) -> None:
    """Find what is not in the folder yet, until the minutes are over."""
    models, data = subjects(asked.models.split(","))
    end = time.monotonic() + 60 * asked.minutes
    for cell in cells(list(pairs), asked):
        if time.monotonic() > end:
            return
        if not (path := kept / cell.file).is_file():
            numbers = search_block(models[cell.model], data, pairs[cell.attack][cell.way], cell)
            path.write_text(json.dumps(numbers), encoding="utf-8")
            left = np.mean(numbers["standing"], 0) * 100
            print(
                f"{path.stem}: {'/'.join(f'{each:.0f}' for each in left)}, {numbers['passes']:.0f} passes", flush=True
            )


def rows_of(kept: Path, attacks: list[str], asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each network and attack, of the blocks that both ways have finished by the same seed."""
    rows = []
    there = [cell for cell in cells(attacks, asked) if all((kept / replace(cell, way=w).file).is_file() for w in WAYS)]
    for model in asked.models.split(","):
        for attack in attacks:
            if own := [cell for cell in there if (cell.model, cell.attack) == (model, attack)]:
                ways = {way: _merge_blocks(kept, [cell for cell in own if cell.way == way]) for way in WAYS}
                rows.append({"model": model, "attack": attack} | ways)
    return rows


def _merge_blocks(kept: Path, blocks: list[Cell]) -> dict[str, Any]:
    """Return the numbers of the first seed, and of all seeds on the images that all have seen.

    Of the first seed: number of images, percentage that stands at each level, and passes of an image. Of all: number of
    images and percentages.
    """
    found = {(cell.seed, cell.first): json.loads((kept / cell.file).read_text(encoding="utf-8")) for cell in blocks}
    seeds = list(dict.fromkeys(seed for seed, _ in found))
    common = [first for seed, first in found if seed == seeds[0] and all((other, first) in found for other in seeds)]
    standing = {
        seed: np.concatenate(
            [each["standing"] for (by, first), each in found.items() if by == seed and first in common]
        )
        for seed in seeds
    }
    own = [each for (seed, _), each in found.items() if seed == seeds[0]]
    every = np.concatenate([each["standing"] for each in own])
    return {
        "samples": len(every),
        "accuracies": _percent(every),
        "passes": round(float(np.mean([each["passes"] for each in own])), 1),
        "samples of all seeds": len(standing[seeds[0]]),
        "accuracies by seed": [_percent(each) for each in standing.values()],
    }


def _percent(standing: NDArray[np.int64]) -> list[float]:
    return [round(float(share), 1) for share in 100 * standing.mean(0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="delta,stadv")
    parser.add_argument("--attacks", help="only these, in this order")
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=Path("build/imagenet_ua"))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--output", type=Path, default=Path("imagenet_ua.json"))
    asked = parser.parse_args()
    both = zip(resolve_attacks(SUITES, sides=SMALL), resolve_attacks(SUITES, "paper", SMALL), strict=True)
    pairs = {s.name: {"default": s, "published": published_on_sound_sets(s, p)} for s, p in both}
    attacks = asked.attacks.split(",") if asked.attacks else list(pairs)
    asked.kept.mkdir(parents=True, exist_ok=True)
    worked(asked.kept, {name: pairs[name] for name in attacks}, asked)
    asked.output.write_text(json.dumps(rows_of(asked.kept, attacks, asked), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
