"""What an evaluation holds beside the network: its peak over what a batch of images and its forward pass take.

    python benchmarks/memory.py [--cases digits,mnist,cifar10] [--attacks linf,affine] [--output FILE.json]

Of every network and attack a fresh process evaluates a few images, so that all of the package is loaded, and then the
true ones, in two ways: ``tensors`` is the most that tensors take at once, with whatever automatic differentiation keeps
(images of the data set and weights were there before); ``resident`` is what the peak of the whole process rises by,
with what torch's kernels use meanwhile. Either stands beside ``batch``: the batch size times the bytes of an image and
those that a forward pass keeps of it. Takes the weights in ROBUSTATLAS_MODELS, and CIFAR-10 and MNIST in
ROBUSTATLAS_DATA; digits need neither. Linux only.
"""

import argparse
import json
import subprocess
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import robustatlas as ra
from robustatlas.evaluation.memory import bytes_kept
from robustatlas.evaluation.workers.memory import hand_back, hand_back_at_once
from robustatlas.models.classifier import undisturbed

NETS = {
    "digits": ("builtin:digits-linf", 512, 256),
    "mnist": ("mnist_mmr_universal", 512, 256),
    "cifar10": ("cifar10_resnet32_delta", 32, 16),
}
"""Data set -> its network, images, and how many at once."""
ATTACKS = ("linf", "l2", "l1", "brightness", "affine", "corruption-gaussian-noise")


def storages(tree: Any) -> list[torch.UntypedStorage]:
    """Those of all tensors in a tree."""
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class Live(TorchDispatchMode):
    """Bytes of the tensors that are alive, and the most there ever were; those below ``least`` bytes do not count."""

    def __init__(self, least: int = 0) -> None:
        super().__init__()
        self.least, self.now, self.most = least, 0, 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage._cdata for storage in storages((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in given:
                self._enter(storage)
        return result

    def _enter(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if size >= self.least and key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._leave, key, size)

    def _leave(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def measured(data_name: str, attack: str) -> dict[str, Any]:
    """What one attack on one network holds, in bytes."""
    from drop_in import network

    source, count, batch = NETS[data_name]
    data, model = ra.load_dataset(data_name), ra.Classifier(network(source))
    x, y = data.images[-count:].clone(), data.labels[-count:].clone()
    with undisturbed(), model.evaluating():
        sample = x[0].nbytes + bytes_kept(model, x[:batch])
    batch_bytes = batch * sample
    evaluate(model, x[:2], y[:2], attack, batch)
    hand_back_at_once()
    hand_back()
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = told("VmRSS")
    evaluate(model, x, y, attack, batch)
    resident = told("VmHWM") - before
    with Live() as live:
        evaluate(model, x, y, attack, batch)
    found = {"data": data_name, "attack": attack, "samples": count, "batch size": batch, "batch": round(batch_bytes)}
    for name, size in (("tensors", live.most), ("resident", resident)):
        found |= {name: size, f"{name}, times a batch": round(size / batch_bytes, 2)}
    return found


def evaluate(model: ra.Classifier, x: Tensor, y: Tensor, attack: str, batch: int) -> None:
    ra.evaluate(model, (x, y), attack, batch_size=batch, workers=1, audit=0, progress=False)


def told(name: str) -> int:
    """Bytes that Linux tells of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(NETS))
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--one", action="store_true", help="one case and one attack, in this process")
    parser.add_argument("--output", type=Path, default=Path("memory.json"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.one:
        torch.set_num_threads(1)
        print(json.dumps(measured(asked.cases, asked.attacks)))
        return
    rows = []
    for data in asked.cases.split(","):
        for attack in asked.attacks.split(","):
            call = [sys.executable, __file__, "--one", "--cases", data, "--attacks", attack]
            said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
            rows.append(json.loads(said.splitlines()[-1]))
            print(said.splitlines()[-1], flush=True)
    asked.output.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
