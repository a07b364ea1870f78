"""The time of an evaluation beside its passes: over that of as many raw passes of the network at batch 256, by part.

    python benchmarks/beside_passes.py [--cases digits,mnist,cifar10] [--norms linf,l2,l1] [--output FILE.json]

Takes the weights in ROBUSTATLAS_MODELS, and CIFAR-10 and MNIST in ROBUSTATLAS_DATA; digits need neither. Seconds are
those of the thread on its processor, which other work on the machine prolongs less than those of the clock. A raw pass
is half of what the network alone takes forward and back to its input, the median of rounds before, between and after
the evaluations of a network.

Parts: ``model``, forward and backward, with what stands around the network; ``projection``, on the sets and on the
linearised boundary; ``optimizer``, the rest of its steps; ``bookkeeping``, the rest of the loop: slots, records,
schedule; ``host``, what stands around the loop.
"""

import argparse
import json
import logging
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import robustatlas as ra
from drop_in import network
from robustatlas import engine
from robustatlas.models.classifier.answers import CountedAnswers
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.brendel_bethge import BrendelBethge
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.lp import L1, L2, Linf, Lp

CASES = {
    "digits": ("builtin:digits-linf", 500),
    "mnist": ("mnist_mmr_universal", 200),
    "cifar10": ("cifar10_resnet32_delta", 64),
}
BATCH, ROUNDS = 256, 5
PARTS: dict[str, tuple[tuple[Any, tuple[str, ...]], ...]] = {
    "model": ((CountedAnswers, ("run",)), (torch.autograd, ("grad",))),
    "projection": tuple((kind, ("project", "hyperplane", "smallest_beyond")) for kind in (Lp, Linf, L2, L1)),
    "optimizer": tuple((kind, ("step", "init")) for kind in (APGD, APGDL1, BrendelBethge, FMN, PGD)),
    "bookkeeping": ((engine, ("run", "set_up")),),
}


@dataclass
class Clock:
    """Seconds of each part, without those of the parts inside of it."""

    seconds: Counter[str] = field(default_factory=Counter)
    inside: list[str] = field(default_factory=lambda: ["host"])
    since: float = 0.0

    def _enter(self, part: str) -> None:
        self._note()
        self.inside.append(part)

    def _leave(self) -> None:
        self._note()
        self.inside.pop()

    def _note(self) -> None:
        now = time.thread_time()
        self.seconds[self.inside[-1]] += now - self.since
        self.since = now

    def timed_function(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function``, whose time counts for ``part``."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self._enter(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._leave()

        return run

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time everything inside."""
        with ExitStack() as stack:
            for part, places in PARTS.items():
                for place, names in places:
                    for name in names:
                        if name in vars(place):
                            told = self.timed_function(part, vars(place)[name])
                            stack.enter_context(mock.patch.object(place, name, told))
            self.since = time.thread_time()
            yield
            self._note()


def raw_pass(net: nn.Module, x: Tensor, y: Tensor) -> float:
    """Return the seconds that one image takes forward or backward, the mean of both."""
    begun = time.thread_time()
    leaf = x.clone().requires_grad_()
    torch.autograd.grad(net(leaf).gather(1, y[:, None]).sum(), leaf)
    return (time.thread_time() - begun) / (2 * len(x))


def time_norms(case: str, norms: list[str]) -> list[dict[str, Any]]:
    """Return a row for each norm, on one network."""
    name, samples = CASES[case]
    data = ra.load_dataset(case)
    net = network(name).requires_grad_(False)
    batch = data.images[:BATCH], data.labels[:BATCH]
    raw_pass(net, *batch)  # the first is slower
    raw, found = [raw_pass(net, *batch) for _ in range(ROUNDS)], {}
    for norm in norms:
        clock = Clock()
        model, images = ra.Classifier(net), (data.images[:samples], data.labels[:samples])
        with clock.running():
            result = ra.evaluate(model, images, norm, workers=1, diagnose=False, audit=0, progress=False)
        found[norm] = result.passes(norm), clock.seconds
        raw += [raw_pass(net, *batch) for _ in range(ROUNDS)]
    return [row(case, norm, sum(passes) * samples * median(raw), sum(passes), seconds, samples)
            for norm, (passes, seconds) in found.items()]  # fmt: skip


def row(case: str, norm: str, least: float, passes: float, seconds: Counter[str], samples: int) -> dict[str, Any]:
    """Return the row of an evaluation whose passes alone would take ``least`` seconds."""
    whole = seconds.total()
    return {"network": case, "norm": norm, "samples": samples, "passes a sample": round(passes, 1),
            "seconds of the passes": round(least, 2), "seconds": round(whole, 2), "ratio": round(whole / least, 2),
            "parts in percent": {part: round(100 * seconds[part] / whole, 1) for part in (*PARTS, "host")}}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--norms", default="linf,l2,l1")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    rows = []
    for case in asked.cases.split(","):
        for each in time_norms(case, asked.norms.split(",")):
            rows.append(each)
            print(json.dumps(each), flush=True)
    if asked.output:
        told = {"machine": platform.machine(), "torch": torch.__version__, "rows": rows}
        asked.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
