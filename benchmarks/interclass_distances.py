"""Inter-class distances: robustatlas beside torch.cdist, scikit-learn and scipy, on the same data in one run.

    python benchmarks/interclass_distances.py --samples 10000 --threads 2 --output interclass_distances.json

The data are a file that holds `images` [N, ...] uint8 and `labels` [N]; by default CIFAR-10's test images in the folder
that ROBUSTATLAS_DATA names. Every library computes, for each sample, the distance to the nearest sample of another
class; the results are compared before the times are printed. The rounds alternate between the libraries, so that other
load on the machine meets all of them.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist as scipy_cdist
from sklearn.metrics import pairwise_distances_argmin_min

from robustatlas.metrics import interclass_distances

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]
Distances = NDArray[np.float64]
ROWS = 500


def ours(images: Images, labels: Labels, norm: str) -> Distances:
    return interclass_distances(images, labels, norm).per_sample


def with_torch(images: Images, labels: Labels, norm: str) -> Distances:
    points = torch.from_numpy(images).reshape(len(images), -1).float() / 255
    classes = torch.from_numpy(labels)
    nearest = []
    for start in range(0, len(points), ROWS):
        distances = torch.cdist(points[start : start + ROWS], points, p={"linf": torch.inf, "l2": 2.0, "l1": 1.0}[norm])
        distances[classes[start : start + ROWS, None] == classes[None, :]] = torch.inf
        nearest.append(distances.min(dim=1).values)
    return torch.cat(nearest).double().numpy()


def with_scikit_learn(images: Images, labels: Labels, norm: str) -> Distances:
    points = images.reshape(len(images), -1).astype(np.float32) / 255
    metric = {"linf": "chebyshev", "l2": "euclidean", "l1": "manhattan"}[norm]
    nearest = np.empty(len(points))
    for label in np.unique(labels):
        own = labels == label
        nearest[own] = pairwise_distances_argmin_min(points[own], points[~own], metric=metric)[1]
    return nearest


def with_scipy(images: Images, labels: Labels, norm: str) -> Distances:
    points = images.reshape(len(images), -1) / 255
    metric = {"linf": "chebyshev", "l2": "euclidean", "l1": "cityblock"}[norm]
    nearest = []
    for start in range(0, len(points), ROWS):
        distances = scipy_cdist(points[start : start + ROWS], points, metric)
        distances[labels[start : start + ROWS, None] == labels[None, :]] = np.inf
        nearest.append(distances.min(axis=1))
    return np.concatenate(nearest)


LIBRARIES: dict[str, Callable[[Images, Labels, str], Distances]] = {
    "robustatlas": ours,
    "torch": with_torch,
    "scikit-learn": with_scikit_learn,
    "scipy": with_scipy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("ROBUSTATLAS_DATA", ".")) / "cifar10_test.npz"
    parser.add_argument("data", type=Path, nargs="?", default=default)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--norms", nargs="+", choices=["linf", "l2", "l1"], default=["linf", "l1", "l2"])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, help="JSON file, written anew after each norm")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    with np.load(arguments.data) as data:
        images = data["images"][: arguments.samples]
        labels = data["labels"][: arguments.samples].reshape(-1).astype(np.int64)
    interclass_distances(images[:50], np.arange(50), "linf")
    print(f"{arguments.data.name}: {len(images)} samples of {images[0].size} numbers, {arguments.threads} threads")
    found: dict[str, Any] = {
        "data": arguments.data.name,
        "samples": len(images),
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "torch": torch.__version__,
        "machine": platform.platform(),
        "norms": {},
    }
    for norm in arguments.norms:
        found["norms"][norm] = compare(images, labels, norm, arguments.libraries, arguments.rounds)
        if arguments.output:
            arguments.output.write_text(json.dumps(found, indent=1) + "\n")
    if arguments.output:
        print(f"Written: {arguments.output}")


def compare(images: Images, labels: Labels, norm: str, libraries: list[str], rounds: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {library: [] for library in libraries}
    work: dict[str, list[float]] = {library: [] for library in libraries}
    results = {}
    for _ in range(rounds):
        for library in libraries:
            start, used = time.perf_counter(), time.process_time()
            results[library] = LIBRARIES[library](images, labels, norm)
            seconds[library].append(time.perf_counter() - start)
            work[library].append(time.process_time() - used)
    first = results[libraries[0]]
    print(f"{norm}: smallest {first.min():.4f}, largest {first.max():.4f}")
    rows = {}
    for library, times in seconds.items():
        # float32 products of matrices lose digits of l2 distances.
        difference = float(np.abs(results[library] / first - 1).max())
        factor = min(times) / min(seconds[libraries[0]])
        rows[library] = {
            "seconds": min(times),
            "times_ours": factor,
            "cpu_seconds": min(work[library]),
            "largest_relative_difference": difference,
        }
        print(
            f"  {library:13} {min(times):8.1f} s  {factor:5.1f} x  {min(work[library]):7.1f} s of CPU  "
            f"largest relative difference {difference:.1e}",
            flush=True,
        )
    return {"smallest": float(first.min()), "largest": float(first.max()), "libraries": rows}


if __name__ == "__main__":
    main()
