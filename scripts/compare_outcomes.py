"""Compare what every attack finds before and after a change of the code, to the last bit.

    python scripts/compare_outcomes.py record before.npz            # with the code of before
    python scripts/compare_outcomes.py record after.npz             # with the code of after
    python scripts/compare_outcomes.py compare before.npz after.npz

Every attack of both protocols runs at two strengths on three small networks, with a fixed seed and batch size: by its
default search on two of them, by all of its searches on the third. Sizes, found classes, margins and passes of each
sample are stored. Attacks that use the projection onto the l1 ball may differ by 1e-5 relative; everything else is
equal to the last bit. ``--attacks`` records a part of them.
"""

import argparse
import contextlib
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

import robustatlas as ra
from robustatlas.attacks.catalogue import catalogue

SAMPLES = 3
EVERY_SEARCH = "connected"
"""The subject on which each attack runs by all of its searches, and not by its default alone."""
PROJECTED_ON_L1 = ("l1", "snow")
"""Parts of the names of attacks that project onto the l1 ball: l1, jpeg-l1, apgd-ce-l1, snow, ua-snow and so on."""


CHANNELS, SIDE, CLASSES = 3, 16, 10


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(CHANNELS, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(8, 12, 3, padding=1, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(12 * (SIDE // 4) ** 2, CLASSES),
    )  # fmt: skip


def connected() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS * SIDE * SIDE, 32), nn.Tanh(), nn.Linear(32, CLASSES))


def colour_images(images: torch.Tensor) -> torch.Tensor:
    """Return grey images [N, 1, H, W] as larger, tinted ones [N, 3, SIDE, SIDE]."""
    larger = nn.functional.interpolate(images, size=(SIDE, SIDE), mode="bilinear", align_corners=True)
    return (larger * torch.tensor([0.9, 0.7, 0.5])[:, None, None]).clamp(0, 1)


def train(net: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Train for 30 epochs on noisy images, so that examples are not found at once."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(30):
        for batch in torch.randperm(len(images)).split(100):
            noisy = (images[batch] + 0.2 * torch.randn_like(images[batch])).clamp(0, 1)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(noisy), labels[batch]).backward()
            optimizer.step()


def subjects() -> list[tuple[str, object, tuple[torch.Tensor, torch.Tensor]]]:
    """Return the name, the network and the samples of each subject."""
    digits = ra.load_dataset("digits")
    images = colour_images(digits.images)
    made: list[tuple[str, object, tuple[torch.Tensor, torch.Tensor]]] = []
    for make in (convolutional, connected):
        torch.manual_seed(7)
        net = make()
        train(net, images[SAMPLES:], digits.labels[SAMPLES:])
        made.append((make.__name__, net.eval(), (images[:SAMPLES], digits.labels[:SAMPLES])))
    made.append(
        ("digits-linf", ra.load_model("builtin:digits-linf"), (digits.images[:SAMPLES], digits.labels[:SAMPLES]))
    )
    return made


def record(path: Path, only: list[str]) -> None:
    """Store what every attack finds on every subject in ``path``, and which subjects it refuses."""
    arrays: dict[str, np.ndarray] = {}
    tried = subjects()
    for protocol in ("default", "paper"):
        for name, attack in catalogue(protocol).items():
            if only and name not in only:
                continue
            for subject, net, data in tried:
                searches = attack.searches if subject == EVERY_SEARCH else attack.searches[:1]
                for search in searches:
                    key = f"{protocol}/{name}/{search}/{subject}"
                    begun = time.perf_counter()
                    try:
                        outcome = evaluated(net, data, name, protocol, search, attack.strengths)
                    except ra.UserError as error:
                        arrays[f"{key}/refused"] = np.array(str(error)[:60])
                        continue
                    for field in ("minimal_size", "found_class", "margins", "fooled", "forward", "backward"):
                        arrays[f"{key}/{field}"] = getattr(outcome, field)
                    print(f"{key}: {time.perf_counter() - begun:.1f} s", file=sys.stderr, flush=True)
    np.savez_compressed(path, **arrays)


def evaluated(
    net: object, data: object, name: str, protocol: str, search: str, strengths: tuple[float, ...]
) -> "ra.Outcome":
    chosen = [strengths[len(strengths) // 3], strengths[-1]] if len(strengths) > 1 else list(strengths)
    options = {
        "strengths": {name: chosen},
        "protocol": protocol,
        "search": search,
        "batch_size": 2,
        "workers": 1,
        "seed": 5,
    }
    with warnings.catch_warnings(), contextlib.redirect_stderr(None):
        warnings.simplefilter("ignore")
        result = ra.evaluate(net, data, name, diagnose=False, audit=0, progress=False, **options)
    return result.outcome(name)


def compare(before: Path, after: Path) -> int:
    """Print each array that differs, and return how many do beyond what is allowed."""
    old, new = np.load(before), np.load(after)
    differences = 0
    for key in sorted({*old.files, *new.files}):
        if key not in old.files or key not in new.files:
            print(f"{key} is only in {before if key in old.files else after}")
            differences += 1
            continue
        if key.endswith("/refused") or np.array_equal(old[key], new[key], equal_nan=True):
            continue
        attack = key.split("/")[1]
        projected = any(part in attack for part in PROJECTED_ON_L1)
        close = old[key].shape == new[key].shape and np.allclose(old[key], new[key], rtol=1e-5, atol=0, equal_nan=True)
        if not (projected and close):
            print(f"{key} differs{' (uses the l1 projection)' if projected else ''}:\n  {old[key]}\n  {new[key]}")
            differences += 1
    print(f"{len(old.files)} arrays compared: {differences} differ")
    return differences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("--attacks", nargs="*", default=[])
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "record":
        record(given.file, given.attacks)
    else:
        sys.exit(min(compare(given.before, given.after), 1))


if __name__ == "__main__":
    main()
