"""The attacks in lp norms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from robustatlas.attacks.definition import FRONTIER, Attack, Procedure, Stage, frontier, grid
from robustatlas.objectives import Objective
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.carlini_wagner import CarliniWagner
from robustatlas.optimizers.ead import EAD
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN, WANDERING
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.hop_skip_jump import HopSkipJump
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.sigma_zero import SigmaZero
from robustatlas.optimizers.square import Square
from robustatlas.threats.lp import L0, L1, L2, Linf, Lp

UNITS = {
    "linf": "largest change of a pixel value",
    "l2": "Euclidean length of the change",
    "l1": "sum of absolute changes",
    "l0": "changed values (channels of pixels)",
}
STRENGTHS = {"linf": grid(0.1), "l2": grid(2.5), "l1": grid(30.0), "l0": grid(20.0)}
THREATS: dict[str, Lp] = {"linf": Linf(), "l2": L2(), "l1": L1(), "l0": L0()}


_ASCENT = Stage(PGD(steps=15, rate=1.0, schedule="cosine", momentum=0.5), "margin", targets=1, start="best")
_ASCENT_L1 = Stage(APGDL1(steps=30, schedule=((1.0, 1.0),)), "margin", targets=2, start="best", order="distance")
_FRONTIER_L1 = frontier(
    Stage(FMN(60, rate=4.0, dense=True), "margin", targets=3), APGDL1(steps=8, schedule=((1.0, 1.0),))
)
_FAB = Stage(FAB(steps=20), "margin", targets=1, order="distance")


def _hop(
    optimizer: Optimizer[Any], kick: float, hops: int, fruitless: int = 4, objective: Objective = "margin"
) -> Stage:
    return Stage(optimizer, objective, start="best", kick=kick, restarts=hops, fruitless=fruitless)


def _linf(steps: int, hops: int, fruitless: int = 4) -> tuple[Stage, Stage, Stage]:
    careful, far = FMN(steps), replace(WANDERING, steps=steps)
    hop = _hop(replace(careful, shrink=0.2), 8.0, hops, fruitless)
    return Stage(careful, "margin", targets=3), Stage(far, "dlr"), hop


def _l2(steps: int, hop_steps: int, hops: int, fruitless: int = 4) -> tuple[Stage, Stage, Stage]:
    far = replace(WANDERING, steps=steps)
    return Stage(far, "margin", targets=3), Stage(far, "dlr"), _hop(FMN(hop_steps, shrink=0.3), 4.0, hops, fruitless)


def _l1(steps: int, targets: int, hops: int, fruitless: int = 4) -> tuple[Stage, Stage, Stage]:
    dense = FMN(40, rate=4.0, shrink=0.2, dense=True)
    hop = _hop(replace(dense, steps=steps, rate=2.0, shrink=0.3), 8.0, hops, fruitless)
    return Stage(dense, "margin", targets=3), replace(_FAB, targets=targets), hop


_BOUNDS = {
    "linf": _linf(24, hops=3),
    "l2": _l2(24, hop_steps=20, hops=6, fruitless=3),
    "l1": _l1(20, targets=1, hops=2),
}
"""Minimum-size runs that end in different valleys: towards other classes, by another objective, and then hops from the
smallest example far away and down again, which on networks with many valleys find more than any runs from the clean
point. Elsewhere two kinds agree before, and one hop follows."""

_MANY = 24
"""Hops of the search for the smallest size, which ends after some that find nothing."""

_LONG_L2 = _l2(30, hop_steps=30, hops=_MANY, fruitless=6)
_MINIMUM = {
    "linf": _linf(30, hops=_MANY, fruitless=6),
    "l2": (*_LONG_L2[:-1], Stage(replace(WANDERING, shrink=0.3), "margin", targets=9), _LONG_L2[-1]),
    "l1": _l1(40, targets=3, hops=_MANY, fruitless=12),
}
"""The same, longer, with more hops, and in l2 towards all classes where two kinds differ."""

_SWEEP = PGD(6, rate=1.0, schedule="cosine", momentum=0.5)


def _frontier(targets: int, hop: Stage) -> tuple[Stage, ...]:
    """Runs of long steps and two hops, then the ascents, the last upwards by shorter steps."""
    ascents = frontier(Stage(WANDERING, "margin", targets=targets), _SWEEP)
    upwards = replace(ascents[-1], optimizer=replace(_SWEEP, rate=0.3))
    return (ascents[0], hop, *ascents[1:-1], upwards)


_FRONTIERS = {
    "linf": _frontier(3, _linf(30, hops=2)[-1]),
    "l2": _frontier(4, _l2(30, hop_steps=30, hops=2)[-1]),
    "l1": _FRONTIER_L1,
}
_POLISH = Stage(FMN(10, rate=0.1, shrink=0.02), "margin", start="best")
_POLISH_L1 = Stage(FMN(30, shrink=0.02, dense=True), "margin", start="best")


def autoattack(norm: str) -> Attack:
    """linf, l2, l1: at one strength AutoAttack's APGD-T and FAB-T, as MultiRobustBench runs them; our own descent for
    whole curves."""
    l1 = norm == "l1"
    targets = 5 if l1 else 9  # AutoAttack takes five targets for l1
    apgd = APGDL1() if l1 else APGD()
    return Attack(
        name=norm,
        threat=THREATS[norm],
        strengths=STRENGTHS[norm],
        stages=(Stage(apgd, "dlr", targets=targets), Stage(FAB(exact=True), "margin", targets=9)),
        bound=_BOUNDS[norm],
        polish=(_POLISH_L1 if l1 else _POLISH,),
        minimum=_MINIMUM[norm],
        descent=(_ASCENT_L1 if l1 else _ASCENT,),
        closing=(_FAB,) if l1 else (),
        frontier=_FRONTIERS[norm],
        unit=UNITS[norm],
        source="Dai et al. 2023 (MultiRobustBench): set and grid, and at one strength AutoAttack's APGD-T and FAB-T "
        "(Croce and Hein 2020)",
        unbounded=True,
    )


def sparse() -> Attack:
    """l0: sigma-zero (with a smoother count and a higher first threshold than its own) and FAB's projection bound the
    count, hops of sigma-zero lower it; projected ascent on the largest changes, by steps from border to border of the
    box, tries below; at last FAB goes on from the smallest example."""
    sigma = Stage(SigmaZero(steps=180, sigma=0.1, threshold=0.6), "margin")
    fab = Stage(FAB(steps=20), "margin", targets=3)
    hop = _hop(SigmaZero(steps=60, rate=2.0, sigma=0.1, threshold=0.3), 10.0, 10, objective="dlr")
    ascent = Stage(PGD(steps=25, rate=10.0, schedule="cosine"), "margin", targets=3, start="best")
    return Attack(
        name="l0",
        threat=THREATS["l0"],
        strengths=STRENGTHS["l0"],
        stages=(ascent, sigma, fab),
        bound=(replace(sigma, targets=3), fab, hop),
        polish=(replace(fab, start="best"),),
        minimum=(replace(sigma, targets=5), fab, replace(hop, restarts=_MANY, fruitless=6)),
        descent=(ascent,),
        frontier=(Stage(SigmaZero(steps=100), "margin"), *FRONTIER[1:]),
        unit=UNITS["l0"],
        source="Cinà et al. 2025 (sigma-zero)",
        unbounded=True,
    )


def single(name: str, norm: str, stage: Stage, source: str) -> Attack:
    """One published attack by itself, for comparisons."""
    bound = (stage,) if stage.optimizer.minimum_size else ()
    return Attack(
        name=name,
        threat=THREATS[norm],
        strengths=STRENGTHS[norm],
        stages=(stage,),
        bound=bound,
        descent=() if bound else None,
        frontier=(),
        unit=UNITS[norm],
        source=source,
        unbounded=True,
    )


def _fmn(norm: str, steps: int) -> Stage:
    return Stage(FMN(steps, rate=4.0, dense=True) if norm == "l1" else FMN(steps), "margin")


def lp_attacks(procedure: Procedure) -> list[Attack]:
    """All of them; both procedures are the same but for the search."""
    return [
        *(autoattack(norm) for norm in ("linf", "l2", "l1")),
        sparse(),
        single("pgd-linf", "linf", Stage(PGD(40, rate=0.1), "cross-entropy"), "Madry et al. 2018"),
        single("pgd-l2", "l2", Stage(PGD(40, rate=0.1), "cross-entropy"), "Madry et al. 2018"),
        single("apgd-ce-linf", "linf", Stage(APGD(), "cross-entropy"), "Croce and Hein 2020"),
        single("apgd-ce-l2", "l2", Stage(APGD(), "cross-entropy"), "Croce and Hein 2020"),
        single("apgd-ce-l1", "l1", Stage(APGDL1(), "cross-entropy", restarts=5), "Croce and Hein 2021"),
        single("fw-l1", "l1", Stage(FrankWolfe(), "cross-entropy"), "Kang et al. 2019 (UAR)"),
        *(
            single(f"{kind}-{norm}", norm, stage, source)
            for norm in ("linf", "l2", "l1")
            for kind, stage, source in (
                ("fab", Stage(FAB(exact=True), "margin", targets=9), "Croce and Hein 2020b"),
                ("fmn", _fmn(norm, 100), "Pintor et al. 2021"),
                ("square", Stage(Square(), "margin"), "Andriushchenko et al. 2020"),
            )
        ),
        single("hop-skip-jump-l2", "l2", Stage(HopSkipJump(), "margin"), "Chen et al. 2020 (labels alone)"),
        single("cw-l2", "l2", Stage(CarliniWagner(), "margin"), "Carlini and Wagner 2017"),
        single("ead-l1", "l1", Stage(EAD(), "margin"), "Chen et al. 2018"),
        single("sigma-zero", "l0", Stage(SigmaZero(), "margin"), "Cinà et al. 2025"),
    ]
