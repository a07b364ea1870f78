"""The catalogue: named attacks with their strengths, units and sources.

Each entry has a default (sound sets, strong and cheap search) and, where a paper defines it, the procedure of that
paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from robustatlas.attacks.definition import Attack, Stage
from robustatlas.errors import UserError
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.sigma_zero import SigmaZero
from robustatlas.threats.lp import L0, L1, L2, Linf

Procedure = Literal["default", "paper"]
AUTOATTACK = "Croce and Hein 2020 (AutoAttack: APGD-T, then FAB-T)"


def grid(last: float, count: int = 20) -> tuple[float, ...]:
    """``count`` equal steps up to ``last``, the form of all of MultiRobustBench's grids.

    Example:
        >>> grid(0.1, 4)
        (0.025, 0.05, 0.075, 0.1)
    """
    return tuple(round(last * k / count, 10) for k in range(1, count + 1))


def _autoattack(*, l1: bool) -> tuple[Stage, ...]:
    targets = 5 if l1 else 9  # AutoAttack takes five targets for l1
    apgd = APGDL1() if l1 else APGD()
    return (Stage(apgd, "dlr", targets=targets), Stage(FAB(exact=True), "margin", targets=9))


_BOUND = (Stage(FMN(steps=30), "margin"), Stage(FAB(steps=30), "margin", targets=2))
_ASCENT = Stage(PGD(steps=40, rate=1.0, schedule="cosine", momentum=0.5), "margin", targets=9, start="best")
_CLOSING = (Stage(FAB(steps=40), "margin", targets=4),)


def linf(procedure: Procedure) -> Attack:
    """max_i |delta_i| <= epsilon."""
    return Attack(
        "linf", Linf(), grid(0.1), _autoattack(l1=False), _BOUND, (_ASCENT,), _CLOSING,
        unit="largest change of a pixel value", source=AUTOATTACK, unbounded=True,
    )  # fmt: skip


def l2(procedure: Procedure) -> Attack:
    """||delta||_2 <= epsilon."""
    return Attack(
        "l2", L2(), grid(2.5), _autoattack(l1=False), _BOUND, (_ASCENT,), _CLOSING,
        unit="Euclidean length of the change", source=AUTOATTACK, unbounded=True,
    )  # fmt: skip


def l1(procedure: Procedure) -> Attack:
    """sum_i |delta_i| <= epsilon."""
    ascent = Stage(APGDL1(steps=40, schedule=((1.0, 1.0),)), "margin", targets=9, start="best")
    return Attack(
        "l1", L1(), grid(30.0), _autoattack(l1=True), _BOUND, (ascent,), _CLOSING,
        unit="sum of absolute changes", source=AUTOATTACK, unbounded=True,
    )  # fmt: skip


def l0(procedure: Procedure) -> Attack:
    """At most epsilon coordinates changed."""
    stages = (Stage(SigmaZero(steps=100), "margin"), Stage(FAB(steps=20), "margin", targets=3))
    return Attack(
        "l0", L0(), grid(20.0), stages, stages, (Stage(PGD(steps=40, rate=1.0, schedule="cosine"), "margin", "
        "targets=3, start="best"),),
        unit="changed coordinates (channels of pixels)", source="Cina et al. 2025 (sigma-zero), and FAB's projection "
             "for l0", unbounded=True,
    )  # fmt: skip


CATALOGUE: dict[str, Callable[[Procedure], Attack]] = {"linf": linf, "l2": l2, "l1": l1, "l0": l0}


def attack_named(name: str, procedure: Procedure = "default") -> Attack:
    """The attack of that name, by the default procedure or the one of its paper."""
    if name not in CATALOGUE:
        raise UserError(
            f"Attack {name!r} is not known; expected one of {', '.join(CATALOGUE)}. 'robustatlas attacks' describes "
            f"each."
        )
    return CATALOGUE[name](procedure)
