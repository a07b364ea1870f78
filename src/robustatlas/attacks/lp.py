"""The attacks in lp norms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from robustatlas.attacks.definition import Attack, AttackInfo, Leg, Plan, Procedure, Search, Stage, grid
from robustatlas.attacks.plans import plans, plans_of, swept
from robustatlas.objectives import Objective
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.carlini_wagner import CarliniWagner
from robustatlas.optimizers.ead import EAD
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN, long_fmn
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


_ASCENT = Stage(PGD(steps=15, rate=1.0, schedule="cosine", momentum=0.5), "margin", targets="logits", start="best")
_ASCENT_L1 = Stage(APGDL1(steps=30, schedule=((1.0, 1.0),)), "margin", targets="distance", start="best")
_FAB = Stage(FAB(steps=20), "margin", targets="distance")


def _bound(optimizer: Optimizer[Any], classes: int) -> Leg:
    """A bound by runs towards so many classes."""
    return Leg(Stage(optimizer, "margin", targets="logits"), "bound", classes)


def _restarts(optimizer: Optimizer[Any], kick: float, runs: int, objective: Objective = "margin") -> Leg:
    return Leg(Stage(optimizer, objective, start="best", kick=kick), "restart", runs)


def _linf(steps: int, restarts: int) -> tuple[Leg, ...]:
    careful = FMN(steps)
    other = Leg(Stage(long_fmn(steps), "dlr"), "bound")
    return _bound(careful, 3), other, _restarts(replace(careful, gamma=0.2), 8.0, restarts)


def _l2(steps: int, restart_steps: int, restarts: int) -> tuple[Leg, ...]:
    far = long_fmn(steps)
    return _bound(far, 3), Leg(Stage(far, "dlr"), "bound"), _restarts(FMN(restart_steps, gamma=0.3), 4.0, restarts)


def _l1(steps: int, targets: int, restarts: int) -> tuple[Leg, ...]:
    dense = FMN(40, alpha=4.0, gamma=0.2, dense=True)
    again = _restarts(replace(dense, steps=steps, alpha=2.0, gamma=0.3), 8.0, restarts)
    return _bound(dense, 3), Leg(_FAB, "bound", targets), again


_BOUNDS = {
    "linf": _linf(24, restarts=3),
    "l2": _l2(24, restart_steps=20, restarts=6),
    "l1": _l1(20, targets=1, restarts=2),
}
"""Minimum-size runs that end in different valleys: towards other classes, by another objective, and then restarts from
the smallest example far away and down again, which on networks with many valleys find more than any runs from the clean
point. Elsewhere two kinds agree before, and one restart follows."""

_MANY = 24
"""Restarts of the search for the smallest size, which ends after some that find nothing."""

_LONG_L2 = _l2(30, restart_steps=30, restarts=_MANY)
_MINIMUM = {
    "linf": _linf(30, restarts=_MANY),
    "l2": (*_LONG_L2[:-1], _bound(long_fmn(gamma=0.3), 9), _LONG_L2[-1]),
    "l1": _l1(40, targets=3, restarts=_MANY),
}
"""The same, longer, with more restarts, and in l2 towards all classes where two kinds differ."""

_PATIENCE = {"linf": (4, 6), "l2": (3, 6), "l1": (4, 12), "l0": (4, 6)}
"""Restarts in vain before they end: of the descent, and of the search for the smallest size."""

_SWEEP = PGD(6, rate=1.0, schedule="cosine", momentum=0.5)


def _frontier(targets: int, restarts: Leg) -> Plan:
    """Runs of long steps and two restarts, then the ascents, the last upwards by shorter steps."""
    upwards = replace(_SWEEP, rate=0.3)
    return swept((_bound(long_fmn(), targets), restarts), _SWEEP, upwards)


_FRONTIERS = {
    "linf": _frontier(3, _linf(30, restarts=2)[-1]),
    "l2": _frontier(4, _l2(30, restart_steps=30, restarts=2)[-1]),
    "l1": swept((_bound(FMN(60, alpha=4.0, dense=True), 3),), APGDL1(steps=8, schedule=((1.0, 1.0),))),
}
_BELOW = {
    "linf": (Leg(_ASCENT), Leg(Stage(FMN(10, alpha=0.1, gamma=0.02), "margin", start="best"), "refine")),
    "l1": (
        Leg(_ASCENT_L1, runs=2),
        Leg(_FAB, "close"),
        Leg(Stage(FMN(30, gamma=0.02, dense=True), "margin", start="best"), "refine"),
    ),
}
_BELOW["l2"] = _BELOW["linf"]


def _lp(name: str, norm: str, plans: Mapping[Search, Plan], source: str) -> Attack:
    return Attack(name, THREATS[norm], plans, STRENGTHS[norm], AttackInfo(UNITS[norm], source), unbounded=True)


def autoattack(norm: str) -> Attack:
    """linf, l2, l1: at one strength AutoAttack's APGD-T and FAB-T, as MultiRobustBench runs them; our own descent for
    whole curves."""
    apgd, targets = (APGDL1(), 5) if norm == "l1" else (APGD(), 9)  # AutoAttack takes five targets for l1
    published = (
        Leg(Stage(apgd, "dlr", targets="logits"), runs=targets),
        Leg(Stage(FAB(exact=True), "margin", targets="logits"), runs=9),
    )
    made = plans(
        published,
        _BOUNDS[norm],
        _BELOW[norm],
        minimum=_MINIMUM[norm],
        patience=_PATIENCE[norm],
        frontier=_FRONTIERS[norm],
    )
    source = (
        "Dai et al. 2023 (MultiRobustBench): set and grid, and at one strength AutoAttack's APGD-T and FAB-T "
        "(Croce and Hein 2020)"
    )
    return _lp(norm, norm, made, source)


def sparse() -> Attack:
    """l0: sigma-zero (with a smoother count and a higher first threshold than its own) and FAB's projection bound the
    count, restarts of sigma-zero lower it; projected ascent on the largest changes, by steps from border to border of
    the box, tries below; at last FAB goes on from the smallest example."""
    sigma = Stage(SigmaZero(steps=180, sigma=0.1, threshold=0.6), "margin")
    fab = Stage(FAB(steps=20), "margin", targets="logits")
    again = _restarts(SigmaZero(steps=60, rate=2.0, sigma=0.1, threshold=0.3), 10.0, 10, objective="dlr")
    ascent = Leg(Stage(PGD(25, rate=10.0, schedule="cosine"), "margin", targets="logits", start="best"), runs=3)
    towards = replace(sigma, targets="logits")
    made = plans(
        (ascent, Leg(sigma), Leg(fab, runs=3)),
        (Leg(towards, "bound", 3), Leg(fab, "bound", 3), again),
        (ascent, Leg(replace(fab, start="best"), "refine", 3)),
        minimum=(Leg(towards, "bound", 5), Leg(fab, "bound", 3), replace(again, runs=_MANY)),
        patience=_PATIENCE["l0"],
        frontier=swept((Leg(Stage(SigmaZero(steps=100), "margin"), "bound"),)),
    )
    return _lp("l0", "l0", made, "Cinà et al. 2025 (sigma-zero)")


def single(name: str, norm: str, stage: Stage, source: str, runs: int = 1) -> Attack:
    """One published attack by itself, for comparisons."""
    return _lp(name, norm, plans_of(stage, runs=runs), source)


def _fmn(norm: str, steps: int) -> Stage:
    return Stage(FMN(steps, alpha=4.0, dense=True) if norm == "l1" else FMN(steps), "margin")


def lp_attacks(procedure: Procedure) -> list[Attack]:
    """All of them; both procedures are the same but for the search."""
    return [
        *(autoattack(norm) for norm in ("linf", "l2", "l1")),
        sparse(),
        single("pgd-linf", "linf", Stage(PGD(40, rate=0.1), "cross-entropy"), "Madry et al. 2018"),
        single("pgd-l2", "l2", Stage(PGD(40, rate=0.1), "cross-entropy"), "Madry et al. 2018"),
        single("apgd-ce-linf", "linf", Stage(APGD(), "cross-entropy"), "Croce and Hein 2020"),
        single("apgd-ce-l2", "l2", Stage(APGD(), "cross-entropy"), "Croce and Hein 2020"),
        single("apgd-ce-l1", "l1", Stage(APGDL1(), "cross-entropy"), "Croce and Hein 2021", runs=5),
        single("fw-l1", "l1", Stage(FrankWolfe(), "cross-entropy"), "Kang et al. 2019 (UAR)"),
        *(
            single(f"{kind}-{norm}", norm, stage, source, runs)
            for norm in ("linf", "l2", "l1")
            for kind, stage, source, runs in (
                ("fab", Stage(FAB(exact=True), "margin", targets="logits"), "Croce and Hein 2020b", 9),
                ("fmn", _fmn(norm, 100), "Pintor et al. 2021", 1),
                ("square", Stage(Square(), "margin"), "Andriushchenko et al. 2020", 1),
            )
        ),
        single("hop-skip-jump-l2", "l2", Stage(HopSkipJump(), "margin"), "Chen et al. 2020 (labels alone)"),
        single("cw-l2", "l2", Stage(CarliniWagner(), "margin"), "Carlini and Wagner 2017"),
        single("ead-l1", "l1", Stage(EAD(), "margin"), "Chen et al. 2018"),
        single("sigma-zero", "l0", Stage(SigmaZero(), "margin"), "Cinà et al. 2025"),
    ]
