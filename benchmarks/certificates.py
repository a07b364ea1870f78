"""Distance between certificates and attacks, soundness of certificates, and their cost.

    python benchmarks/certificates.py [--parts widths,lines,exact] [--output FILE]

Parts add to what the file holds already. By default all of them run:

- widths: attack and certificate on the same samples: how many of them are closed (upper / lower < 1.01), the median of
  upper / lower, the area between both curves, by network and norm.
- lines: the same of sets of one number.
- exact: default, minimum and high search, and certificates, against exact sizes of networks with two inputs, by brute
  force (a fifth of the samples, with --seconds for each of branch and bound).
- strengths: CROWN, and branch and bound, at one strength (a fifth of the samples).
- complete: CROWN, branch and bound, and Marabou (``pip install maraboupy``) on the same balls (a fifth of the samples),
  with the same limit of --seconds a ball. Fully connected networks that are trained here, and mnistfc 256x4 of VNN-COMP
  2021 where ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA name folders with it and with MNIST.
- soundness: random and attacked points inside certified balls of 50 random networks in float64, of every supported
  activation and pooling.
- cost: seconds of this process, and what the forecast said.
- residual: two trained residual networks of CIFAR-10, by the package and by dense matrices (a tenth of the samples).
- deep: what the forecast says of a ResNet-32.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

import robustatlas as ra
from brute_force import exact_sizes
from crown_by_matrices import Layer, Matrices, margins, matrices
from marabou import decide
from robustatlas.attacks.catalogue import attack_named
from robustatlas.certificates import Samples, Subject, certificate_named
from robustatlas.certificates.balls import Crown, IntervalBounds
from robustatlas.certificates.base import MARGIN_OF_SIZES
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.branching import BetaCrown
from robustatlas.certificates.certify import forecast
from robustatlas.certificates.network import Network
from robustatlas.certificates.regions import Region
from robustatlas.common.files import cache_folder
from robustatlas.evaluation.request import Request
from robustatlas.models.architectures import resnet32
from robustatlas.training import Settings, recipe_named

NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0}
Row = dict[str, Any]


def sides(model: ra.Classifier, data: ra.Dataset, attacks: list[str], **settings: Any) -> ra.Result:
    """Attacked and certified in one run."""
    with TemporaryDirectory() as folder:
        common = {"run": f"{folder}/run", "progress": False}
        ra.evaluate(model, data, attacks, diagnose=False, audit=0, **common)
        return ra.certify(model, data, attacks, **common, **settings)


def two_sided_row(result: ra.Result, attack: str) -> Row:
    both = result.two_sided(attack)
    held = result.certified_sizes[attack]
    return {
        "network": result.name,
        "attack": attack,
        "method": ", ".join(held.methods),
        "samples": result.samples,
        "closed %": round(both.share_closed, 1),
        "upper / lower": round(both.width, 4),
        "area between %": round(both.area, 2),
        "at": str(both.at(held.strengths[(len(held.strengths) - 1) // 2])),
    }


def widths(samples: int) -> Iterator[Row]:
    data = ra.load_dataset("digits", "test").take(samples)
    for name in ("digits-standard", "digits-linf", "digits-l2", "digits-ibp"):
        result = sides(ra.load_model(f"builtin:{name}"), data, list(NORMS))
        for attack in NORMS:
            yield two_sided_row(result, attack)


def lines(samples: int) -> Iterator[Row]:
    data = ra.load_dataset("digits", "test").take(samples)
    for name in ("digits-standard", "digits-linf", "digits-l2", "digits-ibp"):
        result = sides(ra.load_model(f"builtin:{name}"), data, ["brightness", "contrast"])
        for attack in ("brightness", "contrast"):
            yield two_sided_row(result, attack)


def tiny(seed: int, inputs: int, width: int, classes: int) -> tuple[nn.Sequential, Tensor, Tensor]:
    """Return a network of two hidden layers, trained on classes that another one draws, with points and labels."""
    torch.manual_seed(seed)
    teacher = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, classes))
    x = torch.rand(2000, inputs)
    with torch.no_grad():
        scores = teacher(2 * x - 1)
        y = (scores - scores.mean(0)).argmax(1)
    hidden = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    net = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, classes))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval(), x, y


def exact(samples: int, seconds: float, only: str) -> Iterator[Row]:
    """Yield gaps of searches, and of certificates, to exact sizes: networks with two inputs, by brute force."""
    for seed, width in ((0, 16), (1, 16), (2, 32)):
        net, x, y = tiny(seed, 2, width, 3)
        name = f"2 inputs, {width}-{width}, seed {seed}"
        for attack, p in NORMS.items():
            if only not in f"{name} {attack}":
                continue
            with torch.no_grad():
                right = (net(x).argmax(1) == y).nonzero().flatten()[:samples]
            data, model = (x[right], y[right]), ra.Classifier(net, name=name)
            sizes = exact_sizes(net, data[0].double().numpy(), data[1].numpy(), p)
            for search, effort in (("descent", "default"), ("minimum", "default"), ("descent", "high")):
                common: Any = {"effort": effort, "progress": False, "diagnose": False, "audit": 0}
                found = ra.evaluate(model, data, attack, search, **common)
                row: Row = {"network": name, "attack": attack, "search": search if effort == "default" else effort}
                known = sizes <= found.strengths(attack)[-1]
                yield row | _gap(found.minimal_size(attack)[known] / sizes[known] - 1)
            for method in (IntervalBounds(), Crown(), BetaCrown(seconds=seconds)):
                lower = ra.certify(model, data, attack, method=method, progress=False).certified_size(attack)
                row = {"network": name, "attack": attack, "method": method.name}
                yield row | _gap(1 - lower / sizes) | {"above": int((lower > sizes).sum())}


def _gap(ratio: Any) -> Row:
    return {
        "samples": len(ratio),
        "median gap %": round(100 * float(np.median(ratio)), 3),
        "within 1 %": round(100 * float((ratio < 0.01).mean()), 1),
        "largest gap %": round(100 * float(ratio.max()), 1) if np.isfinite(ratio).all() else None,
        "not found": int(np.isinf(ratio).sum()),
    }


ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.ELU, nn.CELU, nn.SELU, nn.Softplus, nn.GELU, nn.SiLU)
ACTIVATIONS += (nn.Mish, nn.Sigmoid, nn.Tanh, nn.Hardswish, nn.Hardsigmoid)
POOLINGS = (nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2), nn.MaxPool2d(3, stride=2, padding=1))


class Mixed(nn.Module):
    """Normalisation, convolutions (one in groups), batch normalisation, an activation, a sum, concatenation, pooling, a
    view and a linear layer."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False)
        self.activation, self.pooling = ACTIVATIONS[seed % len(ACTIVATIONS)](), POOLINGS[seed % len(POOLINGS)]
        self.last = nn.Linear(32, 4)
        self.norm.running_mean, self.norm.running_var = torch.randn(4) * 0.1, torch.rand(4) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.norm(self.first((x - 0.5) / 0.25)))
        wide = torch.cat(
            [
                x,
                self.activation(self.second(x)) - x,
            ],
            1,
        )
        out: Tensor = self.last(self.pooling(wide).flatten(1))
        return out


