"""The drop-in for AutoAttack beside pyautoattack: survivors, passes and seconds of one script with its import changed.

    python benchmarks/drop_in.py [--cases "cifar10 linf"] [--kept FOLDER] [--minutes 10] [--output FILE.json]

The script is the one of RobustBench's evaluations: images, labels and a batch size in, adversarial images and labels
out, of which the survivors are counted. Takes pyautoattack, the weights in ROBUSTATLAS_MODELS, and CIFAR-10 and MNIST
in ROBUSTATLAS_DATA; digits need neither. Seconds are of the processor, on one thread. What was found stays in the
folder, and a benchmark that was stopped goes on there.
"""

import argparse
import json
import logging
import os
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.drop_in import AutoAttack
from robustatlas.models.architectures import Normalised, resnet32, small_cnn
from robustatlas.models.weights import load_weights


@dataclass(frozen=True)
class Case:
    """A network, the images from ``first`` on, and what is asked of AutoAttack."""

    net: str
    data: str
    norm: str
    eps: float
    version: str
    first: int
    samples: int

    @property
    def name(self) -> str:
        return f"{self.data} {self.norm.lower()} {self.version}"


CASES = (
    Case("cifar10_resnet32_delta", "cifar10", "Linf", 8 / 255, "standard", 2000, 12),
    Case("cifar10_resnet32_delta", "cifar10", "L2", 0.5, "standard", 2000, 12),
    Case("cifar10_resnet32_delta", "cifar10", "L1", 12.0, "standard", 2000, 12),
    Case("mnist_mmr_universal", "mnist", "Linf", 0.1, "standard", 2000, 50),
    Case("mnist_mmr_universal", "mnist", "L2", 0.3, "standard", 2000, 50),
    Case("mnist_mmr_universal", "mnist", "L1", 1.0, "standard", 2000, 50),
    Case("builtin:digits-linf", "digits", "Linf", 0.1, "standard", 0, 200),
    Case("builtin:digits-linf", "digits", "Linf", 0.1, "plus", 0, 100),
)
WAYS = ("pyautoattack", "drop-in", "drop-in, fast")


class Counted(nn.Module):
    """A network that counts the inputs that pass through it, forward and backward."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.forward_passes, self.backward_passes = net, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.forward_passes += len(x)
        logits: Tensor = self.net(x)
        if logits.requires_grad:
            logits.register_hook(self._count_backward)
        return logits

    def _count_backward(self, gradient: Tensor) -> None:
        self.backward_passes += len(gradient)


def network(name: str) -> nn.Module:
    """Return the network from images in [0, 1] to logits."""
    if name.startswith("builtin:"):
        return ra.load_model(name).net.eval()
    net = small_cnn() if name.startswith("mnist") else resnet32()[0]
    load_weights(net, Path(os.environ["ROBUSTATLAS_MODELS"]) / f"{name}.safetensors")
    return net.eval() if name.startswith("mnist") else Normalised(net, *resnet32()[1:]).eval()


def run_pyautoattack(net: nn.Module, x: Tensor, y: Tensor, case: Case) -> tuple[Tensor, Tensor]:
    """Run the script as it is written for pyautoattack, and return images and labels."""
    import pyautoattack

    adversary = pyautoattack.AutoAttack(net, norm=case.norm, eps=case.eps, version=case.version, seed=0)
    made, labels = adversary.run_standard_evaluation(x, y, batch_size=100)
    return made, labels


def run_replacement(net: nn.Module, x: Tensor, y: Tensor, case: Case, fast: bool) -> tuple[Tensor, Tensor]:
    """Run the script as it is written for AutoAttack, with our import."""
    adversary = AutoAttack(net, norm=case.norm, eps=case.eps, version=case.version, seed=0, fast=fast, verbose=False)
    made, labels = adversary.run_standard_evaluation(x, y, bs=100, return_labels=True)
    return made, labels


def measure_case(case: Case, way: str) -> dict[str, Any]:
    """Return the images that stand, passes of an image, and seconds."""
    data = ra.load_dataset(case.data)
    rows = slice(case.first, case.first + case.samples)
    x, y, net = data.images[rows], data.labels[rows], Counted(network(case.net))
    begun = time.process_time()
    if way == WAYS[0]:
        made, labels = run_pyautoattack(net, x, y, case)
    else:
        made, labels = run_replacement(net, x, y, case, fast=way == WAYS[2])
    seconds = time.process_time() - begun
    order = {"Linf": float("inf"), "L2": 2, "L1": 1}[case.norm]
    sizes = torch.linalg.vector_norm((made - x).flatten(1), ord=order, dim=1)
    with torch.no_grad():
        standing = net.net(made).argmax(1) == y
    assert torch.equal(standing, labels == y) and float(sizes.max()) <= case.eps * (1 + 1e-3)
    return {
        "standing": standing.nonzero().flatten().tolist(),
        "forward": round(net.forward_passes / case.samples, 1),
        "backward": round(net.backward_passes / case.samples, 1),
        "seconds": round(seconds, 1),
    }


def row_of(case: Case, ways: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Survivors of each way and what it took; those that only one of the first two leaves standing."""
    theirs, ours = (set(ways[way]["standing"]) for way in WAYS[:2])
    return asdict(case) | {
        "only pyautoattack breaks": len(ours - theirs),
        "only the drop-in breaks": len(theirs - ours),
        "ways": {way: found | {"standing": len(found["standing"])} for way, found in ways.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--kept", type=Path, default=Path("build/drop_in"))
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--output", type=Path, default=Path("drop_in.json"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    asked.kept.mkdir(parents=True, exist_ok=True)
    end, rows = time.monotonic() + 60 * asked.minutes, []
    for case in (case for case in CASES if case.name in asked.cases.split(",")):
        paths = {way: asked.kept / f"{case.name} {way} {case.first}-{case.samples}.json" for way in WAYS}
        for way, path in paths.items():
            if not path.is_file() and time.monotonic() < end:
                path.write_text(json.dumps(measure_case(case, way)), encoding="utf-8")
                print(f"{path.stem}: {path.read_text(encoding='utf-8')}", flush=True)
        if all(path.is_file() for path in paths.values()):
            rows.append(
                row_of(case, {way: json.loads(path.read_text(encoding="utf-8")) for way, path in paths.items()})
            )
    asked.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
