"""The attacks in lp norms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from robustatlas.attacks.definition import Attack, AttackInfo, Leg, Plan, Procedure, Search, Stage, grid
from robustatlas.attacks.plans import RESTARTS, by_kinds, legs, plans, plans_of, swept, two_kinds
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


_FAB = FAB(steps=20)
_DENSE = FMN(40, alpha=4.0, gamma=0.2, dense=True)
_AGAIN = FMN(20, gamma=0.3)
_KICK = 6.0

_BOUNDS = {
    "linf": by_kinds(FMN(24), long_fmn(24), _AGAIN, _KICK),
    "l2": by_kinds(long_fmn(24), long_fmn(24), _AGAIN, _KICK),
    "l1": by_kinds(_DENSE, _DENSE, replace(_AGAIN, alpha=2.0, dense=True), _KICK),
}
"""Steps of FMN along the gradient itself in l1, where the steepest direction moves few coordinates."""

_SWEEP = PGD(6, rate=1.0, schedule="cosine", momentum=0.5)


_FRONTIERS = {
    norm: swept((_BOUNDS[norm][0], replace(_BOUNDS[norm][-1], runs=2)), sweep)
    for norm, sweep in {"linf": _SWEEP, "l2": _SWEEP, "l1": APGDL1(steps=8, schedule=((1.0, 1.0),))}.items()
}


def _below(norm: str) -> tuple[Leg, ...]:
    dense = norm == "l1"
    refine = FMN(30 if dense else 10, alpha=1.0 if dense else 0.1, gamma=0.02, dense=dense)
    if dense:
        ascents = two_kinds(APGDL1(steps=30, schedule=((1.0, 1.0),)), APGDL1(steps=20))
    else:
        ascents = two_kinds(PGD(steps=15, rate=1.0, schedule="cosine", momentum=0.5), APGD(steps=20))
    return (*ascents, *legs("refine", Stage(refine, "margin", start="best")))


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
        _below(norm),
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
    sigma = Stage(SigmaZero(steps=180, sigma=0.1, threshold=0.6), "margin", targets="distance")
    fab = Leg(Stage(FAB(steps=20), "margin", targets="distance"), "bound", 3)
    again = SigmaZero(steps=60, rate=2.0, sigma=0.1, threshold=0.3)
    ascent = Leg(Stage(PGD(25, rate=10.0, schedule="cosine"), "margin", targets="distance", start="best"), runs=3)
    made = plans(
        (ascent, Leg(replace(sigma, targets=None)), replace(fab, role="ascend")),
        (
            Leg(sigma, "bound", 3),
            fab,
            Leg(Stage(again, "dlr", start="best", kick=_KICK), "restart", RESTARTS),
        ),
        (ascent, Leg(replace(fab.stage, start="best"), "refine", 3)),
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
