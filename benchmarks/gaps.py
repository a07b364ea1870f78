"""Gaps of the default of an attack to the best known: in robust accuracy at each strength, and between seeds.

Best known is, of each sample, the smallest example of some seeds of the default and, as --more says, of high effort, of
brute force (longer ascents than any default has: three targets and two restarts, just below the best until all fail),
of the default with two or four times the runs, patience and passes at most ("2x", "4x"), of the same through the
network's own gradient alone ("unsmoothed") and of all its runs through smoothed ReLUs ("smoothed"). A gap is the
accuracy by the first seed minus that by the best known; beside it, the share of samples whose size is within 1 % of it.
Networks joined by + are one row, their samples taken together.

    python benchmarks/gaps.py [--models stadv_delta+recoloradv,mnistfc,attention-cifar] [--attacks gabor,snow,fog]
        [--first 5000] [--samples 20] [--seeds 5] [--more "2x,4x,high effort,brute force"] [--times 1.0]
        [--spread 8] [--search descent] [--networks FOLDER] [--kept FOLDER] [--device cpu] [--output FILE.json]

Networks are those of subjects.py, trained where the folder has none; ``mnistfc``, the fully connected one of VNN-COMP
2021 with four hidden layers and one-hot outputs; ``mmr``, that of MMR for MNIST; and CIFAR-10 ResNet-32 weights by the
end of their names. All but the first are taken from ROBUSTATLAS_MODELS, their data from ROBUSTATLAS_DATA; without them
the built-in digits models, and those attacks that take 8x8 grey images. Strengths are the catalogue's --times a number,
or --spread so many in equal steps from the size that a tenth of the samples fall at to that of nine tenths, by the
search ``minimum``. Only samples that are classified correctly count. With --kept, what was found stays in the folder,
and a benchmark that was stopped goes on there.
"""

import argparse
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.attacks.search.rules import MostPasses, Rule, StopFruitless
from robustatlas.models.architectures import resnet32, small_cnn
from robustatlas.models.weights import load_weights
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.threats.base import UnsupportedInputError
from subjects import HELD_OUT, KEPT, KINDS, correct, fully_connected, trained

MORE = ("high effort", "brute force", "2x", "4x", "unsmoothed", "smoothed")
ATTACKS = "gabor,snow,fog,recolor,jpeg-linf,elastic"
_SHORT = PGD(60, rate=0.25, schedule="cosine", momentum=0.75)
_LONG = PGD(100, rate=0.5, schedule="cosine", momentum=0.5)
BRUTE_FORCE = (
    AttackRun(_SHORT, "margin", targets="logits", start="best", count=3),
    AttackRun(_LONG, "cross-entropy", start="best", count=2),
)


def on_disk(name: str) -> tuple[ra.Classifier, ra.Dataset]:
    """A network of ROBUSTATLAS_MODELS with its data."""
    folder = Path(os.environ["ROBUSTATLAS_MODELS"])
    if name == "mnistfc":
        net = fully_connected(4)
        load_weights(net, folder / "mnistfc_256x4.safetensors")
        return ra.Classifier(net.eval(), name=name), ra.load_dataset("mnist")
    if name == "mmr":
        small = small_cnn()
        load_weights(small, folder / "mnist_mmr_universal.safetensors")
        return ra.Classifier(small.eval(), name=name), ra.load_dataset("mnist")
    net, mean, std = resnet32()
    load_weights(net, folder / f"cifar10_resnet32_{name}.safetensors")
    return ra.Classifier(net.eval(), mean, std, name=name), ra.load_dataset("cifar10")


def subject(name: str, networks: Path) -> tuple[ra.Classifier, ra.Dataset]:
    """A network of that name with its data."""
    if name in KINDS:
        return trained(name, networks)
    if "ROBUSTATLAS_MODELS" in os.environ:
        return on_disk(name)
    return ra.load_model(f"builtin:{name}", name=name), ra.load_dataset("digits")


def attacked(model: ra.Classifier, data: ra.Dataset, first: int, samples: int) -> ra.Dataset:
    """Return the samples that the model classifies correctly."""
    right = correct(model, data, torch.arange(first, first + samples))
    return ra.Dataset.of_rows(data.rows.chosen(right), data.labels[right], name=data.name)


