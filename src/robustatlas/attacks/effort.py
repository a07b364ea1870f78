"""Effort of an attack: its searches make their plans cheaper or stronger by it."""

from dataclasses import replace
from typing import get_args

from robustatlas.attacks.definition import Attack, Effort
from robustatlas.common.errors import check_choice


def scale_effort(attack: Attack, effort: Effort) -> Attack:
    """Return ``attack`` with fewer passes (``"low"``), as it is, or with several times as many (``"high"``).

    Low effort shortens each run and leaves targets or restarts out. High effort runs each run once more with twice the
    steps, towards twice the targets, or from two more random points. A rule says by itself what becomes of it.
    """
    check_choice("effort", effort, get_args(Effort))
    return replace(attack, effort=effort)
