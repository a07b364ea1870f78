"""Adversarial examples as pictures inside the page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.intervals import Interval
from robustatlas.results.result import Result

if TYPE_CHECKING:
    from robustatlas.data import Dataset

SHOWN = 8
"""Examples of each attack."""


@dataclass(frozen=True)
class Example:
    """One adversarial example; pictures are `data:` addresses, empty where the clean image is not at hand.

    Attributes:
        label: true class.
        found: class the model gives the adversarial example.
        wrong: of a randomised model, in how many percent of its draws it is misclassified; None elsewhere.
        difference: picture of the change, grey for none.
        magnified: by which factor the change is shown, the same one for all examples of an attack.
    """

    index: int
    label: str
    found: str
    size: float
    wrong: Interval | None
    adversarial: str
    clean: str
    difference: str
    magnified: float


def examples(result: Result, data: Dataset | None = None) -> dict[str, list[Example]]:
    """Attack -> some of its adversarial examples, from the smallest to the largest; nothing where none were kept."""
    shown = {}
    for attack in result.attacks:
        try:
            found = (
                None if result.run is None else _choose(result, attack, result.run.samples_with_examples(attack), data)
            )
        except UserError:
            return {}
        if found:
            shown[attack] = found
    return shown


def _choose(result: Result, attack: str, kept: NDArray[np.int64], data: Dataset | None) -> list[Example]:
    """Some of the samples ``kept``, of which alone the examples are read."""
    outcome = result.outcome(attack)
    sizes = outcome.minimal_size
    usable = np.flatnonzero(np.isin(result.index, kept) & (sizes > 0) & np.isfinite(sizes))
    if not len(usable):
        return []
    ordered = usable[np.argsort(sizes[usable], kind="stable")]
    few = ordered[np.unique(np.linspace(0, len(ordered) - 1, SHOWN).round().astype(int))]
    index, images = result.adversarial(attack, result.index[few])
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        return []
    position = {int(sample): row for row, sample in enumerate(result.index)}
    rows = [position[sample] for sample in index.tolist()]
    found, wrong = [], result.misclassification(attack)
    cleans = {place: _clean_image(data, int(index[place]), images[place].shape) for place in range(len(index))}
    changes = [np.abs(images[place] - clean).max() for place, clean in cleans.items() if clean is not None]
    magnified = 0.5 / (float(max(changes, default=0.5)) or 0.5)  # the largest change fills the range beside grey
    for place, clean in cleans.items():
        row, sample = rows[place], int(index[place])
        found.append(
            Example(
                index=sample,
                label=_class(data, int(result.labels[row])),
                found=_class(data, int(outcome.found_class[row])),
                size=float(outcome.minimal_size[row]),
                wrong=wrong[row],
                adversarial=picture(images[place]),
                clean="" if clean is None else picture(clean),
                difference="" if clean is None else picture(0.5 + magnified * (images[place] - clean)),
                magnified=magnified,
            )
        )
    return found


def picture(image: NDArray[np.floating]) -> str:
    """A `data:` address of an image [C, H, W] in [0, 1] as PNG.

    >>> picture(np.zeros((1, 8, 8), np.float32))[:22]
    'data:image/png;base64,'
    """
    pixels = np.clip(np.moveaxis(np.repeat(image, 3, axis=0) if image.shape[0] == 1 else image, 0, -1), 0, 1)
    file = BytesIO()
    imsave(file, (255 * pixels).round().astype(np.uint8), format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _clean_image(data: Dataset | None, sample: int, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    if data is None:
        return None
    places = np.flatnonzero(data.index.numpy() == sample)
    if not len(places):
        return None
    image: NDArray[np.float32] = data.rows[int(places[0])].numpy()
    return image if image.shape == shape else None


def _class(data: Dataset | None, label: int) -> str:
    if label < 0:
        return "another class"
    return data.classes[label] if data is not None and label < len(data.classes) else f"class {label}"