def contenders(attack: Attack, seeds: int, more: Collection[str]) -> Iterator[tuple[str, Attack, dict[str, Any]]]:
    """Yield the searches to compare, the default first."""
    for seed in range(seeds):
        yield f"seed {seed}", attack, {"seed": seed}
    if "high effort" in more:
        yield "high effort", attack, {"effort": "high"}
    if "brute force" in more:
        yield "brute force", forced(attack), {"seed": seeds}
    if "unsmoothed" in more:
        yield "unsmoothed", attack.unsmoothed(), {"seed": 0}
    if "smoothed" in more:
        yield "smoothed", attack.with_runs(smoothed), {"seed": 0}
    for times in (2, 4):
        if f"{times}x" in more:
            yield f"{times}x", longer(attack, times), {"seed": 0}


def smoothed(run: AttackRun) -> AttackRun:
    return replace(run, backward="smoothed") if run.optimizer.needs_gradient else run


def spread(model: ra.Classifier, data: ra.Dataset, attack: Attack, count: int) -> tuple[float, ...]:
    """Return strengths between the sizes at which a tenth and nine tenths of the samples fall."""
    result = ra.evaluate(model, data, attack, search="minimum", diagnose=False, progress=False)
    ends = np.quantile(result.minimal_size(attack.name), [0.1, 0.9])
    return tuple(float(f"{strength:.4g}") for strength in np.linspace(*ends, count))


def forced(attack: Attack) -> Attack:
    """Return the attack with the ascents of brute force, and nothing after them."""
    bounds = attack.plan("descent").runs_in("bound")
    return replace(attack, runs=(*bounds, *BRUTE_FORCE), rules=(), search_order=())


def longer(attack: Attack, times: int) -> Attack:
    """Return the attack with a multiple of the runs after its bounds, of its patience, and of its largest passes."""

    def repeat_run(run: AttackRun) -> AttackRun:
        return run if run.role in ("bound", "refine") else replace(run, count=times * run.count)

    def rule_of(rule: Rule) -> Rule:
        if isinstance(rule, StopFruitless):
            return replace(rule, patience=times * rule.patience, stubborn=times * rule.stubborn)
        return replace(rule, passes=times * rule.passes) if isinstance(rule, MostPasses) else rule

    rules = tuple(rule_of(rule) for rule in (*attack.rules, StopFruitless()))
    kinds = dict(zip(map(type, reversed(rules)), reversed(rules), strict=True))
    return replace(attack.with_runs(repeat_run), rules=tuple(kinds.values()))


def search_sizes(
    folder: Path | None,
    key: str,
    model: ra.Classifier,
    data: ra.Dataset,
    attack: Attack,
    settings: dict[str, Any],
) -> tuple[NDArray[np.float64], float]:
    """Return the smallest size of each sample and the passes a sample; what is in the folder is not searched again."""
    path = folder and folder / f"{key.replace('/', ' ')}.npz"
    if not (path and path.exists()):
        result = ra.evaluate(model, data, attack, diagnose=False, progress=False, **settings)
        sizes, passes = np.asarray(result.minimal_size(attack.name)), float(sum(result.passes(attack.name)))
        if not path:
            return sizes, passes
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, sizes=sizes, passes=passes)
    kept = np.load(path)
    return kept["sizes"], float(kept["passes"])


