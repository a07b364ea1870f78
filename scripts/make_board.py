"""A board of our own, from nothing: train defenses, make a reference, evaluate, and pack what a leaderboard needs.

    python scripts/make_board.py [--out DIR] [--workers N] [--ray-address ADDRESS] [--ship DIR] [--small]

Everything is one small network on Fashion-MNIST. Each training and each evaluation is a job of its own in ``--out``;
the same command goes on where it stopped, and ``--workers`` processes, or a cluster of Ray, share the jobs out. Then
``DIR/board`` holds the outcome tables, the cards of all trainings, the reference, and ``about.json``, and ``DIR/site``
the leaderboard.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

import robustatlas as ra
from robustatlas.attacks.definition import Attack, grid
from robustatlas.attacks.suites import SUITES
from robustatlas.classifier import Classifier, Origin
from robustatlas.datasets import Dataset
from robustatlas.evaluation import Cluster
from robustatlas.files import write_text
from robustatlas.metrics import AccuracyStatistics, bootstrap_intervals
from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing, Transformation
from robustatlas.references import Reference, load_reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.result import Result
from robustatlas.training import ReferencePlan, Settings, load_trained, make_reference, network_for, recipe_named
from robustatlas.training.shared_out import Fill, fill_folders

THROUGH = "input-transformation"
"""The suite by which networks behind input transformations are attacked."""


@dataclass(frozen=True)
class Defense:
    """A network to train: recipe, what against, and settings of the recipe."""

    recipe: str
    against: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None


@dataclass(frozen=True)
class Board:
    """Everything that the numbers depend on.

    Attributes:
        data: name of the data set.
        architecture: of all networks.
        training: training images, evenly from all classes.
        test: test images, the first ones.
        epochs: of every training.
        steps: of crafting, where a defense says nothing.
        attacks: name -> strengths.
        references: name -> strengths that the models of the reference are trained at.
        defenses: the networks.
        transformations: name -> (defense, what is put before its network).
        learning_rate: of Adam, the top of a one-cycle schedule.
    """

    data: str
    architecture: str
    training: int
    test: int
    epochs: int
    steps: int
    attacks: Mapping[str, tuple[float, ...]]
    references: Mapping[str, tuple[float, ...]]
    defenses: Mapping[str, Defense]
    transformations: Mapping[str, tuple[str, Transformation]]
    learning_rate: float = 3e-3

    def trainer(self) -> Settings:
        """Of all networks, those of the reference among them."""
        return Settings(epochs=self.epochs, learning_rate=self.learning_rate, monitored=64, held_out=256)

    def plan(self) -> ReferencePlan:
        """Of the reference: the best of all models trained against an attack, at whatever strength."""
        return ReferencePlan(
            self.architecture,
            self.attacks,
            rule="ata",
            trained=self.references,
            recipe="pgd",
            steps=self.steps,
            recipe_settings={"warmup": 0.3},
            settings=self.trainer(),
            samples=self.test,
        )


_LINF, _L2, _L1 = {"linf": 0.1}, {"l2": 1.25}, {"l1": 8.0}
_THREE = _LINF | _L2 | _L1
_WARM = {"warmup": 0.3}

FULL = Board(
    data="fashion-mnist",
    architecture="small-cnn",
    training=4000,
    test=120,
    epochs=5,
    steps=5,
    attacks={
        "linf": grid(0.2, 10),
        "l2": grid(2.5, 10),
        "l1": grid(20.0, 10),
        "stadv": grid(0.1, 10),
        "elastic": grid(1.0, 10),
        "jpeg-linf": grid(1.5, 10),
        "fog": grid(100.0, 10),
        "brightness": grid(0.5, 10),
    },
    references={
        "linf": (0.06, 0.14),
        "l2": (0.75, 1.75),
        "l1": (4.0, 12.0),
        "stadv": (0.03, 0.07),
        "elastic": (0.3, 0.7),
        "jpeg-linf": (0.45, 1.05),
        "fog": (30.0, 70.0),
        "brightness": (0.2, 0.4),
    },
    defenses={
        "standard": Defense("standard"),
        "pgd-linf": Defense("pgd", _LINF, _WARM),
        "pgd-l2": Defense("pgd", _L2, _WARM),
        "pgd-l1": Defense("pgd", _L1, _WARM),
        "uniform-linf": Defense("uniform", {"linf": 0.2}),
        "trades-linf": Defense("trades", _LINF, _WARM),
        "ascending-linf": Defense("ascending", _LINF, {"points": "replace"}),
        "avg": Defense("avg", _THREE, _WARM),
        "max": Defense("max", _THREE, _WARM),
        "msd": Defense("msd", _THREE, _WARM),
        "sat": Defense("sat", _THREE, _WARM),
        "mng-ac": Defense("mng-ac", _THREE, _WARM),
        "e-at": Defense("e-at", _LINF | _L1, _WARM),
        "pat": Defense("pat", {"lpips": 0.5}, _WARM),
        "variation-linf": Defense("variation", _LINF, _WARM),
        "manifold-linf": Defense("manifold", _LINF),
    },
    transformations={
        "bits-standard": ("standard", BitDepthReduction(2)),
        "median-standard": ("standard", MedianSmoothing(3)),
        "jpeg-standard": ("standard", JPEGCompression(25)),
        "jpeg-pgd-linf": ("pgd-linf", JPEGCompression(25)),
    },
)

SMALL = Board(
    data="digits",
    architecture="digits-cnn",
    training=600,
    test=40,
    epochs=8,
    steps=2,
    attacks={"linf": grid(0.2, 4), "contrast": grid(0.5, 4)},
    references={"linf": (0.1,), "contrast": (0.5,)},
    defenses={"standard": Defense("standard"), "pgd-linf": Defense("pgd", _LINF, _WARM)},
    transformations={"bits-standard": ("standard", BitDepthReduction(1))},
    learning_rate=1e-2,
)
"""A look at the whole chain in seconds; its numbers mean nothing."""


@cache
def images(name: str, split: Literal["train", "test"], count: int | None = None) -> Dataset:
    """A data set, or so many of its images, evenly from all classes; read once in each process."""
    return ra.load_dataset(name, split).take(count, stratified=True)


def train_one(place: Path, board: Board, name: str) -> None:
    """One network, in a folder."""
    data = images(board.data, "train", board.training)
    given = board.defenses[name]
    steps = (given.steps or board.steps) if given.against else None
    recipe = recipe_named(given.recipe, given.against or None, steps, **given.settings)
    net = network_for(board.architecture, data)
    ra.train(net, data, recipe, settings=board.trainer(), out=place, architecture=board.architecture, progress=False)


def reference_of(board: Board, out: Path) -> Path:
    """The folder of the reference, which is called after it."""
    return out / f"{board.data}-{board.architecture}"


def evaluate_one(place: Path, shared: tuple[Board, Mapping[str, nn.Module]], name: str) -> None:
    """One defense against all attacks, in a folder; ``shared``: the board, and the networks."""
    board, nets = shared
    attacks: list[str | Attack] = list(board.attacks)
    if name in board.transformations:
        base, transformation = board.transformations[name]
        model = Classifier(
            Defended(nets[base], transformation), name=name, origin=Origin(f"trained:{base} behind {transformation}")
        )
        through = {attack.name: attack for attack in SUITES[THROUGH].build("default")}
        attacks = [through.get(attack, attack) for attack in board.attacks]
    else:
        model = Classifier(nets[name], name=name, origin=Origin(f"trained:{name}"))
    ra.evaluate(
        model,
        images(board.data, "test"),
        attacks,
        strengths=board.attacks,
        samples=board.test,
        run=place,
        progress=False,
    )


def pack(board: Board, out: Path) -> None:
    """The tables, cards and reference, and the site made of them."""
    box = out / "board"
    shutil.rmtree(box, ignore_errors=True)
    names = [*board.defenses, *board.transformations]
    for name in names:
        shutil.copytree(out / "runs" / name, box / "runs" / name)
    for kind, folder in (("defenses", out / "nets"), ("reference", reference_of(board, out))):
        for card in sorted(folder.glob("*/card.json")):
            target = box / "cards" / kind / f"{card.parent.name}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(card, target)
    shutil.copy(reference_of(board, out) / "reference.json", box / "reference.json")
    about = {name: _about(board, name) for name in names}
    write_text(box / "about.json", json.dumps(about, indent=1) + "\n")
    write_text(box / "times.json", json.dumps(_times(out), indent=1) + "\n")
    results = [ra.load_result(box / "runs" / name) for name in names]
    reference = load_reference(box / "reference.json")
    write_text(box / "table.md", table(board, results, reference))
    title = f"{len(names)} defenses of {board.architecture} on {board.data}"
    build_leaderboard(results, out / "site", reference, about, title)


def table(board: Board, results: Sequence[Result], reference: Reference) -> str:
    """The board in Markdown, the highest competitiveness ratio first; in percent, with 95 % intervals over images."""
    rows = []
    for result in results:
        statistics = AccuracyStatistics(result)
        ratio, mean = statistics.competitiveness(reference), statistics.uar(reference)
        spread = bootstrap_intervals({"CR": ratio, "mUAR": mean})
        worst = statistics.competitiveness(reference, "ind-worst").value
        accuracies = result.accuracies()
        averages = [f"{statistics.average([attack]).value:.0f}" for attack in board.attacks]
        shown = [f"{i.value:.1f} [{i.low:.1f}, {i.high:.1f}]" for i in (spread["CR"], spread["mUAR"])]
        cells = [f"`{result.name}`", f"{accuracies.clean:.1f}", shown[0], f"{worst:.1f}", shown[1], *averages]
        rows.append((ratio.value, cells))
    rows.sort(key=lambda row: -row[0])
    head = ["defense", "clean", "CR", "worst CR", "mUAR", *board.attacks]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *(cells for _, cells in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _about(board: Board, name: str) -> dict[str, Any]:
    """What a run does not know of its model."""
    base, transformation = board.transformations.get(name, (name, None))
    defense = board.defenses[base]
    against = ", ".join(f"{attack} {strength:g}" for attack, strength in defense.against.items())
    notes = f"recipe {defense.recipe}{f' against {against}' if against else ''}, {board.epochs} epochs"
    if transformation is not None:
        notes += f", behind {transformation}; linf and l2 by the suite {THROUGH}"
    known = {attack: strength for attack, strength in defense.against.items() if attack in board.attacks}
    return {"architecture": board.architecture, "extra_data": False, "trained_on": known, "notes": notes}


@contextmanager
def _timed(out: Path, stage: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    line = {"stage": stage, "seconds": round(time.perf_counter() - begun, 1)}
    with (out / "times.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(f"stage {stage}: {line['seconds']:.0f} s", flush=True)


def _times(out: Path) -> dict[str, dict[str, float]]:
    """Seconds by stage, of all calls that worked at it."""
    seconds: dict[str, float] = {}
    for text in (out / "times.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        seconds[line["stage"]] = round(seconds.get(line["stage"], 0.0) + line["seconds"], 1)
    return {"seconds": seconds}


def make(board: Board, out: Path, workers: int = 1, ray: str | None = None) -> None:
    """All stages; what is in ``out`` already is not done again. ``ray``: address of a cluster that works at them."""
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    cluster = Cluster(ray) if ray else None
    places = cluster or (["cpu"] * workers if workers > 1 else ())
    nets, runs = out / "nets", out / "runs"

    def carried_out(fill: Fill, shared: Any, folders: Mapping[Path, str]) -> None:
        fill_folders(fill, shared, folders, places, lambda place: print(place.relative_to(out), flush=True), print)

    with _timed(out, "train"):
        carried_out(train_one, board, {nets / name: name for name in board.defenses})
    with _timed(out, "reference"):
        training, test = images(board.data, "train", board.training), images(board.data, "test")
        folder = reference_of(board, out)
        make_reference(board.plan(), training, test, folder, progress=False, workers=workers, ray=cluster)
    with _timed(out, "evaluate"):
        trained = {name: load_trained(nets / name).net for name in board.defenses}
        carried_out(evaluate_one, (board, trained), {runs / n: n for n in [*board.defenses, *board.transformations]})
    pack(board, out)
    size = sum(path.stat().st_size for path in (out / "board").rglob("*") if path.is_file())
    print(f"Tables and cards: {out / 'board'} ({size / 1e6:.1f} MB)\nLeaderboard: {out / 'site' / 'index.html'}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("board"))
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--ray-address", help="of a cluster of Ray that does the work")
    parser.add_argument("--ship", type=Path, help="put the tables, cards and reference here as well")
    parser.add_argument("--small", action="store_true", help="the whole chain in seconds, on digits")
    given = parser.parse_args()
    board = SMALL if given.small else FULL
    make(board, given.out, given.workers, given.ray_address)
    if given.ship is not None:
        shutil.rmtree(given.ship, ignore_errors=True)
        shutil.copytree(given.out / "board", given.ship)


if __name__ == "__main__":
    main()
