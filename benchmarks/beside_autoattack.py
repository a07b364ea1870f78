"""What AutoAttack says at one epsilon, and what ``evaluate`` says for the whole curve: accuracy, passes and seconds.

    python benchmarks/beside_autoattack.py [--cases digits,mnist,cifar10] [--threads 2] [--output FILE.json]

Takes pyautoattack, the weights in ROBUSTATLAS_MODELS, and CIFAR-10 and MNIST in ROBUSTATLAS_DATA; digits need neither.
Both attack the same images with the same number of threads in one process, one after the other. Passes are forward and
backward passes of the network for one image. ``evaluate`` finds the curve over the attack's twenty strengths.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

import robustatlas as ra
from drop_in import Case, Counted, by_theirs, network

CASES = (
    Case("builtin:digits-linf", "digits", "Linf", 0.1, "standard", 0, 200),
    Case("mnist_mmr_universal", "mnist", "Linf", 0.1, "standard", 2000, 100),
    Case("cifar10_resnet32_delta", "cifar10", "Linf", 8 / 255, "standard", 2000, 24),
)
STEPS = 20


def beside(case: Case) -> dict[str, Any]:
    """Both, on one network."""
    data = ra.load_dataset(case.data)
    rows = slice(case.first, case.first + case.samples)
    x, y = data.images[rows], data.labels[rows]
    net = Counted(network(case.net))
    begun = time.perf_counter()
    made, _ = by_theirs(net, x, y, case)
    theirs = time.perf_counter() - begun
    with torch.no_grad():
        standing = net.net(made).argmax(1) == y
    found = asdict(replace(case, eps=round(case.eps, 6))) | {
        "autoattack": {
            "accuracy": round(100 * float(standing.float().mean()), 2),
            "passes": round((net.forward_passes + net.backward_passes) / case.samples, 1),
            "seconds": round(theirs, 1),
        }
    }
    model = ra.Classifier(network(case.net))
    strengths = [2 * case.eps * k / STEPS for k in range(1, STEPS + 1)]
    begun = time.perf_counter()
    result = ra.evaluate(model, (x, y), "linf", strengths={"linf": strengths}, diagnose=False, audit=0, progress=False)
    ours = time.perf_counter() - begun
    return found | {
        "robustatlas": {
            "accuracy": round(float(result.accuracies().at("linf", strengths[STEPS // 2 - 1])), 2),
            "passes": round(sum(result.passes("linf")), 1),
            "seconds": round(ours, 1),
            "strengths": STEPS,
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="digits,mnist,cifar10")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("beside_autoattack.json"))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    rows = []
    for case in (case for case in CASES if case.data in asked.cases.split(",")):
        rows.append(beside(case))
        print(json.dumps(rows[-1]), flush=True)
    told = {"threads": asked.threads, "torch": torch.__version__, "rows": rows}
    asked.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
