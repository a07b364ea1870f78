"""How far from their limits are the indicators of the diagnosis? Margins of safety on networks of several kinds.

Networks: those of gradient_step.py (the shelf, ResNet-32 on CIFAR-10, a convolutional one on MNIST, and these behind
what misleads a gradient), and, kept apart when the limits were chosen, six of subjects.py and mnistfc: attention,
residual, GELU and fully connected networks on MNIST, Fashion-MNIST and CIFAR-10, as they are, behind a ReLU on the
pixels (``clipped``: no gradient at pixels of 0) and behind a backward pass of random signs. What is overestimated is
measured as there.

Of each limit: the largest share of doubtful samples of a network that is not overestimated, and the least of one that
is and that the indicator is for, on both groups.

    python benchmarks/limits.py --group apart --samples 200 [--networks build/networks] --output FILE
    python benchmarks/limits.py --group chosen --samples 40 --output FILE

What the output has already is not computed again.
"""

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import robustatlas as ra
from gradient_step import STRENGTHS, Behind, Subject, claimed, is_right, networks
from resumed import Resumed
from robustatlas.checks.indicators import INDICATORS, LookedAt
from robustatlas.checks.indicators.base import DIRECTIONS
from robustatlas.checks.indicators.differences import Differences
from robustatlas.checks.indicators.gradients import AGREES, BorderGradient
from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.models.weights import load_weights
from subjects import CHOSEN_ON, KEPT, KINDS, REPORTED, fully_connected, trained

RESULTS = Path(__file__).parent / "results"
CAPS = (0.01, 0.02, 0.03, 0.05, 0.1, 1.0)
SEEN = (0.05, 0.1, 0.25, 0.5)
MATTERS = (0.05, 0.1, 0.2, 0.3)
ALIKE = (0.1, 0.5, 0.9, 0.99)
BORDER = ("clipped",)
"""What the indicator of the border is for; that of the gradient is for all others."""


def kept_apart(folder: Path) -> Iterator[Subject]:
    """Networks that no limit was chosen on."""
    for name in (*CHOSEN_ON, *REPORTED):
        model, data = trained(name, folder)
        yield from variants(f"{KINDS[name].data} {name}", model, data.images[:300], data.labels[:300])
    weights = Path(os.environ.get("ROBUSTATLAS_MODELS", "")) / "mnistfc_256x4.safetensors"
    if weights.is_file():
        net, mnist = fully_connected(4), ra.load_dataset("mnist")
        load_weights(net, weights)
        yield from variants("mnist mnistfc", ra.Classifier(net.eval()), mnist.images[:300], mnist.labels[:300])


def variants(name: str, model: ra.Classifier, images: Tensor, labels: Tensor) -> Iterator[Subject]:
    yield Subject(name, True, model, images, labels)

    def plain(x: Tensor) -> Tensor:
        return model.logits(x, verifying=True)

    for kind, broken in (("clipped", lambda x: plain(x.relu())), ("signs", Behind(plain, "signs"))):
        through = ra.Classifier(ra.surrogate(broken, plain))
        yield Subject(f"{name}, {kind}", None, ra.Classifier(broken), images, labels, through)


def looked_at(subject: Subject, samples: int) -> LookedAt:
    model = subject.model
    right = model.logits(subject.images, verifying=True).argmax(1) == subject.labels
    x, y = subject.images[right][:samples], subject.labels[right][:samples]
    return LookedAt(model, x, y, Noise.of(0, torch.arange(len(x)), "diagnosis"))


def percent(doubtful: Tensor) -> float:
    return round(100 * float(doubtful.double().mean()), 1)


def by_cap(look: LookedAt) -> dict[str, float]:
    """Central differences, as far as the gradient claims the boundary to be, at most so much."""
    found = {}
    signs = [look.noise.child(1000 + k).sign(*look.x.shape[1:]) for k in range(DIRECTIONS)]
    for cap in CAPS:
        size = per_sample(claimed(cap)(look), look.x)
        pairs = (((look.x + size * s).clamp(0, 1), (look.x - size * s).clamp(0, 1)) for s in signs)
        found[f"{cap:g}"] = percent(Differences.between(pairs, look.lead_at, look.slopes).agreement < AGREES)
    return found


