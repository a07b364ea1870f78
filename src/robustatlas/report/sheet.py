"""The gallery sheet: what each attack does to one image, at several strengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from textwrap import wrap
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.noise import Noise
from robustatlas.common.typed_strengths import falling_scale_start, format_strength, value_as_typed
from robustatlas.common.wording import elide_middle
from robustatlas.data import Dataset
from robustatlas.evaluation import evaluate
from robustatlas.evaluation.attack_choice import read_grids
from robustatlas.models.classifier import Classifier
from robustatlas.models.objectives import cross_entropy
from robustatlas.optimizers.crafting import Opponent, craft
from robustatlas.optimizers.pgd import PGD
from robustatlas.threats.base import UnsupportedInputError

_CELL, _WIDEST = 1.1, 13.0
"""Inches of a picture, and of the whole sheet: twenty columns make the pictures smaller, not the sheet wider."""

_CHANNELS = (1, 3)
_STEPS = 20
"""Settings of the ascent that shows how far a set reaches where no search fooled the model."""


@dataclass(frozen=True)
class Cell:
    """One attack at one strength.

    Attributes:
        strength: upper end of the sizes.
        image: ``[C, H, W]``: the adversarial image, or the attempt that came nearest to one.
        fooled: whether the model reads it as another class than the true one.
    """

    strength: float
    image: NDArray[np.float32]
    predicted: int
    fooled: bool


def sheet_strengths(attack: Attack, columns: int) -> tuple[float, ...]:
    """At most ``columns`` of the attack's strengths, evenly spread, the largest one among them."""
    count = len(attack.strengths)
    picked = sorted({round((k + 1) * count / columns) - 1 for k in range(columns)} - {-1})
    return tuple(attack.strengths[k] for k in picked)


def cells(model: Classifier, data: Dataset, attack: Attack, columns: int, sample: int) -> list[Cell]:
    """The strongest search at each chosen strength by itself, on one sample. Where it finds no example, the point of
    highest cross-entropy that an ascent in the same set finds."""
    found = []
    for at in sheet_strengths(attack, columns):
        result = evaluate(
            model, data, attack, search="every", strengths={attack.name: [value_as_typed(attack.name, at)]},
            samples=[sample], keep_adversarial=True, progress=False,
        )  # fmt: skip
        outcome = result.outcome(attack.name)
        _, images = result.adversarial(attack.name)
        if len(images) and outcome.fooled[0, 0] == 1:
            found.append(Cell(at, images[0], int(outcome.found_class[0]), fooled=True))
        else:
            found.append(_attempt(model, data, attack, at, sample))
    return found


def _attempt(model: Classifier, data: Dataset, attack: Attack, strength: float, sample: int) -> Cell:
    x = data.rows[sample : sample + 1].to(model.device, model.dtype)
    label = data.labels[sample : sample + 1].to(model.device)
    opponent = Opponent(attack.name, attack.threat, strength, PGD(_STEPS, 2 / _STEPS))
    loss = partial(cross_entropy, labels=label, targets=None)
    noise = Noise.for_samples(0, torch.tensor([sample]), "gallery")
    with model.evaluating():
        judged = partial(model.logits, labels=label)
        crafted = craft(judged, opponent, x, label, x.new_tensor([strength]), noise, loss, keep="best")
        with torch.no_grad():
            predicted = int(judged(crafted.x, verifying=True).argmax(1))
    return Cell(strength, crafted.x[0].float().cpu().numpy(), predicted, fooled=predicted != int(label))


