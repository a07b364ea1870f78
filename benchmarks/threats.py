"""Every attack on images: our default protocol beside the paper's, in robust accuracy and in passes.

Where the public code's set differs from the sound one (see ``robustatlas attacks NAME``) accuracies on the two do not
compare, so the paper's optimizer is run twice: on the sound set, and as published.

    python benchmarks/threats.py [--models delta,normal] [--samples 200] [--attacks elastic,stadv] [--output FILE.json]
    python benchmarks/threats.py --suite multirobustbench --samples 50  # only the time of a whole suite by default

Takes the CIFAR-10 ResNet-32 weights in ROBUSTATLAS_MODELS and CIFAR-10 in ROBUSTATLAS_DATA; without them the built-in
digits models, and those attacks that take 8x8 grey images.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.suites import RANKED, UNRANKED
from robustatlas.data import Dataset
from robustatlas.models.architectures import resnet32
from robustatlas.models.weights import load_weights
from robustatlas.threats.base import UnsupportedInputError

LP = ("linf", "l2", "l1")


def subjects(names: list[str]) -> tuple[dict[str, ra.Classifier], Dataset]:
    folder = Path(os.environ.get("ROBUSTATLAS_MODELS", ""))
    if (folder / "cifar10_resnet32_normal.safetensors").is_file():
        models = {}
        for name in names:
            net, mean, std = resnet32()
            load_weights(net, folder / f"cifar10_resnet32_{name}.safetensors")
            models[name] = ra.Classifier(net.eval(), mean, std, name=name)
        return models, ra.load_dataset("cifar10")
    digits = ("digits-standard", "digits-linf", "digits-l2")
    return {n: ra.load_model(f"builtin:{n}", name=n) for n in digits}, ra.load_dataset("digits")


def on_sound_set(name: str) -> Attack:
    """The paper's optimizer, steps and last iterate, on the default's set; samples wrong when clean count as wrong."""
    paper = attack_named(name, "paper")
    return replace(paper, threat=attack_named(name).threat, repairs=False, nested=True)


def run(
    model: ra.Classifier, data: Dataset, attack: Attack, search: Search, samples: int, folder: Path | None
) -> dict[str, Any]:
    result = ra.evaluate(model, data, attack, search=search, samples=samples, run=folder, shard_size=50)
    outcome = result.outcome(attack.name)
    return {
        "accuracies": outcome.accuracies().tolist(),
        "passes": sum(result.passes(attack.name)),
        "seconds": outcome.seconds,
    }


def time_suite(models: dict[str, ra.Classifier], data: Dataset, suite: str, samples: int) -> list[dict[str, Any]]:
    """Return time and passes of all attacks of a suite at all their strengths, by the default protocol."""
    rows = []
    for name, model in models.items():
        begun = time.perf_counter()
        result = ra.evaluate(model, data, suite, samples=samples)
        seconds, passes = time.perf_counter() - begun, sum(sum(result.passes(attack)) for attack in result.attacks)
        row = {"model": name, "suite": suite, "samples": samples, "seconds": seconds, "passes": passes}
        rows.append(row | {"attacks": {attack: result.outcome(attack).seconds for attack in result.attacks}})
        print(f"{name}: {suite}, {samples} samples: {seconds:.0f} s, {passes:.0f} F+B passes a sample", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="delta,normal")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--attacks", default=",".join(a for a in (*RANKED, *UNRANKED) if a not in LP))
    parser.add_argument("--without-published", action="store_true", help="leave out the paper's run on its own set")
    parser.add_argument("--runs", type=Path, help="folder for the runs, which are continued where they stopped")
    parser.add_argument("--output", type=Path, default=Path("threats.json"))
    parser.add_argument("--suite", help="time this suite by the default protocol, and nothing else")
    options = parser.parse_args()
    models, data = subjects(options.models.split(","))
    if options.suite:
        rows = time_suite(models, data, options.suite, options.samples)
        options.output.write_text(json.dumps(rows, indent=1))
        return
    table = Table(title=f"Robust accuracy (%), mean over strengths, {options.samples} samples; F+B passes a sample")
    for column in (
        "model",
        "attack",
        "default",
        "F+B",
        "paper, same set",
        "F+B",
        "largest diff.",
        "paper, its set",
        "F+B",
    ):
        table.add_column(column, justify="left" if column in ("model", "attack") else "right")
    rows = []
    for name, model in models.items():
        for attack in options.attacks.split(","):
            try:
                attack_named(attack).threat.check(data.images[:1])
            except UnsupportedInputError:
                continue
            except ra.UserError:
                pass  # a perceptual set is bound to the model later
            protocols: dict[str, tuple[Attack, Search]] = {
                "default": (attack_named(attack), "descent"),
                "paper_same_set": (on_sound_set(attack), "bisection"),
                "paper": (attack_named(attack, "paper"), "bisection"),
            }
            if options.without_published:
                del protocols["paper"]
            row: dict[str, Any] = {"model": name, "attack": attack}
            for protocol, (definition, search) in protocols.items():
                folder = options.runs and options.runs / f"{name}-{attack}-{protocol}"
                row[protocol] = run(model, data, definition, search, options.samples, folder)
            ours, same = row["default"], row["paper_same_set"]
            rows.append(row)
            difference = np.array(ours["accuracies"]) - np.array(same["accuracies"])
            paper = row.get("paper")
            table.add_row(
                name, attack, f"{np.mean(ours['accuracies']):.1f}", f"{ours['passes']:.0f}",
                f"{np.mean(same['accuracies']):.1f}", f"{same['passes']:.0f}", f"{difference.max():+.1f}",
                f"{np.mean(paper['accuracies']):.1f}" if paper else "-", f"{paper['passes']:.0f}" if paper else "-",
            )  # fmt: skip
            print(f"{name} {attack}: {ours['seconds']:.0f} s, {same['seconds']:.0f} s", flush=True)
            options.output.write_text(json.dumps(rows, indent=1))
    Console(width=118).print(table)
    print(f"Written: {options.output}")


if __name__ == "__main__":
    main()