def by_border(look: LookedAt) -> dict[str, float]:
    """Claims below so much of the changes, where values at the border make so much of all changes."""
    doubtful: dict[tuple[float, float], Tensor] = {}
    everywhere = (look.differences.size / 2).square()
    for border in (0, 1):
        found = Differences.between(BorderGradient._pairs(look, border), look.lead_at, look.slopes)
        here = (2 * found.size).square()
        for seen in SEEN:
            for matters in MATTERS:
                concerned = (here >= matters * (here + everywhere)) & (found.size >= look.rounding)
                now = concerned & (found.claimed < seen * found.size)
                doubtful[seen, matters] = doubtful.get((seen, matters), now) | now
    return {f"{seen:g} of {matters:g}": percent(which) for (seen, matters), which in doubtful.items()}


def by_precision(look: LookedAt) -> dict[str, float]:
    """Cosine of the gradients in float32 and float64 below so much."""
    measured = INDICATORS["float-saturation"]().measure(look)
    if not measured.judged.any() and not isinstance(look.model.net, nn.Module):
        return {}
    return {f"{limit:g}": percent(measured.values < limit) for limit in ALIKE}


def shares(subject: Subject, samples: int) -> dict[str, dict[str, float]]:
    with subject.model.evaluating(), torch.no_grad():
        look = looked_at(subject, samples)
        quantised = INDICATORS["quantised"]().measure(look)
        return {
            "samples": {"": len(look.x)},
            "cap": by_cap(look),
            "border": by_border(look),
            "precision": by_precision(look),
            "quantised": {"": percent(quantised.doubtful)},
        }


def row(subject: Subject, group: str, samples: int) -> dict[str, Any]:
    known = {
        each["network"]: each["right"] for each in json.loads((RESULTS / "gradient_step.json").read_text())["networks"]
    }
    dataset = subject.name.split(",")[0].split()[0]
    STRENGTHS.setdefault(dataset, STRENGTHS["mnist"])
    right = known.get(subject.name)
    if right is None:
        right = is_right(subject)
    return {"network": subject.name, "group": group, "right": right, "shares": shares(subject, samples)}


def margins(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Limit -> group -> the largest share of a sound network, the least of one that the indicator is for."""
    told: dict[str, dict[str, dict[str, Any]]] = {}
    for what in ("cap", "border", "precision"):
        for limit in next(each["shares"][what] for each in rows if each["shares"][what]):
            for group in ("chosen", "apart"):
                some = [each for each in rows if each["group"] == group and limit in each["shares"][what]]
                good = {each["network"]: each["shares"][what][limit] for each in some if each["right"]}
                bad = {
                    each["network"]: each["shares"][what][limit]
                    for each in some
                    if not each["right"] and (each["network"].endswith(BORDER)) == (what == "border")
                }
                found = {"sound": max(good.items(), key=lambda pair: pair[1], default=None)}
                if what != "precision":
                    found["overestimated"] = min(bad.items(), key=lambda pair: pair[1], default=None)
                told.setdefault(f"{what} {limit}", {})[group] = found
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--networks", type=Path, default=KEPT)
    parser.add_argument("--group", choices=("apart", "chosen"), required=True)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    console, kept = Console(), Resumed(given.output)
    for subject in kept_apart(given.networks) if given.group == "apart" else networks():
        if subject.name in kept:
            continue
        kept.add(row(subject, given.group, given.samples))
        console.print(kept.rows[-1], soft_wrap=True)
    told = margins(kept.rows)
    table = Table("limit", "group", "largest of a sound one", "least of an overestimated one")
    for limit, by_group in told.items():
        for group, found in by_group.items():
            table.add_row(limit, group, *(str(found.get(kind)) for kind in ("sound", "overestimated")))
    console.print(table)
    kept.write(margins=told)


if __name__ == "__main__":
    main()
