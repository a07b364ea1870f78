"""The gallery sheet: what each attack does to one image, at several strengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import attacks_of
from robustatlas.classifier import Classifier
from robustatlas.datasets import Dataset
from robustatlas.errors import UserError
from robustatlas.evaluation import evaluate
from robustatlas.files import write_atomically
from robustatlas.threats.base import UnsupportedInputError

_CELL = 1.15  # inches
_KINDS = ("png", "pdf", "svg")


@dataclass(frozen=True)
class Cell:
    """One attack at one strength: the adversarial image ``[C, H, W]`` (``None``: none found) and its class."""

    strength: float
    image: NDArray[np.float32] | None
    predicted: int


def chosen_strengths(attack: Attack, columns: int) -> tuple[float, ...]:
    """At most ``columns`` of the attack's strengths, evenly spread, the largest one among them."""
    count = len(attack.strengths)
    picked = sorted({round((k + 1) * count / columns) - 1 for k in range(columns)} - {-1})
    return tuple(attack.strengths[k] for k in picked)


def cells(model: Classifier, data: Dataset, attack: Attack, columns: int, sample: int, seed: int = 0) -> list[Cell]:
    """The strongest search at each chosen strength by itself, on one sample."""
    found = []
    for strength in chosen_strengths(attack, columns):
        result = evaluate(
            model, data, attack, search="every", strengths={attack.name: [strength]}, samples=[sample],
            seed=seed, keep_adversarial=True, progress=False,
        )  # fmt: skip
        outcome = result.outcome(attack.name)
        _, images = result.adversarial(attack.name)
        fooled = len(images) > 0 and bool(outcome.fooled[0, 0] == 1)
        found.append(Cell(strength, images[0] if fooled else None, int(outcome.found_class[0])))
    return found


def plot_gallery(
    model: Classifier,
    data: Dataset,
    attacks: str | Sequence[str | Attack],
    sample: int | None = None,
    columns: int = 4,
    amplify: float | None = None,
) -> Figure:
    """Clean image, adversarial images and their differences: one row per attack, one column per strength.

    Args:
        model: the classifier.
        data: images and labels.
        attacks: names, suites or attacks; those that do not fit the images are left out.
        sample: position in ``data``; default: the first that is classified correctly.
        columns: strengths per attack.
        amplify: factor on the differences; default: each is stretched to the full range.
    """
    position = _first_correct(model, data) if sample is None else sample
    if not 0 <= position < len(data):
        raise UserError(f"sample={position}, but the data has {len(data)}; expected a position from 0 on.")
    clean = data.rows[position].numpy()
    rows = []
    for attack in attacks_of(attacks, sides=clean.shape[1:]):
        try:
            rows.append((attack, cells(model, data, attack, columns, position)))
        except UnsupportedInputError:
            continue
    if not rows:
        raise UserError("None of these attacks fits these images; 'robustatlas attacks' lists all.")
    label = data.classes[int(data.labels[position])]
    wide = 1 + 2 * columns
    figure = Figure(figsize=(_CELL * wide, (_CELL + 0.3) * len(rows)), layout="constrained", dpi=130)
    axes = figure.subplots(len(rows), wide, squeeze=False)
    for line, (attack, found) in zip(axes, rows, strict=True):
        for axis in line:
            axis.axis("off")
        _show(line[0], clean, f"{attack.name}\n{label}")
        for k, cell in enumerate(found):
            left, right = line[1 + 2 * k], line[2 + 2 * k]
            if cell.image is None:
                _show(left, clean, f"{cell.strength:.3g}\nnot fooled", dim=True)
            else:
                _show(left, cell.image, f"{cell.strength:.3g}\n{data.classes[cell.predicted]}")
                difference = cell.image - clean
                factor = amplify or min(0.5 / max(float(np.abs(difference).max()), 1e-6), 100.0)
                _show(right, np.clip(0.5 + factor * difference, 0, 1), f"change\nx {factor:.2g}")
    return figure


def picture_kind(path: Path) -> str:
    """The format that a picture of this name is written in: png, pdf or svg."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _KINDS:
        raise UserError(f"The gallery cannot be written as {path.name!r}; give a name that ends in .png, .pdf or .svg.")
    return kind


def save_gallery(figure: Figure, path: Path) -> None:
    """Write the figure as PNG, PDF or SVG, whole or not at all."""
    write_atomically(path, partial(figure.savefig, format=picture_kind(path)))


def _show(axis: Axes, image: NDArray[np.float32], title: str, *, dim: bool = False) -> None:
    picture = np.moveaxis(image, 0, -1)
    grey = picture.shape[-1] == 1
    axis.imshow(picture[..., 0] if grey else picture, cmap="gray", vmin=0, vmax=1, alpha=0.35 if dim else 1.0)
    axis.set_title(title, fontsize=7, color="0.5" if dim else "0.1", linespacing=1.2)


def _first_correct(model: Classifier, data: Dataset) -> int:
    import torch

    with model.evaluating(), torch.no_grad():
        for start in range(0, len(data), 256):
            x = data.rows[start : start + 256].to(model.device, model.dtype)
            correct = model.logits(x, verifying=True).argmax(1).cpu() == data.labels[start : start + 256]
            if bool(correct.any()):
                return start + int(correct.int().argmax())
    raise UserError("The model misclassifies every sample; there is nothing to attack. Check its weights and mean/std.")
