"""Pictures of what attacks do to an image: a small network on colour pictures drawn from nothing is attacked.

python docs/_tools/scene.py            # draws docs/images/attacks
python docs/_tools/scene.py Colour     # of it, the group of this name
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from facts_attacks import PICTURES, groups, on_small_images, picture_path
from numpy.typing import NDArray
from torch import nn

import robustatlas as ra
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.noise import Noise
from robustatlas.common.typed_strengths import format_strength
from robustatlas.models.objectives import cross_entropy
from robustatlas.optimizers.crafting import Opponent, craft
from robustatlas.optimizers.pgd import PGD

matplotlib.use("agg")

SIDE, FINER = 64, 3
CLASSES = ("house", "boat", "balloon", "tree")


def scene(kind: int, seed: int) -> NDArray[np.float32]:
    """A picture [3, SIDE, SIDE] of a landscape with one thing in it."""
    draw = np.random.default_rng(seed)
    side = SIDE * FINER
    y, x = np.mgrid[0:side, 0:side] / side
    sky = np.array([0.35, 0.6, 0.9]) + draw.normal(0, 0.04, 3)
    picture = sky * (1 - y[..., None] * 0.4) + np.array([1.0, 0.85, 0.65]) * y[..., None] * 0.4
    sun = draw.uniform([0.12, 0.1], [0.3, 0.2])
    picture[(x - sun[0]) ** 2 + (y - sun[1]) ** 2 < 0.006] = (1.0, 0.93, 0.55)
    hills = 0.62 + 0.06 * np.sin(5 * x + draw.uniform(0, 6)) + 0.02 * np.sin(17 * x + draw.uniform(0, 6))
    picture[y > hills] = (0.45, 0.62, 0.4)
    ground = np.array([0.16, 0.42, 0.62]) if kind == 1 else np.array([0.33, 0.55, 0.27])
    waves = 0.03 * np.sin(60 * y + 3 * np.sin(9 * x))[..., None] if kind == 1 else draw.normal(0, 0.02, (side, side, 1))
    picture = np.where((y > 0.72)[..., None], ground + waves, picture)
    cx, s = draw.uniform(0.45, 0.62), draw.uniform(0.9, 1.15)
    red, other = np.array([0.8, 0.22, 0.18]) + draw.normal(0, 0.06, 3), np.array([0.95, 0.88, 0.75])
    u = (x - cx) / s
    if kind == 0:
        v = (y - 0.82) / s
        picture[(abs(u) < 0.17) & (v < 0) & (v > -0.26)] = other
        picture[(v <= -0.24) & (abs(u) < 0.22 * (v + 0.46) / 0.22)] = red
        picture[(abs(u) < 0.035) & (v < 0) & (v > -0.13)] = (0.4, 0.26, 0.15)
        picture[(abs(abs(u) - 0.105) < 0.03) & (abs(v + 0.16) < 0.035)] = (0.25, 0.4, 0.6)
    elif kind == 1:
        v = (y - 0.8) / s
        picture[(abs(v) < 0.05) & (abs(u) < 0.2 - 0.8 * (v + 0.05))] = (0.45, 0.27, 0.15)
        picture[(abs(u) < 0.008) & (v < -0.05) & (v > -0.5)] = (0.3, 0.2, 0.1)
        picture[(u > 0.012) & (v < -0.08) & (v > -0.48) & (u < 0.17 * (v + 0.48) / 0.4)] = (0.98, 0.97, 0.93)
        picture[(u < -0.012) & (v < -0.08) & (v > -0.4) & (-u < 0.13 * (v + 0.4) / 0.32)] = red
    elif kind == 2:
        v = (y - 0.36) / s
        inside = u**2 + (v * 0.88) ** 2 < 0.038
        picture[inside] = np.where((np.sin(28 * u) > 0)[..., None], red, np.array([0.97, 0.8, 0.3]))[inside]
        picture[(abs(u) < 0.035) & (abs(v - 0.33) < 0.03)] = (0.45, 0.3, 0.15)
        picture[(abs(abs(u) - 0.035) < 0.005) & (v > 0.2) & (v < 0.3)] = (0.3, 0.2, 0.1)
    else:
        v = (y - 0.84) / s
        picture[(abs(u) < 0.025) & (v < 0) & (v > -0.15)] = (0.4, 0.27, 0.15)
        for bottom, wide in ((-0.1, 0.2), (-0.24, 0.16), (-0.37, 0.115)):
            picture[(v < bottom) & (v > bottom - 0.22) & (abs(u) < wide * (v - bottom + 0.22) / 0.22)] = (
                0.1,
                0.38,
                0.2,
            )
    small = picture.clip(0, 1).reshape(SIDE, FINER, SIDE, FINER, 3).mean((1, 3))
    return np.moveaxis(small, -1, 0).astype(np.float32)


def scenes(count: int, first: int) -> ra.Dataset:
    """Return a number of pictures, the classes in turn."""
    labels = np.arange(count) % len(CLASSES)
    images = np.stack([scene(int(kind), first + k) for k, kind in enumerate(labels)])
    return ra.Dataset.from_arrays(torch.from_numpy(images), torch.from_numpy(labels), "scenes", classes=CLASSES)


def train_network() -> ra.Classifier:
    """Return a small network for the scenes, the same each time."""
    torch.manual_seed(0)
    data = scenes(160, 1000)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, len(CLASSES)),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(12):
        for rows in torch.randperm(len(data)).split(32):
            x = (data.images[rows] + 0.03 * torch.randn_like(data.images[rows])).clamp(0, 1)
            loss = nn.functional.cross_entropy(net(x), data.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return ra.Classifier(net.eval(), name="scenes")


def grid_runs(
    model: ra.Classifier, attack: ra.Attack, image: torch.Tensor, label: int, strengths: tuple[float, ...]
) -> torch.Tensor:
    """Return one image after twenty steps of ascent at each strength, ``[S, C, H, W]``."""
    count = len(strengths)
    x, labels = image.expand(count, -1, -1, -1).contiguous(), torch.full((count,), label)
    epsilon, noise = torch.tensor(strengths, dtype=x.dtype), Noise.for_samples(0, torch.zeros(count), "gallery")
    threat = attack.threat.for_model(model)
    threat.check(x)
    if attack.typical:  # as much of an everyday change as the strength says
        theta = threat.typical(x, epsilon, noise)
        theta[:, : threat.bounded] = epsilon[:, None]
        return threat.apply(x, theta)
    if not threat.optimised:
        return threat.apply(x, threat.start(x, epsilon, noise))
    opponent = Opponent(attack.name, threat, strengths[-1], PGD(20, 0.2, "cosine", scaled=attack.name == "lpips"))
    return craft(
        model.logits,
        opponent,
        x,
        labels,
        epsilon,
        noise,
        lambda logits: cross_entropy(logits, labels, None),
        keep="best",
    ).x


def three(strengths: Sequence[float]) -> tuple[float, float, float]:
    """The weakest, the middle and the largest."""
    return strengths[0], strengths[(len(strengths) - 1) // 2], strengths[-1]


def sheet(model: ra.Classifier, attacks: Sequence[ra.Attack], image: torch.Tensor, label: int, path: Path) -> None:
    """A row for each attack: the clean image and the three strengths."""
    figure, panels = plt.subplots(
        len(attacks), 4, figsize=(5.6, 1.6 * len(attacks)), squeeze=False, layout="constrained"
    )
    for attack, row in zip(attacks, panels, strict=True):
        strengths = three(attack.strengths)
        images = [image, *grid_runs(model, attack, image, label, strengths)]
        titles = [
            attack.name.removeprefix("corruption-"),
            *(format_strength(at, 3, attack=attack.name) for at in strengths),
        ]
        for panel, shown, title in zip(row, images, titles, strict=True):
            panel.imshow(shown.permute(1, 2, 0).numpy())
            panel.set_title(title, fontsize=11, pad=3, color="black")
            panel.axis("off")
    figure.savefig(path, dpi=100, pil_kwargs={"quality": 88}, facecolor="white")
    plt.close(figure)


def main(chosen: Sequence[str]) -> None:
    """Draw the sheets of the groups of attacks that are named, of all where none is."""
    model, data = train_network(), scenes(8, 0)
    everyday = {attack.name: attack for attack in resolve_attacks("everyday", sides=(SIDE, SIDE))}
    PICTURES.mkdir(parents=True, exist_ok=True)
    for number, (group, names) in enumerate(groups().items()):
        if chosen and group not in chosen:
            continue
        attacks = [everyday.get(name) or on_small_images(name) for name in names]
        k = number % len(CLASSES)
        sheet(model, attacks, data.images[k], int(data.labels[k]), picture_path(group))


if __name__ == "__main__":
    main(sys.argv[1:])
