"""Runs of families of threat models beyond lp norms: each constant of the default attacks on images stands here.

A family is what its threat models have in common: how many numbers they have, and what a long step does to them.
"1.6 to .6" is the gap to the best known of everything that was tried, in points of robust accuracy, before and after a
choice, on the small networks of benchmarks/subjects.py and on ResNet-32 for CIFAR-10 (docs/research/gaps.md says how).
"""

from dataclasses import dataclass, replace

from robustatlas.attacks.runs import (
    bound,
    grid_runs,
    limit_to_searches,
    refine,
    restarts,
    sweeps,
    targeted_ascents,
    unbroken,
    untargeted_ascents,
)
from robustatlas.attacks.search.plan import NEAREST, AttackRun
from robustatlas.attacks.search.rules import MostPasses, Rule, StopFruitless
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.perceptual_descent import PerceptualDescent
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.scan import Scan

PATIENT = StopFruitless(patience=3, stubborn=12)
"""Twelve runs in a row instead of eight: `stadv` 3.5 to 1.5 points from the best known."""
IMPATIENT = StopFruitless(patience=3, stubborn=8)
"""As in the lp norms."""


@dataclass(frozen=True)
class Constants:
    """All runs of an attack, in order, and the rules by which its searches differ from the usual ones."""

    runs: tuple[AttackRun, ...]
    rules: tuple[Rule, ...] = (MostPasses(800),)


# Two bounds: a careful run towards the nearest class, and one of long steps by another objective.
_BOUNDS = (bound(FMN(12)), AttackRun(FMN(12, alpha=3.0, gamma=0.2), "dlr", "bound"))
# Three kinds of restarts of as many steps as a bound, moved by the size of the smallest example.
_RESTARTS = restarts(FMN(12, gamma=0.3), kick=1.0)

_USUAL = PGD(16, rate=0.25, schedule="cosine", momentum=0.75)
USUAL_ASCENTS = (targeted_ascents(_USUAL), untargeted_ascents(_USUAL))
"""Ascents of two kinds at every strength."""
ASCENTS_AT_LEVELS = (*USUAL_ASCENTS, unbroken(_USUAL))
"""The same at few levels, and towards more classes for samples that nothing broke."""
SMOOTH = Constants(
    (*_BOUNDS, *_RESTARTS, *USUAL_ASCENTS, unbroken(_USUAL), *sweeps()),
    (PATIENT, MostPasses(800)),
)
"""Threat models of many numbers that the image follows smoothly."""

COLOURS = Constants(
    (
        *grid_runs(*USUAL_ASCENTS),
        *_BOUNDS,
        *_RESTARTS,
        targeted_ascents(_USUAL, classes=3),
        untargeted_ascents(_USUAL, starts=3),
        unbroken(_USUAL),
        *sweeps(),
    ),
    (PATIENT, MostPasses(800)),
)
"""A table of colours: three classes and three starts (`recolor` 1.6 to .6 on the network trained against it)."""

_AS_LINF = PGD(20, rate=1.0, schedule="cosine", momentum=0.5)
BOXES = Constants(
    (
        bound(FMN(24)),
        *restarts(FMN(20, gamma=0.3), kick=4.0),
        targeted_ascents(_AS_LINF, classes=2),
        untargeted_ascents(_AS_LINF),
        refine(FMN(10, alpha=0.1, gamma=0.02)),
        *sweeps(),
    ),
    (IMPATIENT, MostPasses(800)),
)
"""Boxes of as many numbers as the image has, or nearly: one bound, long steps, restarts moved far
(`elastic` 2.0 to 1.1, `jpeg-linf` 1.4 to .7, for fewer passes)."""

COEFFICIENTS = Constants(
    (*_BOUNDS, *_RESTARTS, *USUAL_ASCENTS, unbroken(_USUAL), *sweeps()),
    (IMPATIENT, MostPasses(800)),
)
"""An lp norm of coefficients."""

_INSIDE, _OUTSIDE = APGDL1(60, schedule=INSIDE), APGDL1(60)
COEFFICIENTS_L1 = Constants(
    (
        bound(FMN(24, alpha=3.0, gamma=0.2, dense=True)),
        *_RESTARTS,
        targeted_ascents(_INSIDE, classes=3),
        untargeted_ascents(_OUTSIDE),
        unbroken(_INSIDE),
        *sweeps(),
    ),
    (IMPATIENT, MostPasses(800)),
)
"""The l1 norm of coefficients: a step to the best vertex of the ball changes few coefficients by much, and many ascents
lead nowhere. So bounds step along the gradient, and ascents are Auto-PGD's: one kind inside of the ball, the other from
outside (`jpeg-l1` 38 to 3.4, then to .7 points on one ResNet-32)."""

