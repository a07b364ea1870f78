"""AutoAttack, foolbox and adv-lib at one epsilon beside ``evaluate`` for the whole curve: accuracy, passes, and seconds
on one core and on several.

    python benchmarks/beside_autoattack.py [--threads 1,2] [--cases digits,mnist,cifar10] [--samples 200,100,24]
        [--output FILE.json]

Takes pyautoattack, foolbox and adv-lib (what is not installed is left out), the weights in ROBUSTATLAS_MODELS, and
CIFAR-10 and MNIST in ROBUSTATLAS_DATA; digits need neither. All attack the same images with the same number of threads,
one after the other, in one process; ``evaluate`` may share its work among as many processes. foolbox and adv-lib have
no suite of their own: here FMN and ten PGDs of foolbox with their default settings; APGD by cross-entropy, APGD at
every class and FAB of adv-lib, which are AutoAttack's but for Square. Each attacks what the ones before left standing.
What they find counts where this network gets it wrong and it lies within epsilon. Passes are forward and backward
passes of the network for one image. ``evaluate`` finds the curve over twenty strengths, up to twice the epsilon.
"""

import argparse
import json
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import robustatlas as ra
from drop_in import Case, Counted, network, run_pyautoattack

CASES = (
    Case("builtin:digits-linf", "digits", "Linf", 0.1, "standard", 0, 200),
    Case("mnist_mmr_universal", "mnist", "Linf", 0.1, "standard", 2000, 100),
    Case("cifar10_resnet32_delta", "cifar10", "Linf", 8 / 255, "standard", 2000, 24),
)
STEPS = 20

Attacks = Sequence[Callable[[nn.Module, Tensor, Tensor, float], Tensor]]
"""Each makes inputs of (network, images, labels, epsilon)."""


def autoattack() -> Attacks:
    def standard(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
        return run_pyautoattack(net, x, y, replace(CASES[0], eps=eps))[0]

    return [standard]


def foolbox() -> Attacks:
    fb: Any = import_module("foolbox")

    def run_attack(attack: Any, net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
        made: Tensor = attack(fb.PyTorchModel(net, bounds=(0, 1), device="cpu"), x, y, epsilons=eps)[1]
        return made

    return [partial(run_attack, fb.attacks.LInfFMNAttack()), *[partial(run_attack, fb.attacks.LinfPGD())] * 10]


def adv_lib() -> Attacks:
    attacks: Any = import_module("adv_lib.attacks")
    kinds: Any = import_module("adv_lib.attacks.auto_pgd")

    def apgd_ce(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Any:
        return kinds.apgd(net, x, y, eps, torch.inf, loss_function="ce")

    def apgd_t(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Any:
        return kinds.apgd_targeted(net, x, y, eps, torch.inf)

    def fab(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Any:
        return attacks.fab(net, x, y, torch.inf, ε=eps)

    return [apgd_ce, apgd_t, fab]


PEERS: dict[str, tuple[str, Callable[[], Attacks]]] = {
    "autoattack": ("pyautoattack", autoattack),
    "foolbox": ("foolbox", foolbox),
    "adv-lib": ("adv_lib", adv_lib),
}
"""Suites by name: the package of each, and its attacks."""


def run_peer(attacks: Attacks, case: Case, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return accuracy, passes and seconds of attacks one after the other, each on the samples left standing."""
    net = Counted(network(case.net)).eval()
    torch.manual_seed(0)
    begun, standing = time.perf_counter(), torch.arange(len(x))
    for attack in attacks:
        if len(standing):
            made = attack(net, x[standing], y[standing], case.eps).detach()
            standing = standing[~broken(net.net, made, x[standing], y[standing], case.eps)]
    return {
        "accuracy": round(100 * len(standing) / len(x), 2),
        "passes": round((net.forward_passes + net.backward_passes) / len(x), 1),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def broken(net: nn.Module, made: Tensor, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """Return which inputs are examples: misclassified, and within epsilon of the image and [0, 1]."""
    with torch.no_grad():
        wrong = net(made).argmax(1) != y
    far = (made - x).abs().flatten(1).amax(1) > eps * (1 + 1e-3)
    return wrong & ~far & ((made >= 0) & (made <= 1)).flatten(1).all(1)


def run_ours(case: Case, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return the same numbers of ``evaluate``, as it runs by default."""
    model = ra.Classifier(network(case.net))
    strengths = [2 * case.eps * k / STEPS for k in range(1, STEPS + 1)]
    begun = time.perf_counter()
    result = ra.evaluate(model, (x, y), "linf", strengths={"linf": strengths}, diagnose=False, audit=0, progress=False)
    return {
        "accuracy": round(float(result.accuracies().at("linf", strengths[STEPS // 2 - 1])), 2),
        "passes": round(sum(result.passes("linf")), 1),
        "seconds": round(time.perf_counter() - begun, 1),
        "strengths": STEPS,
    }


def compare_suites(case: Case, threads: Sequence[int]) -> dict[str, Any]:
    """Return the numbers of all suites on one network, with each number of threads."""
    data = ra.load_dataset(case.data)
    rows = slice(case.first, case.first + case.samples)
    x, y = data.images[rows], data.labels[rows]
    ways = {name: partial(run_peer, make()) for name, (package, make) in PEERS.items() if find_spec(package)}
    found: dict[str, Any] = asdict(replace(case, eps=round(case.eps, 6)))
    for name, way in (ways | {"robustatlas": run_ours}).items():
        seconds = {}
        for count in threads:
            torch.set_num_threads(count)
            told = way(case, x, y)
            seconds[str(count)] = told["seconds"]
        found[name] = told | {"seconds": seconds}
        print(case.data, name, found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(case.data for case in CASES))
    parser.add_argument("--samples", help="of each case; default: as many as were published")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--output", type=Path, default=Path("beside_autoattack.json"))
    asked = parser.parse_args()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    threads = [int(count) for count in asked.threads.split(",")]
    cases = [case for case in CASES if case.data in asked.cases.split(",")]
    if asked.samples:
        counts = [int(count) for count in asked.samples.split(",")]
        cases = [replace(case, samples=count) for case, count in zip(cases, counts, strict=True)]
    told = {"threads": threads, "torch": torch.__version__, "rows": [compare_suites(case, threads) for case in cases]}
    asked.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
