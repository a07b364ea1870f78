"""Attacks that a model gives enough knowledge for, and warnings on the others."""

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

_RANKS: dict[Knowledge, int] = {"labels": 0, "scores": 1, "gradients": 2}
_IMAGES = 4
"""Dimensions of a batch of images, which Square needs."""


def check_attacks(model: Classifier, attacks: Sequence[Attack], images: Tensor | Rows) -> list[str]:
    """Refuse attacks that need more than the model tells, and warn how little the others prove.

    Args:
        model: with what it tells, ``model.knowledge``.
        attacks: to be run.
        images: a batch shaped like the inputs, ``[B, ...]``.

    Returns:
        a warning where only attacks without a gradient can be run.

    Raises:
        UserError: attacks ask for gradients or scores that the model does not give; it names attacks that do not.

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
    lacking = [attack.name for attack in attacks if not has_enough_knowledge(attack, model)]
    if lacking:
        valid = [
            each.name
            for each in catalogue().values()
            if has_enough_knowledge(each, model) and _needs_no_gradient(each) and _can_attack(each, images)
        ]
        told = "labels alone" if model.knowledge == "labels" else "scores without a gradient"
        raise UserError(
            f"The model {model.name!r} gives {told}, and {', '.join(lacking)} need{'s' * (len(lacking) == 1)} more; "
            f"use {' or '.join(valid)} (and corruptions, which need nothing)."
        )
    return [
        f"The model {model.name!r} has no gradient to attack with, so the robust accuracies are weak upper "
        "bounds: smaller adversarial examples probably exist that attacks without a gradient do not find."
    ]


def backward_rules(plan: Plan) -> frozenset[Backward | None]:
    """Return the backward rules through input transformations by which a plan takes gradients.

    Args:
        plan: of one search of an attack.

    Returns:
        :data:`~robustatlas.models.classifier.backward.Backward`; None for what the model does by itself, also if the
        ReLUs of its network go back smoothed; empty if the plan takes no gradient.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> backward_rules(attack_named("linf").plan("descent"))
        frozenset({None})
        >>> backward_rules(attack_named("corruption-fog").plan("every"))
        frozenset()
    """
    rules = (run.backward for run in plan.runs if _knowledge_needed(run) == "gradients")
    return frozenset(None if rule == "smoothed" else rule for rule in rules)


def has_enough_knowledge(attack: Attack, model: Classifier) -> bool:
    """Return True if every run of an attack makes do with what ``model`` tells."""
    return all(_RANKS[model.knowledge] >= _RANKS[_knowledge_needed(run)] for run in attack.runs)


def _knowledge_needed(run: AttackRun) -> Knowledge:
    return "gradients" if run.targets == "distance" else run.optimizer.needs


def _needs_no_gradient(attack: Attack) -> bool:
    return any(isinstance(run.optimizer, (Square, HopSkipJump)) for run in attack.runs)


def _can_attack(attack: Attack, images: Tensor | Rows) -> bool:
    return len(images.shape) == _IMAGES or not any(isinstance(run.optimizer, Square) for run in attack.runs)
