"""A board of our own, from nothing: train defenses, make a reference, evaluate, and pack what a leaderboard needs.

    python scripts/make_board.py [--out DIR] [--workers N] [--ship DIR] [--small]

Everything is one small network on Fashion-MNIST. Each training and each evaluation is a job of its own in ``--out``;
the same command goes on where it stopped, and ``--workers`` processes share the jobs out. Then ``DIR/board`` holds
the outcome tables, the cards of all trainings, the reference, and ``about.json``, and ``DIR/site`` the leaderboard.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import torch

import robustatlas as ra
from robustatlas.attacks.definition import Attack, grid
from robustatlas.attacks.suites import SUITES
from robustatlas.classifier import Classifier, Origin
from robustatlas.datasets import Dataset
from robustatlas.files import write_text
from robustatlas.metrics import AccuracyStatistics, bootstrap_intervals
from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing, Transformation
from robustatlas.references import Reference, load_reference
from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.result import Result
from robustatlas.training import ReferencePlan, Settings, load_trained, make_reference, network_for, recipe_named

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

Job = Callable[[], None]


@cache
def images(name: str, split: Literal["train", "test"], count: int | None = None) -> Dataset:
    """A data set, or so many of its images, evenly from all classes; read once in each process."""
    return ra.load_dataset(name, split).take(count, stratified=True)


def train_one(board: Board, out: Path, name: str) -> None:
    """One network, in ``out/nets``."""
    data = images(board.data, "train", board.training)
    given = board.defenses[name]
    recipe = recipe_named(given.recipe, given.against or None, _steps(board, given), **given.settings)
    net = network_for(board.architecture, data)
    place = out / "nets" / name
    ra.train(net, data, recipe, settings=board.trainer(), out=place, architecture=board.architecture, progress=False)


def _steps(board: Board, defense: Defense) -> int | None:
    return (defense.steps or board.steps) if defense.against else None


def reference_of(board: Board, out: Path) -> Path:
    """The folder of the reference, which is called after it."""
    return out / f"{board.data}-{board.architecture}"


def refer(board: Board, out: Path, part: int, parts: int) -> None:
    """One part of the reference."""
    training, test = images(board.data, "train", board.training), images(board.data, "test")
    make_reference(board.plan(), training, test, reference_of(board, out), (part, parts), progress=False)


def evaluate_one(board: Board, out: Path, name: str) -> None:
    """One defense against all attacks, in ``out/runs``."""
    attacks: list[str | Attack] = list(board.attacks)
    if name in board.transformations:
        base, transformation = board.transformations[name]
        bare = load_trained(out / "nets" / base)
        model = Classifier(
            Defended(bare.net, transformation),  # type: ignore[arg-type]  # a trained network is a module
            name=name,
            origin=Origin(f"trained:{base} behind {transformation}"),
        )
        through = {attack.name: attack for attack in SUITES[THROUGH].build("default")}
        attacks = [through.get(attack, attack) for attack in board.attacks]
    else:
        model = Classifier(load_trained(out / "nets" / name), name=name, origin=Origin(f"trained:{name}"))
    ra.evaluate(
        model,
        images(board.data, "test"),
        attacks,
        strengths=board.attacks,
        samples=board.test,
        run=out / "runs" / name,
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


def _timed(out: Path, stage: str, name: str, job: Job) -> str:
    """Run a job in this process and note its time."""
    torch.set_num_threads(1)
    wall, processor = time.perf_counter(), time.process_time()
    job()
    line = {
        "stage": stage,
        "job": name,
        "seconds": round(time.perf_counter() - wall, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }
    with (out / "times.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return f"{stage} {name}: {line['seconds']:.0f} s"


def _times(out: Path) -> dict[str, dict[str, float]]:
    """Seconds by stage: those of each job's first run (later ones only find that all is there)."""
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for text in (out / "times.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        first.setdefault((line["stage"], line["job"]), line)
    return {
        what: {
            stage: round(sum(line[what] for line in first.values() if line["stage"] == stage), 1)
            for stage in dict.fromkeys(stage for stage, _ in first)
        }
        for what in ("seconds", "processor_seconds")
    }


def make(board: Board, out: Path, workers: int = 1) -> None:
    """All stages; what is in ``out`` already is not done again."""
    out.mkdir(parents=True, exist_ok=True)
    parts = sum(1 for _ in board.plan().trainings())
    names = [*board.defenses, *board.transformations]
    stages: list[tuple[str, dict[str, Job]]] = [
        ("train", {name: partial(train_one, board, out, name) for name in board.defenses}),
        ("reference", {f"{k}/{parts}": partial(refer, board, out, k, parts) for k in range(parts)}),
        ("evaluate", {name: partial(evaluate_one, board, out, name) for name in names}),
    ]
    for stage, jobs in stages:
        begun = time.perf_counter()
        if workers == 1:
            for name, job in jobs.items():
                print(_timed(out, stage, name, job), flush=True)
        else:
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                waiting = [pool.submit(_timed, out, stage, name, job) for name, job in jobs.items()]
                for done in as_completed(waiting):
                    print(done.result(), flush=True)
        print(f"stage {stage}: {time.perf_counter() - begun:.0f} s", flush=True)
    refer(board, out, 0, 1)  # whichever part was last: the reference is put together of all
    pack(board, out)
    size = sum(path.stat().st_size for path in (out / "board").rglob("*") if path.is_file())
    print(f"Tables and cards: {out / 'board'} ({size / 1e6:.1f} MB)\nLeaderboard: {out / 'site' / 'index.html'}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("board"))
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--ship", type=Path, help="put the tables, cards and reference here as well")
    parser.add_argument("--small", action="store_true", help="the whole chain in seconds, on digits")
    given = parser.parse_args()
    board = SMALL if given.small else FULL
    make(board, given.out, given.workers)
    if given.ship is not None:
        shutil.rmtree(given.ship, ignore_errors=True)
        shutil.copytree(given.out / "board", given.ship)


if __name__ == "__main__":
    main()