_FINEST = PGD(60, rate=0.03, schedule="cosine", momentum=0.75)
_FINE = PGD(25, rate=0.05, schedule="cosine", momentum=0.75)
FINE_ASCENTS = (targeted_ascents(_FINEST, classes=3), untargeted_ascents(_FINE, starts=4))
RIDGES = Constants(
    (
        *_BOUNDS,
        targeted_ascents(_FINEST, classes=5),
        untargeted_ascents(_FINEST, starts=3, objective="margin"),
        untargeted_ascents(_FINE, starts=4),
        *sweeps(),
    ),
    (PATIENT, MostPasses(800)),
)
"""A few numbers move all pixels at once: a longer step throws away the example that it starts at, so no restarts and
steps of .03, towards five classes and from three starts (`fog`, `ua-wood` 3.4 to 1.2 on `conv-one-hot`)."""

_BRIEF = PGD(10, rate=0.25, schedule="cosine", momentum=0.75)
VALLEYS = Constants(
    (
        *_BOUNDS,
        untargeted_ascents(_BRIEF, starts=28),
        untargeted_ascents(_BRIEF, starts=28, objective="margin"),
        *sweeps(),
    ),
    (PATIENT, MostPasses(800)),
)
"""An ascent ends in the nearest of many valleys, as there are few numbers or draws that are never optimised: short
ascents from many starts, and no restarts (`affine` 1.8 to .7 on `conv-adversarial`, `ua-whirlpool` 57 to 26 %)."""

_LONG = PGD(16, rate=0.5, schedule="cosine", momentum=0.75)
FLAKES = Constants(
    (*_BOUNDS, *_RESTARTS, targeted_ascents(_LONG), untargeted_ascents(_LONG), *sweeps()),
    (IMPATIENT, MostPasses(800)),
)
"""Flakes and their draws: longer steps, and eight runs in a row (`snow`: half of the passes on `mnistfc`)."""

# Each bound chooses its draws anew, so there is one for each class that AutoAttack targets. Restarts would keep their
# draws (`gabor`, `ua-mix` 43.5 to 40.7 % on patch attention).
_DRAWN_BOUNDS = (bound(FMN(12), classes=NEAREST), AttackRun(FMN(12, alpha=3.0, gamma=0.2), "dlr", "bound"))
DRAWS = Constants(
    (*_DRAWN_BOUNDS, *USUAL_ASCENTS, unbroken(_USUAL), *sweeps()),
    (PATIENT, MostPasses(800)),
)
"""Threat models that choose among draws and never optimise these."""
KERNELS = Constants(
    (*_DRAWN_BOUNDS, targeted_ascents(_LONG), untargeted_ascents(_LONG), *sweeps()),
    (PATIENT, MostPasses(800)),
)
"""The same with the longer steps that noise from drawn kernels takes."""

_AUTO = APGD(40)
PATCHES = Constants(
    (*_BOUNDS, *_RESTARTS, targeted_ascents(_AUTO), untargeted_ascents(_AUTO), *sweeps()),
    (PATIENT, MostPasses(800)),
)
"""Anything inside of a square: ascents of Auto-PGD, which reviews its progress at intervals and needs forty steps."""


def number(spacing: float) -> Constants:
    """Return the runs of a single number: a scan of the whole set is exact to .1 % and takes no gradient."""
    return Constants((AttackRun(Scan(spacing), "margin", "bound"),), ())


_PERCEPTUAL = PGD(10, rate=0.1, schedule="cosine", momentum=0.85, scaled=True)
PERCEPTUAL = Constants(
    (
        AttackRun(PerceptualDescent(45), "margin", "bound", start="neutral"),
        AttackRun(PerceptualDescent(30), "log-margin", "bound", start="neutral"),
        refine(PerceptualDescent(20, beyond=0.005)),
        *sweeps(_PERCEPTUAL, AttackRun(PerceptualDescent(45), "margin", "bound", start="neutral")),
    ),
    (),
)
"""Distances of activations: a minimum-size attack, stronger than PPGD and LPA and without their inner iterations."""


def runs_at_levels(ascents: tuple[AttackRun, ...], published: PGD, starts: int) -> tuple[AttackRun, ...]:
    """Return the runs at few levels, where bounds would cost more than they save.

    A descent ascends at the levels themselves, from the highest down. The ``published`` steps follow from ``starts``
    starts (none: 0). The other searches do what they do for :data:`SMOOTH` threat models, by these ``ascents``.
    """
    untargeted = tuple(replace(run, targets=None) for run in ascents if run.role == "ascend")
    again = [AttackRun(published, "cross-entropy", count=starts, start="best")] if starts else []
    return (*limit_to_searches(("descent",), *untargeted, *again), *_BOUNDS, *_RESTARTS, *ascents, *sweeps())
