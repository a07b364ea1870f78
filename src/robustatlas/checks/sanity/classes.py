"""Do the samples, the data and the model speak of the same classes?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.wording import counted
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.columns import class_names


@dataclass(frozen=True)
class ClassesHeld:
    """The classes of a whole data set.

    Attributes:
        count: those of which it has samples; 0: not known.
        names: of all, in the order of their numbers; none where they have none.

    Example:
        >>> ClassesHeld(2, ("cat", "dog", "owl")).count
        2
    """

    count: int = 0
    names: tuple[str, ...] = ()


NOT_KNOWN = ClassesHeld()


def check_classes(labels: Tensor, held: ClassesHeld, model: Classifier, *, drawn: bool = True) -> list[str]:
    """Warnings where samples lack classes of their data, or the data classes of the model, or both number them
    differently.

    Args:
        labels: [N] of the samples.
        held: of the whole data set.
        model: that has answered, or says how many classes it has.
        drawn: the samples were asked for by their number; which ones somebody named is theirs to know.

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
    answered = model.class_count or 0
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
