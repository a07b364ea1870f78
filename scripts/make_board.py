"""A board of our own, from nothing: train defenses, make a reference, evaluate, and pack what a leaderboard needs.

    python scripts/make_board.py [--board fashion|cifar10|small] [--seeds N] [--effort low] [--out DIR] [--workers N]
                                 [--ray-address ADDRESS] [--ship DIR]

Everything is one small network. Each training and each evaluation is a job of its own in ``--out``; the same command
goes on where it stopped, and ``--workers`` processes, or a cluster of Ray, share the jobs out. A seed is a whole
replicate, with trainings and a reference of its own, and one is finished before the next begins; what is there of
all seeds is packed after each. Then ``DIR/board`` holds the outcome tables, the cards of all trainings, the
references, and ``about.json``, and ``DIR/site`` the leaderboard.
"""

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from board_archive import archive_runs
from board_tables import mean_reference, table
from torch import nn

import robustatlas as ra
from robustatlas.attacks.definition import Attack, Effort, grid
from robustatlas.attacks.suites import SUITES
from robustatlas.common.files import write_text
from robustatlas.data import Dataset
from robustatlas.evaluation import Cluster
from robustatlas.metrics.references import load_reference
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing, Transformation
from robustatlas.report.leaderboard import build_leaderboard
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
        split: where the training images of the set are not at hand: so many of its test images train, and those after
            them evaluate.
        seeds: replicates of everything.
        effort: of the evaluations of the defenses.
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
    split: int | None = None
    seeds: int = 1
    effort: Effort = "default"

    def trainer(self, seed: int) -> Settings:
        """Return the settings of all trainings, those of the reference among them."""
        return Settings(epochs=self.epochs, learning_rate=self.learning_rate, monitored=64, held_out=256, seed=seed)

    def plan(self, seed: int) -> ReferencePlan:
        """Return the plan of the reference: the best of all models trained against an attack, at any strength."""
        return ReferencePlan(
            self.architecture,
            self.attacks,
            rule="ata",
            trained=self.references,
            recipe="pgd",
            steps=self.steps,
            recipe_settings={"warmup": 0.3},
            settings=self.trainer(seed),
            samples=self.test,
        )


_LINF, _L2, _L1 = {"linf": 0.1}, {"l2": 1.25}, {"l1": 8.0}
_THREE = _LINF | _L2 | _L1
_WARM = {"warmup": 0.3}

_ON_CIFAR = {"linf": 4 / 255, "l2": 0.4, "l1": 6.0, "lpips": 0.3, "elastic": 0.4}

FULL = Board(
    data="fashion-mnist",
    architecture="small-cnn",
    training=10_000,
    test=1000,
    epochs=8,
    steps=7,
    seeds=3,
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
        "mart-linf": Defense("mart", _LINF, _WARM),
        "awp-linf": Defense("awp", _LINF, _WARM),
        "uniform-joint": Defense("uniform", {"linf": 0.2, "elastic": 0.7}),
    },
    transformations={
        "bits-standard": ("standard", BitDepthReduction(2)),
        "median-standard": ("standard", MedianSmoothing(3)),
        "jpeg-standard": ("standard", JPEGCompression(25)),
        "jpeg-pgd-linf": ("pgd-linf", JPEGCompression(25)),
    },
)

CIFAR = replace(
    FULL,
    data="cifar10",
    training=8000,
    split=8000,
    attacks={
        "linf": grid(16 / 255, 10),
        "l2": grid(1.0, 10),
        "l1": grid(16.0, 10),
        "stadv": grid(0.05, 10),
        "recolor": grid(0.1, 10),
        "elastic": grid(0.6, 10),
        "jpeg-linf": grid(0.3, 10),
        "fog": grid(50.0, 10),
    },
    references={
        "linf": (4 / 255, 8 / 255),
        "l2": (0.3, 0.6),
        "l1": (4.0, 8.0),
        "stadv": (0.015, 0.03),
        "recolor": (0.03, 0.06),
        "elastic": (0.2, 0.4),
        "jpeg-linf": (0.1, 0.2),
        "fog": (15.0, 30.0),
    },
    defenses={
        name: replace(given, against={attack: _ON_CIFAR[attack] for attack in given.against})
        for name, given in FULL.defenses.items()
    },
)
"""A miniature of CIFAR-10: of its test images the first 8,000 train, and the rest evaluates."""

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


