"""Examples that a run kept, as PNG files that ``robustatlas verify`` reads."""

from pathlib import Path

import numpy as np
from PIL import Image

from robustatlas.common.errors import UserError
from robustatlas.common.files import explain_write_errors
from robustatlas.results.result import Result


def write_pictures(result: Result, path: Path) -> None:
    """Write the smallest example of each sample as ``path/ATTACK/POSITION.png``.

    Raises :class:`UserError`: the run kept no examples, or its inputs are not pictures.
    """
    for attack in result.attacks:
        index, images = result.adversarial(attack)
        if len(index) and (images.ndim != 4 or images.shape[1] not in (1, 3)):
            raise UserError(f"The inputs have the shape {images.shape[1:]}; expected grey or RGB images [C, H, W].")
        folder = path / attack
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for position, image in zip(index.tolist(), images, strict=True):
            levels = (image * 255).round().astype(np.uint8)
            picture = Image.fromarray(levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0))
            with explain_write_errors(folder / f"{position}.png"):
                picture.save(folder / f"{position}.png")