def soundness(networks: int, points: int) -> Iterator[Row]:
    """Yield for each network how many points it misclassifies inside of its certified balls."""
    methods = ("crown", "interval", "beta-crown")
    for seed in range(networks):
        net = Mixed(seed).double().eval()
        x = torch.rand(4, 3, 4, 4, dtype=torch.float64)
        y = net(x).argmax(1)
        subject, method = Subject(ra.Classifier(net), (3, 4, 4)), methods[seed % len(methods)]
        wrong = tried = 0
        settings = {"seconds": 1.0} if method == "beta-crown" else {}
        for norm in NORMS:
            sizes = certificate_named(method, **settings).sizes(
                subject, attack_named(norm), Samples(x, y, torch.arange(4))
            )
            each = points // (len(NORMS) * 4) + 1
            moved = border_points(net, x, y, sizes, NORMS[norm], each)
            with torch.no_grad():
                wrong += int((net(moved).argmax(1) != y.repeat_interleave(each)).sum())
            tried += len(moved)
        yield {
            "seed": seed, "method": method, "activation": type(net.activation).__name__,
            "pooling": str(net.pooling), "points": tried, "misclassified": wrong,
        }  # fmt: skip


def border_points(net: nn.Module, x: Tensor, y: Tensor, sizes: Tensor, p: float, each: int) -> Tensor:
    """Return points ``[B each, ...]`` at the border of balls in [0, 1]; half at random, half along the gradient."""
    leaf = x.clone().requires_grad_()
    logits = net(leaf)
    other = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    (gradient,) = torch.autograd.grad((other - logits.gather(1, y[:, None])[:, 0]).sum(), leaf)
    chance = torch.Generator().manual_seed(0)
    noise = torch.randn(len(x), each, x[0].numel(), generator=chance, dtype=x.dtype)
    weight = torch.linspace(0, 1, each, dtype=x.dtype)[:, None]
    towards = gradient.flatten(1)[:, None]
    drawn = (1 - weight) * noise + weight * 3 * towards / towards.norm(dim=2, keepdim=True).clamp_min(1e-12) * 7
    if p == torch.inf:
        move = drawn.sign()
    elif p == 2:
        move = drawn / drawn.norm(dim=2, keepdim=True)
    else:
        move = torch.zeros_like(drawn).scatter_(2, drawn.abs().argmax(2, keepdim=True), 1.0) * drawn.sign()
    radius = sizes.clamp_max(float(x[0].numel())).view(-1, 1, 1)
    return (x.flatten(1)[:, None] + radius * move).clamp(0, 1).view(-1, *x.shape[1:])