def images(name: str, split: Literal["train", "test"], at: int | None = None, count: int | None = None) -> Dataset:
    """A data set, or so many of its images, evenly from all classes; ``at``: its test images up to there train."""
    if at is None:
        return ra.load_dataset(name, split).take(count, stratified=True)
    whole = ra.load_dataset(name)
    part = slice(at) if split == "train" else slice(at, None)
    called = f"{name} (test images {part.start or 0} to {(part.stop or len(whole)) - 1})"
    return Dataset.from_arrays(whole.rows[part], whole.labels[part], called, whole.classes).take(count, stratified=True)


def network_name(name: str, seed: int) -> str:
    """Return the name of a network of one seed, such as 'msd-seed1'."""
    return f"{name}-seed{seed}"


def train_one(place: Path, board: Board, about: tuple[str, int]) -> None:
    """Train one network in a folder."""
    name, seed = about
    data = images(board.data, "train", board.split, board.training)
    given = board.defenses[name]
    steps = (given.steps or board.steps) if given.against else None
    recipe = recipe_named(given.recipe, given.against or None, steps, **given.settings)
    net = network_for(board.architecture, data, seed)
    settings = board.trainer(seed)
    ra.train(net, data, recipe, settings=settings, out=place, architecture=board.architecture, progress=False)


def reference_folder(board: Board, out: Path, seed: int) -> Path:
    """Return the folder of the reference of a seed; the reference has its name."""
    return out / f"{board.data}-{board.architecture}-seed{seed}"


def runs_folder(board: Board, out: Path) -> Path:
    """Return the folder of the evaluations; another effort has another folder."""
    return out / ("runs" if board.effort == "default" else f"runs-{board.effort}")


def evaluate_one(place: Path, shared: tuple[Board, Mapping[str, nn.Module]], about: tuple[str, int]) -> None:
    """Evaluate one defense against all attacks in a folder; ``shared`` holds the board and the networks."""
    (board, nets), (name, seed) = shared, about
    attacks: list[str | Attack] = list(board.attacks)
    if name in board.transformations:
        base, transformation = board.transformations[name]
        model = Classifier(
            Defended(nets[base], transformation),
            name=network_name(name, seed),
            origin=Origin(f"trained:{network_name(base, seed)} behind {transformation}"),
        )
        through = {attack.name: attack for attack in SUITES[THROUGH].build("default")}
        attacks = [through.get(attack, attack) for attack in board.attacks]
    else:
        model = Classifier(
            nets[name], name=network_name(name, seed), origin=Origin(f"trained:{network_name(name, seed)}")
        )
    ra.evaluate(
        model,
        images(board.data, "test", board.split),
        attacks,
        strengths=board.attacks,
        samples=board.test,
        effort=board.effort,
        run=place,
        progress=False,
    )


def pack(board: Board, out: Path, seeds: Sequence[int]) -> None:
    """The tables, cards and references of some seeds, and the site made of them."""
    box = out / "board"
    shutil.rmtree(box, ignore_errors=True)
    names = [*board.defenses, *board.transformations]
    for name in (network_name(name, seed) for name in names for seed in seeds):
        shutil.copytree(runs_folder(board, out) / name, box / "runs" / name)
    folders = [("defenses", out / "nets"), *(("reference", reference_folder(board, out, seed)) for seed in seeds)]
    for kind, folder in folders:
        for card in sorted(folder.glob("*/card.json")):
            target = box / "cards" / kind / f"{card.parent.name}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(card, target)
    references = {seed: load_reference(reference_folder(board, out, seed) / "reference.json") for seed in seeds}
    for seed, own in references.items():
        own.to_json(box / f"reference-seed{seed}.json")
    reference = mean_reference(f"{board.data}-{board.architecture}", list(references.values()))
    reference.to_json(box / "reference.json")
    about = {network_name(name, seed): _card_facts(board, name) for name in names for seed in seeds}
    write_text(box / "about.json", json.dumps(about, indent=1) + "\n")
    write_text(box / "times.json", json.dumps(_times(out), indent=1) + "\n")
    results = {name: [ra.load_result(box / "runs" / network_name(name, seed)) for seed in seeds] for name in names}
    write_text(box / "table.md", table(list(board.attacks), results, list(references.values())))
    of_each = f", {len(seeds)} of each" if len(seeds) > 1 else ""
    title = f"{len(names)} defenses of {board.architecture} on {board.data}{of_each}"
    build_leaderboard([result for each in results.values() for result in each], out / "site", reference, about, title)


