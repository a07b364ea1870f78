"""Would an evaluation of these samples mean anything?"""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.data.rows import NORMALISED, as_inputs, two_values, within_range


def check_inputs(images: Tensor, labels: Tensor, whose: str = "Images", remedy: str = NORMALISED) -> Tensor:
    """``images`` [N, ...], in [0, 1] also where rounding left it, once they and ``labels`` [N] were looked at.

    Args:
        images: [N, ...], floats in [0, 1] or uint8 in 0..255.
        labels: [N] integers.
        whose: begins the sentence where images do not lie in [0, 1].
        remedy: ends it where they are on another scale.

    Returns:
        the images as floats; where rounding left them outside of [0, 1], clamped.

    Raises:
        UserError: no samples, shapes that do not fit together, values that are not finite or outside of [0, 1], or
            labels that are not class numbers.

    Example:
        >>> import torch
        >>> check_inputs(torch.rand(2, 1, 4, 4), torch.tensor([0, 1])).shape
        torch.Size([2, 1, 4, 4])
    """
    if images.dim() and len(images) == 0:
        raise UserError("There are no samples; expected at least one image. Check the data set or --samples.")
    if labels.dim() == 2 and len(labels) == len(images) and bool(((labels == 0) | (labels == 1)).all()):
        one_each = bool((labels.sum(1) == 1).all())
        remedy = (
            "give labels.argmax(1)"
            if one_each
            else "several labels a sample are not measured here: evaluate one label against the rest, with a model of "
            "two classes and labels[:, k]"
        )
        raise UserError(f"Labels have shape {tuple(labels.shape)}; expected one class number a sample, [N]: {remedy}.")
    if images.dim() < 2 or labels.dim() != 1 or len(images) != len(labels):
        raise UserError(
            f"Images have shape {tuple(images.shape)} and labels {tuple(labels.shape)}; expected [N, ...] and [N] "
            f"with the same N."
        )
    if not images.numel():
        raise UserError(f"Images have shape {tuple(images.shape)}, and so no pixels; expected [N, C, H, W].")
    if not images.is_floating_point():
        if not images.is_complex() and bool(((images == 0) | (images == 1)).all()) and bool(images.any()):
            raise UserError(two_values("Images"))
        if images.dtype != torch.uint8:
            raise UserError(
                f"Images are {images.dtype}; expected floats in [0, 1], or 8-bit images: divide by 255 or store them "
                "as uint8."
            )
        images = as_inputs(images)
    images = within_range(images, whose, remedy)
    if labels.is_floating_point() or bool((labels < 0).any()):
        raise UserError(f"Labels are {labels.dtype} from {labels.min().item()}; expected integers from 0.")
    return images
