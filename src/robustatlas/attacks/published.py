"""Published attacks by themselves, for comparisons: each with the settings of its source, which it names."""

from __future__ import annotations

from robustatlas.attacks.definition import Attack, Stage
from robustatlas.attacks.lp import of_norm
from robustatlas.attacks.plans import plans_of
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.apgd_l1 import APGDL1
from robustatlas.optimizers.carlini_wagner import CarliniWagner
from robustatlas.optimizers.ead import EAD
from robustatlas.optimizers.fab import FAB
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.hop_skip_jump import HopSkipJump
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.sigma_zero import SigmaZero
from robustatlas.optimizers.square import Square


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