class TwoBlocks(nn.Module):
    """A strided convolution and two residual blocks on CIFAR's images, with or without batch normalisation."""

    def __init__(self, normalised: bool, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        norm = nn.BatchNorm2d if normalised else lambda channels: nn.Identity()
        self.first = nn.Conv2d(3, width, 3, 2, 1, bias=not normalised)
        self.norm = norm(width)
        self.one = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, 2, 1), norm(2 * width), nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, 1, 1)
        )
        self.around = nn.Conv2d(width, 2 * width, 1, 2)
        self.two = nn.Sequential(
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1), norm(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1),
        )  # fmt: skip
        self.last = nn.Sequential(nn.Flatten(), nn.Linear(2 * width * 64, 100), nn.ReLU(), nn.Linear(100, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        x = F.relu(self.one(x) + self.around(x))
        out: Tensor = self.last(F.relu(x + self.two(x)))
        return out


def layers_of(net: TwoBlocks) -> list[Layer]:
    """Return the inputs of each ReLU of two blocks in float64, and the logits."""
    return [
        {-1: lambda x: net.norm(net.first(x))},
        {0: net.one[:2]},
        {0: net.around, 1: net.one[3]},
        {2: net.two[:2]},
        {2: lambda x: x, 3: net.two[3]},
        {4: net.last[:2]},
        {5: net.last[3]},
    ]


def two_blocks(normalised: bool) -> tuple[nn.Module, Tensor, Tensor]:
    """A network trained on CIFAR-10's first 8,000 test images against linf 2/255, kept in the cache folder; and images
    that it has not seen, with their labels."""
    images = ra.load_dataset("cifar10", "test")
    seen = ra.Dataset.of(images.images[:8000].numpy(), images.labels[:8000].numpy(), "cifar10 0-7999")
    net, name = TwoBlocks(normalised), f"two_blocks{'_batch_norm' * normalised}"
    settings = Settings(learning_rate=3e-3, augmentation="flip", monitored=64)
    recipe = recipe_named("pgd", {"linf": 2 / 255}, steps=2)
    out = cache_folder() / "benchmarks" / name
    ra.train(net, seen, recipe, epochs=10, settings=settings, out=out, progress=False)
    return net.eval(), images.images[8000:], images.labels[8000:]


_BY_MATRICES = 3
"""Images that are certified by dense matrices too, twice, for seven seconds each."""


def residual(samples: int, only: str) -> Iterator[Row]:
    """Two trained residual networks: images that each classifies correctly, certified by ``crown`` and by dense
    matrices of code of its own; processor seconds, and what the forecast said."""
    _ = Subject(ra.load_model("builtin:digits-linf"), (1, 8, 8)).network  # what reads networks is loaded once
    for normalised in (False, True):
        name = f"two residual blocks, {'with' if normalised else 'without'} batch norm"
        if only not in name:
            continue
        net, x, y = two_blocks(normalised)
        with torch.no_grad():
            right = torch.cat([net(some).argmax(1) for some in x.split(500)]) == y
        chosen = right.nonzero().flatten()[:samples]
        row: Row = {"network": name, "right %": round(100 * float(right.double().mean()), 1), "samples": samples}
        x, y = x[chosen], y[chosen]
        row |= timed(ra.Classifier(net, name=name), (x, y), "crown", "linf")
        sizes = row.pop("sizes")
        row["255 times the median size"] = round(255 * float(np.median(sizes)), 3)
        yield row
        with torch.no_grad():
            dense = matrices(layers_of(net.double()), (3, 32, 32))
            few = range(min(_BY_MATRICES, samples))
            for share, said in ((1.0, "at their sizes"), (1.01, "1 % above")):
                held = [certain(dense, x[k : k + 1], int(y[k]), share * sizes[k]) for k in few]
                row[f"certified by matrices {said}"] = f"{sum(held)} of {len(held)}"
        yield row


def certain(dense: Matrices, x: Tensor, label: int, radius: float) -> bool:
    others = torch.arange(len(dense[-1][1])) != label
    return bool((margins(dense, x.double(), label, radius)[others] > 0).all())


def timed(model: ra.Classifier, data: Any, method: str, attack: str) -> Row:
    """Certified sizes, the seconds that they took, and the processor seconds beside those that the forecast had said by
    the same clock, which others on the machine do not move."""
    with patch("time.perf_counter", time.process_time):
        said = forecast(model, data, Request(attacks=attack, progress=False), method)
    begun, used = time.perf_counter(), time.process_time()
    with bounded_samples() as bounds:
        result = ra.certify(model, data, attack, method=method, progress=False)
    seconds, busy = time.perf_counter() - begun, time.process_time() - used
    return {
        "sizes": result.certified_size(attack), "bounds a sample": round(sum(bounds) / result.samples, 1),
        "seconds": round(seconds, 1), "processor seconds": round(busy, 2), "forecast": round(said.seconds, 2),
        "threads": torch.get_num_threads(),
    }  # fmt: skip


@contextmanager
def bounded_samples() -> Iterator[list[int]]:
    """Collect the number of samples of each bound that is computed in the meantime."""
    found: list[int] = []
    begin = Bounds.__init__

    def counting(bounds: Bounds, network: Network, region: Region, **given: Any) -> None:
        found.append(region.samples)
        begin(bounds, network, region, **given)

    with patch.object(Bounds, "__init__", counting):
        yield found


def strengths(samples: int, only: str) -> Iterator[Row]:
    """Yield what CROWN, and branch and bound, prove at one strength, with what is refuted and not decided."""
    cases: list[tuple[str, Any, Any, float]] = []
    digits = ra.load_dataset("digits", "test")
    for name, strength in (("digits-linf", 0.09), ("digits-l2", 0.06), ("digits-standard", 0.05)):
        cases.append((name, ra.load_model(f"builtin:{name}").net, digits, strength))
    for name, net, data, strength in cases:
        if only not in name:
            continue
        subject = Subject(ra.Classifier(net, name=name), tuple(data.images.shape[1:]))
        x, y = data.images[: 4 * samples], data.labels[: 4 * samples]
        with torch.no_grad():
            right = (subject.model.logits(x).argmax(1) == y).nonzero().flatten()[:samples]
        some = Samples(x[right].double(), y[right], right)
        sizes = torch.full((len(right),), strength, dtype=torch.float64)
        for method in (Crown(), BetaCrown(seconds=60.0)):
            used = time.process_time()
            with torch.no_grad():
                verdicts = method.prove(subject, attack_named("linf"), some, sizes)
            proven, refuted = int(verdicts.proven.sum()), int(verdicts.refuted.sum())
            yield {
                "network": name, "method": method.name, "strength": strength, "samples": len(right),
                "proven": proven, "refuted": refuted, "not decided": len(right) - proven - refuted,
                "processor seconds a sample": round((time.process_time() - used) / len(right), 2),
            }  # fmt: skip


def fully_connected(*widths: int) -> nn.Sequential:
    """Return linear layers of these widths with a ReLU between each two."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def trained_on_digits(recipe: str, against: dict[str, float] | None) -> nn.Sequential:
    """Return a fully connected network trained on the digits, kept in the cache folder."""
    torch.manual_seed(0)
    net = fully_connected(64, 50, 50, 10)
    settings = Settings(learning_rate=3e-3, monitored=64)
    out = cache_folder() / "benchmarks" / f"digits_fully_connected_{recipe}"
    made = recipe_named(recipe, against)
    ra.train(net, ra.load_dataset("digits", "train"), made, epochs=40, settings=settings, out=out, progress=False)
    return net.eval()


def networks_to_decide() -> Iterator[tuple[str, nn.Sequential, ra.Dataset, tuple[float, ...]]]:
    """Yield names, networks, images and linf strengths."""
    digits = ra.load_dataset("digits", "test")
    yield "digits 50-50, standard training", trained_on_digits("standard", None), digits, (0.05, 0.1)
    yield "digits 50-50, PGD 0.1", trained_on_digits("pgd", {"linf": 0.1}), digits, (0.15, 0.2)
    weights = Path(os.environ.get("ROBUSTATLAS_MODELS", "")) / "mnistfc_256x4.safetensors"
    if not weights.is_file():
        print(f"complete: leaves out mnistfc 256x4; ROBUSTATLAS_MODELS names no folder with {weights.name}")
        return
    net = fully_connected(784, 256, 256, 256, 256, 10)
    net.load_state_dict(load_file(weights))
    yield "mnistfc 256x4", net.eval(), ra.load_dataset("mnist", "test"), (0.03,)


def complete(samples: int, seconds: float, only: str) -> Iterator[Row]:
    """Yield what CROWN, branch and bound, and Marabou decide of the same balls: one row for each network, strength and
    method. What is proven by one and refuted by another one ends the benchmark with an error."""
    for name, net, data, radii in networks_to_decide():
        if only not in name:
            continue
        with torch.no_grad():
            right = (net(data.images[: 2 * samples + 20]).argmax(1) == data.labels[: 2 * samples + 20]).nonzero()[:, 0]
        chosen = right[:samples]
        some = Samples(data.images[chosen].double(), data.labels[chosen], chosen)
        subject = Subject(ra.Classifier(net, name=name), tuple(some.x.shape[1:]))
        for strength in radii:
            decided: dict[str, list[str]] = {}
            for method in ("crown", "beta-crown", "Marabou"):
                kinds, times = [], []
                for row in range(len(chosen)):
                    one = some.select(torch.tensor([row]))
                    kind, took = decide_ball(method, subject, one, strength, seconds)
                    kinds.append(kind)
                    times.append(round(took, 2))
                decided[method] = kinds
                yield {
                    "network": name, "strength": strength, "method": method, "samples": len(chosen),
                    "proven": kinds.count("proven"), "refuted": kinds.count("refuted"),
                    "not decided": kinds.count("not decided"), "seconds": times, "seconds allowed": seconds,
                    "decisions": kinds,
                }  # fmt: skip
            for row, kinds in enumerate(zip(*decided.values(), strict=True)):
                if {"proven", "refuted"} <= set(kinds):
                    raise SystemExit(
                        f"{name}, image {int(chosen[row])}, linf {strength}: {dict(zip(decided, kinds, strict=True))}"
                    )


def decide_ball(method: str, subject: Subject, one: Samples, strength: float, seconds: float) -> tuple[str, float]:
    """Return the decision of a method on one ball, and the seconds that it took."""
    if method == "Marabou":
        radius = strength * MARGIN_OF_SIZES  # the ball that a certificate of this strength speaks of
        x = one.x[0].flatten()
        answer = decide(
            subject.model.net, (x - radius).clamp_min(0), (x + radius).clamp_max(1), int(one.labels), seconds
        )
        return answer.decision, answer.seconds
    settings = {"seconds": seconds} if method == "beta-crown" else {}
    begun = time.perf_counter()
    with torch.no_grad():
        size = torch.tensor([strength], dtype=torch.float64)
        verdicts = certificate_named(method, **settings).prove(subject, attack_named("linf"), one, size)
    took = time.perf_counter() - begun
    if verdicts.proven:
        return "proven", took
    return "refuted" if verdicts.refuted else "not decided", took


def cost(only: str) -> Iterator[Row]:
    """Seconds of this process, and what the forecast said before."""
    digits, small = ra.load_dataset("digits", "test").take(100), ra.load_model("builtin:digits-linf")
    tried = [("interval", "linf"), ("crown", "linf"), ("crown", "l1"), ("line", "brightness")]
    cases: list[tuple[ra.Classifier, Any, str, str]] = [(small, digits, *each) for each in tried]
    cases.append((ra.load_model("builtin:digits-ibp"), digits, "crown", "linf"))
    for classes in (3, 10):
        linear = nn.Sequential(nn.Flatten(), nn.Linear(64, classes)).eval()
        with torch.no_grad():
            data = digits.images, linear(digits.images).argmax(1)
        cases += [(ra.Classifier(linear, name=f"one linear layer, {classes} classes"), data, "linear", "l2")]
    _ = Subject(small, (1, 8, 8)).network  # what reads networks is loaded once
    for model, data, method, attack in cases:
        if only not in f"{model.name} {method} {attack}":
            continue
        row: Row = {"network": model.name, "attack": attack, "method": method}
        row |= timed(model, data, method, attack)
        yield row | {"samples": len(row.pop("sizes"))}


def deep() -> Iterator[Row]:
    """Yield the forecast for a trained ResNet-32, with 303,104 numbers before 31 activations, beside its cost."""
    net, mean, std = resnet32()
    net.load_state_dict(load_file(Path(os.environ["ROBUSTATLAS_MODELS"]) / "cifar10_resnet32_delta.safetensors"))
    model = ra.Classifier(net.eval(), mean, std, name="ResNet-32")
    data = ra.load_dataset("cifar10", "test").take(10)
    for method in ("interval", "crown"):
        with patch("time.perf_counter", time.process_time):
            (each,) = forecast(model, data, Request(attacks="linf", progress=False), method).expected
        yield {
            "network": model.name, "attack": "linf", "method": method, "samples": each.number,
            "forecast": round(each.seconds, 1), "at most": each.is_upper_bound,
        }  # fmt: skip


def _kind(row: Row) -> list[Any]:
    return [row.get(key) for key in ("network", "attack", "method", "search", "seed", "strength")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="widths,lines,exact,strengths,complete,soundness,cost,residual,deep")
    parser.add_argument(
        "--samples", type=int, default=100, help="of widths and lines; a fifth of exact, strengths, complete"
    )
    parser.add_argument(
        "--only", default="", help="of exact, strengths, complete, cost, residual: what is in the names"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of a ball in complete, of a sample in exact")
    parser.add_argument("--networks", type=int, default=50)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "certificates.json")
    asked = parser.parse_args()
    parts = {
        "widths": lambda: widths(asked.samples),
        "lines": lambda: lines(asked.samples),
        "exact": lambda: exact(max(1, asked.samples // 5), asked.seconds, asked.only),
        "strengths": lambda: strengths(max(1, asked.samples // 5), asked.only),
        "complete": lambda: complete(max(1, asked.samples // 5), asked.seconds, asked.only),
        "soundness": lambda: soundness(asked.networks, asked.points),
        "cost": lambda: cost(asked.only),
        "residual": lambda: residual(max(1, asked.samples // 10), asked.only),
        "deep": deep,
    }
    kept: dict[str, Any] = json.loads(asked.output.read_text(encoding="utf-8")) if asked.output.is_file() else {}
    for part in asked.parts.split(","):
        before = kept.get(part, {}).get("rows", []) if asked.only else []
        kept[part] = {"version": ra.__version__, "cores": os.cpu_count(), "rows": before}
        for row in parts[part]():
            print(part, json.dumps(row), flush=True)
            others = [each for each in kept[part]["rows"] if _kind(each) != _kind(row)]
            kept[part]["rows"] = [*others, row]
            asked.output.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
