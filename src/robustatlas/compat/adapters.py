"""``external``: an attack of another library as one of ours."""

import json
from collections.abc import Sequence
from typing import Any

from robustatlas.attacks.definition import Attack, AttackInfo, AttackRun, Search
from robustatlas.attacks.lp import STRENGTHS, THREATS, UNITS
from robustatlas.common.errors import check_choice
from robustatlas.compat.libraries import taken
from robustatlas.models.classifier import Knowledge
from robustatlas.optimizers.external import External, ExternalMinimum


def external(
    attack: Any,
    norm: str,
    *,
    name: str | None = None,
    strengths: Sequence[float] | None = None,
    needs: Knowledge = "gradients",
    **settings: Any,
) -> Attack:
    """An attack of another library as one of ours: every pass counted, every example verified, its size measured here.

    Args:
        attack: of foolbox: an object, such as ``LinfPGD(steps=20)``; of torchattacks or the Adversarial Robustness
            Toolbox: the class, such as ``torchattacks.PGD``; of adv-lib: the function; or any function of ``(model, x,
            labels)`` (and ``eps``, where it works at a given strength) that returns perturbed inputs. ``model`` is a
            module from inputs in [0, 1] to logits.
        norm: whose ball it searches: ``"linf"``, ``"l2"``, ``"l1"`` or ``"l0"``. What it returns outside of the ball
            counts at the strength that it really has.
        name: of the attack; default: of the library's.
        strengths: default: the catalogue's.
        needs: what it must learn of a model: ``"gradients"``, ``"scores"`` or ``"labels"``.
        settings: of the class or function, besides the strength, which each search gives.

    Returns:
        An attack for :func:`evaluate`; its ``stages`` can stand beside others in a plan of your own. One
        that has a strength is searched by bisection, one that has none looks for the smallest examples by itself.

    Raises:
        UserError: an attack that is not known here, or a norm that is none.

    Example:
        >>> import torch
        >>> from robustatlas.evaluation import evaluate
        >>> def brighten(model, x, labels, eps):
        ...     return (x + eps).clamp(0, 1)
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 0, 0, 1]))
        >>> evaluate(net, data, external(brighten, "linf", strengths=(0.1, 0.2))).attacks
        ('brighten',)
    """
    check_choice("norm", norm, THREATS)
    found = taken(attack, settings, THREATS[norm].p)
    kind = ExternalMinimum if found.minimum else External
    optimizer = kind(found.call, json.dumps(dict(found.about), sort_keys=True), needs)
    run = AttackRun(optimizer, "margin", start="neutral")
    order: tuple[Search, ...] = (
        ("descent", "bisection", "every") if found.minimum else ("bisection", "every", "descent")
    )
    return Attack(
        name=name or found.name.strip("_"),
        threat=THREATS[norm],
        runs=(run,),
        strengths=tuple(strengths) if strengths is not None else STRENGTHS[norm],
        search_order=order,
        about=AttackInfo(UNITS[norm], str(found.about.get("library", "a function given"))),
        unbounded=True,
    )
