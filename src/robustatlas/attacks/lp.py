"""The attacks in lp norms: strong ones, and published ones by themselves for comparisons."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from robustatlas.attacks.definition import Attack, AttackInfo, Leg, Plan, ProtocolName, Search, Stage, grid
from robustatlas.attacks.plans import (
    AGAIN,
    AUTO_PGD_STEPS,
    SEVERAL,
    SWEEP,
    bound,
    legs,
    partly_smoothed,
    plans,
    plans_of,
    restarts,
    smoothed,
    swept,
    two_kinds,
)
from robustatlas.attacks.search.rules import MostPasses, StopFruitless
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.brendel_bethge import BrendelBethge
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


_ASCENDED = 2
"""Nearest classes that ascents go towards."""
_STEPS = 24
_ALONG_BOUNDARY = Stage(BrendelBethge(AGAIN.steps), "margin", start="best")
DENSE = replace(long_fmn(_STEPS), dense=True)
LP_BOUNDS = {
    "linf": (bound(FMN(_STEPS)), *restarts(AGAIN)),
    "l2": (bound(long_fmn(_STEPS)), *restarts(AGAIN)),
    "l1": (bound(DENSE, SEVERAL), *legs("bound", _ALONG_BOUNDARY), *restarts(AGAIN)),
}
"""The l1 gradient says less of which class is near, so bounds step along the gradient itself, towards several classes.
Restarts step in the steepest direction, which moves few values until the box stops them. Each is right on other
networks. Between them the smallest bound walks along the boundary."""

_ASCENT = PGD(steps=20, rate=1.0, schedule="cosine", momentum=0.5)
_REFINE = Stage(FMN(10, alpha=0.1, gamma=0.02), "margin", start="best")
_FROM_OUTSIDE = APGDL1(AUTO_PGD_STEPS)
LP_BELOW = {
    norm: (*two_kinds(ascent, ascent, _ASCENDED), *legs("refine", refine))
    for norm, ascent, refine in (
        ("linf", _ASCENT, _REFINE),
        ("l2", _ASCENT, _REFINE),
        ("l1", _FROM_OUTSIDE, _ALONG_BOUNDARY),
    )
}
"""In l1 ascents begin outside of the ball, by the schedule of APGD's authors."""

_SWEEPS: dict[str, Optimizer[Any]] = {
    "linf": SWEEP,
    "l2": SWEEP,
    "l1": APGDL1(steps=SWEEP.steps, schedule=INSIDE),
}


def _frontier(norm: str) -> Plan:
    first, *_, again = LP_BOUNDS[norm]
    bounds = replace(first, runs=SEVERAL), replace(again if norm == "l1" else smoothed(again), runs=2)
    return swept(bounds, _SWEEPS[norm])


def of_norm(name: str, norm: str, plans: Mapping[Search, Plan], source: str) -> Attack:
    """An attack in the set of a norm, at its strengths."""
    return Attack(name, THREATS[norm], plans, STRENGTHS[norm], AttackInfo(UNITS[norm], source), unbounded=True)


def autoattack(norm: str) -> Attack:
    """linf, l2, l1: at one strength AutoAttack's APGD-T and FAB-T, as MultiRobustBench runs them; our own descent for
    whole curves."""
    apgd, targets = (APGDL1(), 5) if norm == "l1" else (APGD(), 9)  # AutoAttack takes five targets for l1
    published = (
        Leg(Stage(apgd, "dlr", targets="logits"), runs=targets),
        Leg(Stage(FAB(exact=True), "margin", targets="logits"), runs=9),
    )
    downward = partly_smoothed(LP_BOUNDS[norm]), partly_smoothed(LP_BELOW[norm])
    made = plans(published, *downward, most=MostPasses(), frontier=_frontier(norm))
    source = (
        "Dai et al. 2023 (MultiRobustBench): threat model and grid, and at one strength AutoAttack's APGD-T and FAB-T "
        "(Croce and Hein 2020)"
    )
    return of_norm(norm, norm, made, source)


_ZERO = SigmaZero(steps=180, sigma=0.1, threshold=0.6)
_FAB = Stage(FAB(steps=20), "margin", targets="distance")
_SIGMA = Stage(_ZERO, "margin", targets="distance")
_SIGMA_AGAIN = replace(_ZERO, steps=60, rate=2.0, threshold=0.3)
_BORDERS = Stage(PGD(25, rate=10.0, schedule="cosine"), "margin", targets="distance", start="best")


def sparse() -> Attack:
    """l0: sigma-zero (with a smoother count and a higher first threshold than its own) and FAB's projection bound the
    count, restarts of sigma-zero lower it. Projected ascent, by steps from border to border of the box, tries below."""
    ascent = Leg(_BORDERS, runs=SEVERAL)
    made = plans(
        (ascent, Leg(replace(_SIGMA, targets=None)), Leg(_FAB, runs=SEVERAL)),
        (Leg(_SIGMA, "bound", SEVERAL), Leg(_FAB, "bound"), *restarts(_SIGMA_AGAIN)),
        (ascent, Leg(replace(_FAB, start="best"), "refine", SEVERAL)),
        patience=StopFruitless(patience=4),  # its counts have more valleys
        frontier=swept((Leg(replace(_SIGMA, targets=None), "bound"),)),
    )
    return of_norm("l0", "l0", made, "Cinà et al. 2025 (sigma-zero)")


def lp_attacks(protocol: ProtocolName) -> list[Attack]:
    """All of them; both protocols are the same but for the search."""
    return [*(autoattack(norm) for norm in ("linf", "l2", "l1")), sparse()]


def single(name: str, norm: str, stage: Stage, source: str, runs: int = 1) -> Attack:
    """One published attack by itself, for comparisons."""
    return of_norm(name, norm, plans_of(stage, runs=runs), source)


def _fmn(norm: str, steps: int) -> Stage:
    return Stage(FMN(steps, alpha=4.0, dense=True) if norm == "l1" else FMN(steps), "margin")


def published_attacks() -> list[Attack]:
    """All of them, in lp norms."""
    return [
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