def accuracies(sizes: NDArray[np.float64], strengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the percentages [S] of the samples that have no example within a strength."""
    return 100 * (sizes[:, None] > strengths * (1 + STRENGTH_TOLERANCE)).mean(0)


def gap_row(
    name: str, strengths: NDArray[np.float64], sizes: dict[str, NDArray[np.float64]], passes: dict[str, float]
) -> dict[str, Any]:
    """Return the row of an attack: accuracies, gap, and differences between seeds."""
    seeds = [found for what, found in sizes.items() if what.startswith("seed")]
    best = np.minimum.reduce(list(sizes.values()))
    gaps = {what: accuracies(each, strengths) - accuracies(best, strengths) for what, each in sizes.items()}
    gap = gaps["seed 0"]
    levels = np.searchsorted(strengths * (1 + STRENGTH_TOLERANCE), np.stack(seeds))
    return {
        "attack": name,
        "samples": len(best),
        "seeds": len(seeds),
        "passes": round(passes["seed 0"], 1),
        "default": round(float(accuracies(seeds[0], strengths).mean()), 2),
        "best known": round(float(accuracies(best, strengths).mean()), 2),
        "mean gap": round(float(gap.mean()), 2),
        "largest gap": round(float(gap.max()), 2),
        "within 1 %": round(100 * float((seeds[0] <= 1.01 * best).mean()), 1),
        "seeds differ": round(100 * float((levels.min(0) != levels.max(0)).mean()), 1),
        "each": {what: [round(float(gaps[what].mean()), 2), round(passes[what], 1)] for what in sizes},
    }


def row_of(name: str, joined: str, asked: argparse.Namespace) -> dict[str, Any] | None:
    """Return the row of an attack on networks that are taken together; None: it cannot be applied to them."""
    strengths: tuple[float, ...] = ()
    sizes: dict[str, list[NDArray[np.float64]]] = {}
    costs: dict[str, float] = {}
    for who in joined.split("+"):
        model, whole = subject(who, asked.networks)
        model = ra.Classifier(model, device=asked.device)
        data = attacked(model, whole, asked.first, asked.samples)
        base = attack_named(name).on_images(tuple(data.images.shape[2:]))
        try:
            base.threat.check(data.images[:1])
        except UnsupportedInputError:
            return None
        if asked.spread:
            strengths = strengths or spread(model, data, base, asked.spread)
        else:
            strengths = tuple(round(asked.times * strength, 10) for strength in base.strengths)
        for what, attack, settings in contenders(base, asked.seeds, asked.more):
            key = f"{who}/{name}/{what}/{asked.first}-{asked.samples}-{asked.times:g}"
            key += f"-{asked.search}" * (asked.search != "descent") + f"-{asked.spread}" * bool(asked.spread)
            settings |= {"search": "descent" if what == "brute force" else asked.search}
            smallest, passes = search_sizes(
                asked.kept, key, model, data, replace(attack, strengths=strengths), settings
            )
            sizes.setdefault(what, []).append(smallest)
            costs[what] = costs.get(what, 0.0) + passes * len(smallest)
    every = {what: np.concatenate(parts) for what, parts in sizes.items()}
    spent = {what: cost / len(every[what]) for what, cost in costs.items()}
    apart = set(joined.split("+")) <= set(HELD_OUT)
    return {"networks": joined, "held out": apart, "search": asked.search} | gap_row(
        name, np.array(strengths), every, spent
    )


def report(rows: Sequence[dict[str, Any]]) -> None:
    """Two tables: the default beside the best known, and each of what was tried."""
    console = Console(width=118)
    columns = [name for name in rows[0] if name != "each"]
    table = Table(*columns, title="Robust accuracy in % of correct samples, mean over strengths; gaps in points")
    for row in rows:
        table.add_row(*(str(row[name]) for name in columns))
    console.print(table)
    tried = list(rows[0]["each"])
    table = Table("networks", "attack", *tried, title="Mean gap in points; passes")
    for row in rows:
        table.add_row(row["networks"], row["attack"], *("{:.2f}; {:,.0f}".format(*row["each"][what]) for what in tried))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models",
        default="stadv_delta+recoloradv" if "ROBUSTATLAS_MODELS" in os.environ else "digits-standard+digits-linf",
    )
    parser.add_argument("--attacks", default=ATTACKS)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--more", default="high effort,brute force", help="what is tried besides the seeds")
    parser.add_argument("--search", choices=("descent", "minimum"), default="descent", help="of seeds and high effort")
    parser.add_argument("--times", type=float, default=1.0, help="strengths are the catalogue's times this")
    parser.add_argument("--spread", type=int, default=0, help="so many strengths where the samples fall instead")
    parser.add_argument("--networks", type=Path, default=KEPT, help="folder of the networks of subjects.py")
    parser.add_argument("--kept", type=Path, help="folder of what was found; what is in it is not searched again")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    asked.more = list(filter(None, asked.more.split(",")))
    if unknown := set(asked.more) - set(MORE):
        parser.error(f"--more got {', '.join(sorted(unknown))}; expected some of {', '.join(MORE)}")
    rows: list[dict[str, Any]] = []
    for joined in asked.models.split(","):
        for name in asked.attacks.split(","):
            if row := row_of(name, joined, asked):
                rows.append(row)
                print(json.dumps(row), flush=True)
    if rows:
        report(rows)
    if asked.output:
        asked.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