def _card_facts(board: Board, name: str) -> dict[str, Any]:
    """Return the facts of a model for its card that a run does not know."""
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
    """Return the seconds of each stage, over all calls that worked at it."""
    seconds: dict[str, float] = {}
    for text in (out / "times.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        seconds[line["stage"]] = round(seconds.get(line["stage"], 0.0) + line["seconds"], 1)
    return {"seconds": seconds}


def make(board: Board, out: Path, workers: int = 1, ray: str | None = None) -> None:
    """Run all stages, seed after seed, without repeating what is in ``out``; ``ray`` is the address of a cluster."""
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    cluster = Cluster(ray) if ray else None
    places = cluster or (["cpu"] * workers if workers > 1 else ())

    def run_in_folders(fill: Fill, shared: Any, folders: Mapping[Path, tuple[str, int]]) -> None:
        fill_folders(fill, shared, folders, places, lambda place: print(place.relative_to(out), flush=True), print)

    for seed in range(board.seeds):
        nets, runs = out / "nets", runs_folder(board, out)
        with _timed(out, "train"):
            run_in_folders(train_one, board, {nets / network_name(name, seed): (name, seed) for name in board.defenses})
        with _timed(out, "reference"):
            training = images(board.data, "train", board.split, board.training)
            test, folder = images(board.data, "test", board.split), reference_folder(board, out, seed)
            make_reference(board.plan(seed), training, test, folder, progress=False, workers=workers, ray=cluster)
        with _timed(out, "evaluate"):
            trained = {name: load_trained(nets / network_name(name, seed)).net for name in board.defenses}
            names = [*board.defenses, *board.transformations]
            run_in_folders(
                evaluate_one, (board, trained), {runs / network_name(name, seed): (name, seed) for name in names}
            )
        pack(board, out, range(seed + 1))
    size = sum(path.stat().st_size for path in (out / "board").rglob("*") if path.is_file())
    print(f"Tables and cards: {out / 'board'} ({size / 1e6:.1f} MB)\nLeaderboard: {out / 'site' / 'index.html'}")


def ship(box: Path, into: Path) -> None:
    """Copy a packed board to another folder, with its runs as one small archive."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(box, into, ignore=shutil.ignore_patterns("runs"))
    archive_runs(box / "runs", into / "runs.tar.xz")


BOARDS = {"fashion": FULL, "cifar10": CIFAR, "small": SMALL}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("board"))
    parser.add_argument(
        "--board", choices=BOARDS, default="fashion", help="small: the whole chain in seconds, on digits"
    )
    parser.add_argument("--seeds", type=int, help="replicates; by default those of the board")
    parser.add_argument("--effort", choices=["low", "default", "high"], default="default", help="of the evaluations")
    parser.add_argument("--workers", type=int, default=1, help="processes of one thread each")
    parser.add_argument("--ray-address", help="of a cluster of Ray that does the work")
    parser.add_argument("--ship", type=Path, help="put the tables, cards and references here as well")
    parser.add_argument("--small", action="store_true", help="as --board small")
    given = parser.parse_args()
    board = BOARDS["small" if given.small else given.board]
    board = replace(board, effort=given.effort, seeds=given.seeds or board.seeds)
    make(board, given.out, given.workers, given.ray_address)
    if given.ship is not None:
        ship(given.out / "board", given.ship)


if __name__ == "__main__":
    main()
