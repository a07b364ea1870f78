"""Which attacks can say anything of a model, by what they need to learn of it."""

from collections.abc import Sequence

from torch import Tensor

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack, AttackRun, Plan
from robustatlas.common.errors import UserError
from robustatlas.data import Rows
from robustatlas.models.classifier import Classifier, Knowledge
from robustatlas.models.classifier.backward import Backward
from robustatlas.optimizers.hop_skip_jump import HopSkipJump
from robustatlas.optimizers.square import Square

_TELLS: dict[Knowledge, int] = {"labels": 0, "scores": 1, "gradients": 2}
_IMAGES = 4
"""Dimensions of a batch of images, which Square needs."""


def check_attacks(model: Classifier, attacks: Sequence[Attack], images: Tensor | Rows) -> list[str]:
    """Refuse attacks that need more than the model tells; say how much the others prove.

    Args:
        model: with what it tells, ``model.knowledge``.
        attacks: those asked for.
        images: a batch shaped like the inputs, ``[B, ...]``.

    Returns:
        a warning where only attacks without a gradient can be run.

    Raises:
        UserError: attacks ask for gradients or scores that the model does not give; names those that would do.

    Example:
        >>> import torch
        >>> from robustatlas import Classifier
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> check_attacks(Classifier(torch.nn.Linear(4, 2)), [attack_named("linf")], torch.rand(2, 4))
        []
    """
    telling = [attack.name for attack in attacks if attack.errors in ("wrong", "refused")]
    if telling and model.rejection is None:
        raise UserError(
            f"{', '.join(telling)} is for models that reject, and {model.name!r} does not; leave the ending out, or "
            "give Classifier(net, rejection='class' or 'score')."
        )
    if model.knowledge == "gradients":
        return []
    lacking = [attack.name for attack in attacks if not learns_enough(attack, model)]
    if lacking:
        valid = [a.name for a in catalogue().values() if learns_enough(a, model) and _searches(a) and _takes(a, images)]
        told = "labels alone" if model.knowledge == "labels" else "scores without a gradient"
        raise UserError(
            f"The model {model.name!r} gives {told}, and {', '.join(lacking)} need{'s' * (len(lacking) == 1)} more; "
            f"use {' or '.join(valid)} (and corruptions, which need nothing)."
        )
    return [
        f"The model {model.name!r} has no gradient to attack with, so the robust accuracies are weak upper "
        "bounds: smaller adversarial examples probably exist that attacks without a gradient do not find."
    ]


def ways_back(plan: Plan) -> frozenset[Backward | None]:
    """The ways back through input transformations by which a plan takes gradients.

    Args:
        plan: of one search of an attack.

    Returns:
        :data:`~robustatlas.models.classifier.backward.Backward`, None for what the model does by itself, also where
        the ReLUs of its network go back smoothed; nothing where the plan takes no gradient.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> ways_back(attack_named("linf").plan("descent")), ways_back(attack_named("corruption-fog").plan("every"))
        (frozenset({None}), frozenset())
    """
    ways = (run.backward for run in plan.runs if _needed(run) == "gradients")
    return frozenset(None if way == "smoothed" else way for way in ways)


def learns_enough(attack: Attack, model: Classifier) -> bool:
    """Whether all that an attack may run makes do with what ``model`` tells."""
    return all(_TELLS[model.knowledge] >= _TELLS[_needed(run)] for run in attack.runs)


def _needed(run: AttackRun) -> Knowledge:
    return "gradients" if run.targets == "distance" else run.optimizer.needs


def _searches(attack: Attack) -> bool:
    return any(isinstance(run.optimizer, (Square, HopSkipJump)) for run in attack.runs)


def _takes(attack: Attack, images: Tensor | Rows) -> bool:
    return len(images.shape) == _IMAGES or not any(isinstance(run.optimizer, Square) for run in attack.runs)
