"""Sanity checks of the samples: values, labels, and if data and model mean the same classes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.wording import counted
from robustatlas.data.labels import class_numbers
from robustatlas.data.rows import as_inputs, two_values, within_range
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.columns import class_names


def check_inputs(images: Tensor, labels: Any) -> Tensor:
    """Check ``images`` [N, ...] and ``labels`` [N], and return the images as floats in [0, 1].

    Args:
        images: [N, ...], floats in [0, 1] or uint8 in 0..255.
        labels: [N] integers, whatever :func:`~robustatlas.data.labels.class_numbers` takes.

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
    numbers = class_numbers(labels, "Labels")
    if images.dim() < 2 or len(images) != len(numbers):
        raise UserError(
            f"Images have shape {tuple(images.shape)} and labels {numbers.shape}; expected [N, ...] and [N] with the "
            "same N."
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
    images = within_range(images, "Images")
    if int(numbers.min()) < 0:
        raise UserError(f"Labels go down to {int(numbers.min())}; expected class numbers from 0.")
    return images


@dataclass(frozen=True)
class ClassesHeld:
    """Classes of a whole data set.

    Attributes:
        count: number of classes of which it has samples; 0: not known.
        names: names of all classes, in the order of their numbers; empty if they have none.

    Example:
        >>> ClassesHeld(2, ("cat", "dog", "owl")).count
        2
    """

    count: int = 0
    names: tuple[str, ...] = ()


NOT_KNOWN = ClassesHeld()


def check_classes(labels: Tensor, held: ClassesHeld, model: Classifier, *, drawn: bool = True) -> list[str]:
    """Return warnings if classes of samples, data and model differ: some are lacking, or numbered differently.

    Args:
        labels: [N] of the samples.
        held: classes of the whole data set.
        model: that has answered, or says how many classes it has.
        drawn: True if the samples were asked for by their number, and not one by one.

    Returns:
        warnings, one sentence each.

    Example:
        >>> model = Classifier(torch.nn.Identity(), classes=2)
        >>> check_classes(torch.tensor([0, 1]), ClassesHeld(2), model)
        []
    """
    found = []
    few = len(torch.unique(labels))
    if drawn and few < held.count:
        found.append(
            f"The {counted(len(labels), 'sample')} are of {few} of the {held.count} classes of the data, so accuracies "
            "say nothing of the others; take more samples, or some of each class (--stratified)."
        )
    answered = (model.class_count or 0) - len(model.excluded_classes)
    if 0 < held.count < answered:
        found.append(
            f"The data has samples of {held.count} class{'es' * (held.count > 1)}, and the model answers {answered}: "
            "accuracies say nothing of the others, and the data may number its classes otherwise than the model."
        )
    names = class_names(model.classes)
    numbered = {name: number for number, name in reversed(list(enumerate(names)))}
    for number, name in enumerate(held.names):
        if numbered.get(name, number) != number and names[number : number + 1] != (name,):
            found.append(
                f"The data numbers its classes otherwise than the model: {name!r} is {number} in the data and "
                f"{numbered[name]} for the model; give the data the model's order (classes of load_dataset)."
            )
            break
    return found