def plot_gallery(
    model: Classifier,
    data: Dataset,
    attacks: str | Sequence[str | Attack],
    sample: int | None = None,
    columns: int = 4,
    amplify: float | None = None,
    strengths: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Clean image, adversarial images and below them their differences: a row an attack, a column a strength.

    Args:
        model: the classifier.
        data: images and labels.
        attacks: names, suites or attacks; those that do not fit the images are left out.
        sample: position in ``data``; default: the first that is classified correctly.
        columns: strengths per attack.
        amplify: factor on the differences; default: for each attack the one that stretches its largest difference to
            the full range, so that the differences of a row can be compared.
        strengths: attack -> those to draw as people type them, in place of some of its own, such as UAR's smallest and
            largest.

    Raises:
        UserError: data that are no images, strengths of an attack that is not drawn, no such sample, or no attack that
            fits the images.
    """
    _check_pictures(data)
    if columns < 1:
        raise UserError(f"columns={columns}; expected at least one strength of each attack.")
    position = _first_correct(model, data) if sample is None else sample
    if not 0 <= position < len(data):
        raise UserError(f"sample={position}, but the data has {len(data)}; expected a position from 0 on.")
    clean = data.rows[position].numpy()
    rows, drawn = [], resolve_attacks(attacks, sides=clean.shape[1:])
    given = read_grids(strengths, [attack.name for attack in drawn])
    columns = max([columns if len(given) < len(drawn) else 1, *map(len, given.values())])
    for each in drawn:
        attack = replace(each, strengths=given.get(each.name, each.strengths))
        try:
            rows.append((attack, cells(model, data, attack, columns, position)))
        except UnsupportedInputError:
            continue
    if not rows:
        raise UserError("None of these attacks fits these images; 'robustatlas attacks' lists all.")
    side = min(_CELL, _WIDEST / (1 + columns))
    figure = Figure(figsize=(side * (1 + columns), (2 * side + 0.45) * len(rows)), layout=_layout(), dpi=130)
    axes = figure.subplots(2 * len(rows), 1 + columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for line, (attack, found) in enumerate(rows):
        _row(axes[2 * line : 2 * line + 2], attack, found, clean, data, int(data.labels[position]), amplify, side)
    return figure


def _check_pictures(data: Dataset) -> None:
    """Raise :class:`UserError` where the data are nothing that can be drawn."""
    if len(data.shape) != 3 or data.shape[0] not in _CHANNELS:
        raise UserError(
            f"A gallery draws images [C, H, W] with 1 or 3 channels, and {data.name} has shape {data.shape}; give a "
            "data set of images."
        )


def _layout() -> ConstrainedLayoutEngine:
    return ConstrainedLayoutEngine(w_pad=0.01, h_pad=0.02, wspace=0.02, hspace=0.02)


def _row(
    axes: NDArray[Any],
    attack: Attack,
    found: Sequence[Cell],
    clean: NDArray[np.float32],
    data: Dataset,
    label: int,
    amplify: float | None,
    side: float,
) -> None:
    """The pictures of one attack, and their differences below them, all on one scale."""
    size = min(7.0, 9 * side)
    letters = int(side * 72 / (0.6 * size))
    named = [elide_middle(data.classes[cell.predicted], max(letters - 8, 5)) for cell in found]
    largest = max((float(np.abs(cell.image - clean).max()) for cell in found), default=0.0)
    factor = min(0.5 / max(largest, 1e-6), 100.0) if amplify is None else amplify
    name = attack_label(attack.name).label
    sign = "≤" if falling_scale_start(attack.name) is None else "≥"
    sizes = [f"{sign} {format_strength(cell.strength, attack=attack.name)}," for cell in found]
    roomy = all(len(name) + 1 + len(text) <= letters for text in sizes)  # else the label of the row names the attack
    _show(axes[0, 0], clean, f"clean,\n{elide_middle(data.classes[label], letters)}", size)
    label_lines = [*map(figure_text, wrap(f"{name}:", 2 * letters // 3)), "change", f"x {factor:.2g}"]
    axes[1, 0].text(0.5, 0.5, "\n".join(label_lines), ha="center", va="center", fontsize=size)
    for place, (cell, text, read) in enumerate(zip(found, sizes, named, strict=True), start=1):
        title = f"{name} {text}" if roomy else text
        said = f"read as {read}" if cell.fooled else f"still {read}"
        _show(axes[0, place], cell.image, f"{title}\n{said}", size, dim=not cell.fooled)
        _show(axes[1, place], np.clip(0.5 + factor * (cell.image - clean), 0, 1), "", size)


def _show(axis: Axes, image: NDArray[np.float32], title: str, size: float, *, dim: bool = False) -> None:
    picture = np.moveaxis(image, 0, -1)
    grey = picture.shape[-1] == 1
    axis.imshow(picture[..., 0] if grey else picture, cmap="gray", vmin=0, vmax=1)
    if title:
        axis.set_title(
            "\n".join(map(figure_text, title.split("\n"))),
            fontsize=size,
            color="0.45" if dim else "0.1",
            linespacing=1.15,
            pad=2,
        )


def _first_correct(model: Classifier, data: Dataset) -> int:
    with model.evaluating(), torch.no_grad():
        for start in range(0, len(data), 256):
            x = data.rows[start : start + 256].to(model.device, model.dtype)
            correct = model.logits(x, verifying=True).argmax(1).cpu() == data.labels[start : start + 256]
            if bool(correct.any()):
                return start + int(correct.int().argmax())
    raise UserError("The model misclassifies every sample; there is nothing to attack. Check its weights and mean/std.")
