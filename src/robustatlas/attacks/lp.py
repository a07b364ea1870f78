"""The attacks in lp norms: strong ones, and published ones by themselves for comparisons."""

from dataclasses import replace
from typing import Any

from robustatlas.attacks.definition import ALL_SEARCHES, Attack, AttackInfo, AttackRun, ProtocolName, Search, grid
from robustatlas.attacks.runs import (
    SWEEP,
    bound,
    grid_runs,
    refine,
    restarts,
    sweeps,
    targeted_ascents,
    untargeted_ascents,
)
from robustatlas.attacks.search.rules import MostPasses, Rule, StopFruitless
from robustatlas.models.objectives import Objective
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.brendel_bethge import BrendelBethge
from robustatlas.optimizers.carlini_wagner import CarliniWagner
from robustatlas.optimizers.ead import EAD
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN
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


# AutoAttack (Croce and Hein 2020), as MultiRobustBench runs it at one strength. It takes five targets for l1.
_APGD_T = AttackRun(APGD(100), "dlr", count=9, targets="logits")
_APGD_T_L1 = AttackRun(APGDL1(100), "dlr", count=5, targets="logits")
_FAB_T = AttackRun(FAB(100, exact=True), "margin", count=9, targets="logits")

# Chosen by the gap to the best known, as in robustatlas.attacks.families: one bound of 24 steps and restarts of 20
# steps moved by four times the size; ascents towards two classes gained .1 to .4 points. One or two of each kind of
# runs go back through smoothed ReLUs, the others keep the network's own gradient.
_LINF = (
    *grid_runs(_APGD_T, _FAB_T),
    bound(FMN(24)),
    *restarts(FMN(20, gamma=0.3), kick=4.0, smoothed=True),
    targeted_ascents(PGD(20, rate=1.0, schedule="cosine", momentum=0.5), classes=2),
    untargeted_ascents(PGD(20, rate=1.0, schedule="cosine", momentum=0.5), smoothed=True),
    refine(FMN(10, alpha=0.1, gamma=0.02)),
    *sweeps(
        SWEEP,
        bound(FMN(24), classes=3),
        AttackRun(FMN(20, gamma=0.3), "margin", "restart", 2, start="best", kick=4.0, backward="smoothed"),
    ),
)

# As linf, but the bound goes by long steps: it comes to valleys that a careful one from the clean point does not see.
_L2 = (
    *grid_runs(_APGD_T, _FAB_T),
    bound(FMN(24, alpha=3.0, gamma=0.2)),
    *restarts(FMN(20, gamma=0.3), kick=4.0, smoothed=True),
    targeted_ascents(PGD(20, rate=1.0, schedule="cosine", momentum=0.5), classes=2),
    untargeted_ascents(PGD(20, rate=1.0, schedule="cosine", momentum=0.5), smoothed=True),
    refine(FMN(10, alpha=0.1, gamma=0.02)),
    *sweeps(
        SWEEP,
        bound(FMN(24, alpha=3.0, gamma=0.2), classes=3),
        AttackRun(FMN(20, gamma=0.3), "margin", "restart", 2, start="best", kick=4.0, backward="smoothed"),
    ),
)

# The l1 gradient says less of which class is near, so bounds step along the gradient itself, towards three classes
# (1.5 to 1.1 on `conv-one-hot`). Restarts step in the steepest direction, which moves few values until the box stops
# them. Each is right on other networks. Between them the smallest bound walks along the boundary, and ascents begin
# outside of the ball, by the schedule of APGD's authors (`delta` 2.3 to 1.4).
_WALK = AttackRun(BrendelBethge(20), "margin", "bound", start="best", backward="smoothed")
_L1 = (
    *grid_runs(_APGD_T_L1, _FAB_T),
    bound(FMN(24, alpha=3.0, gamma=0.2, dense=True), classes=3),
    _WALK,
    *restarts(FMN(20, gamma=0.3), kick=4.0, smoothed=True),
    targeted_ascents(APGDL1(40), classes=2),
    untargeted_ascents(APGDL1(40), smoothed=True),
    replace(_WALK, role="refine"),
    *sweeps(
        APGDL1(8, schedule=INSIDE),
        bound(FMN(24, alpha=3.0, gamma=0.2, dense=True), classes=3),
        AttackRun(FMN(20, gamma=0.3), "margin", "restart", 2, start="best", kick=4.0),
    ),
)

# Sigma-zero with a smoother count and a higher first threshold than its own (three classes: optimality .888 to .922 on
# MNIST) and one run of FAB bound the count, restarts of sigma-zero lower it. Projected ascent, by steps from border to
# border of the box, tries below.
_SIGMA = AttackRun(SigmaZero(180, sigma=0.1, threshold=0.6), "margin", "bound")
_FAB = AttackRun(FAB(20), "margin", targets="distance")
_BORDERS = AttackRun(
    PGD(25, rate=10.0, schedule="cosine"), "margin", count=3, targets="distance", start="best"
)  # fmt: skip
_L0 = (
    *grid_runs(_BORDERS, replace(_SIGMA, role="ascend"), replace(_FAB, count=3)),
    replace(_SIGMA, targets="distance", count=3),
    replace(_FAB, role="bound"),
    *restarts(SigmaZero(60, rate=2.0, sigma=0.1, threshold=0.3), kick=4.0),
    _BORDERS,
    replace(_FAB, role="refine", start="best", count=3),
    *sweeps(SWEEP, _SIGMA),
)

_AUTOATTACK = (
    ": grid of MultiRobustBench (Dai et al. 2023), and at one strength AutoAttack's APGD-T and FAB-T (Croce and Hein "
    "2020)"
)
"""Part of the sources of all ranked norms; it follows the paper that searched the norm first."""


def attack_in_norm(
    name: str,
    norm: str,
    runs: tuple[AttackRun, ...],
    source: str,
    *,
    rules: tuple[Rule, ...] = (),
    search_order: tuple[Search, ...] = (),
) -> Attack:
    """Return an attack in the set of a norm, at the strengths of that norm."""
    return Attack(
        name,
        THREATS[norm],
        runs,
        STRENGTHS[norm],
        AttackInfo(UNITS[norm], source),
        rules=rules,
        search_order=search_order,
        unbounded=True,
    )


def lp_attacks(protocol: ProtocolName) -> list[Attack]:
    """Return the strong attacks in lp norms; both protocols are the same but for the search."""
    limited = (MostPasses(800),)
    first = {"linf": "Goodfellow et al. 2015", "l2": "Szegedy et al. 2014", "l1": "Chen et al. 2018"}
    ranked = {"linf": _LINF, "l2": _L2, "l1": _L1}
    return [
        *(
            attack_in_norm(norm, norm, runs, f"{first[norm]}{_AUTOATTACK}", rules=limited, search_order=ALL_SEARCHES)
            for norm, runs in ranked.items()
        ),
        attack_in_norm(
            "l0", "l0", _L0, "Cinà et al. 2025 (sigma-zero)",
            rules=(StopFruitless(patience=4),),  # counts have more valleys than lengths
            search_order=ALL_SEARCHES,
        ),
    ]  # fmt: skip


def _published(
    name: str, norm: str, optimizer: Optimizer[Any], objective: Objective, source: str, count: int = 1, **settings: Any
) -> Attack:
    """Return one published attack by itself, for comparisons."""
    return attack_in_norm(name, norm, (AttackRun(optimizer, objective, count=count, **settings),), source)


def published_attacks() -> list[Attack]:
    """Return published attacks in lp norms, each by itself with the settings of its paper."""
    return [
        _published("pgd-linf", "linf", PGD(40, rate=0.1), "cross-entropy", "Madry et al. 2018"),
        _published("pgd-l2", "l2", PGD(40, rate=0.1), "cross-entropy", "Madry et al. 2018"),
        _published("apgd-ce-linf", "linf", APGD(100), "cross-entropy", "Croce and Hein 2020"),
        _published("apgd-ce-l2", "l2", APGD(100), "cross-entropy", "Croce and Hein 2020"),
        _published("apgd-ce-l1", "l1", APGDL1(100), "cross-entropy", "Croce and Hein 2021", count=5),
        _published("fw-l1", "l1", FrankWolfe(200), "cross-entropy", "Kang et al. 2019 (UAR)"),
        *(
            attack
            for norm, fmn in (("linf", FMN(100)), ("l2", FMN(100)), ("l1", FMN(100, alpha=4.0, dense=True)))
            for attack in (
                _published(
                    f"fab-{norm}", norm, FAB(100, exact=True), "margin", "Croce and Hein 2020b",
                    count=9, targets="logits",
                ),
                _published(f"fmn-{norm}", norm, fmn, "margin", "Pintor et al. 2021"),
                _published(f"square-{norm}", norm, Square(5000), "margin", "Andriushchenko et al. 2020"),
            )
        ),
        _published("hop-skip-jump-l2", "l2", HopSkipJump(5000), "margin", "Chen et al. 2020 (labels alone)"),
        _published("cw-l2", "l2", CarliniWagner(100), "margin", "Carlini and Wagner 2017"),
        _published("ead-l1", "l1", EAD(100), "margin", "Chen et al. 2018"),
        _published("sigma-zero", "l0", SigmaZero(100), "margin", "Cinà et al. 2025"),
    ]  # fmt: skip
