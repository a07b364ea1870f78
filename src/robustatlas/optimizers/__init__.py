"""Optimizers: how a threat model is searched; one family a file."""

from typing import Any

from robustatlas.common.registry import Registry, subclass_test
from robustatlas.optimizers.base import Optimizer

__all__ = ["OPTIMIZERS", "Optimizer"]

OPTIMIZERS: Registry[type[Optimizer[Any]]] = Registry(
    "optimizer",
    "robustatlas.optimizers",
    {
        "pgd": "optimizers.pgd:PGD",
        "pgd-search": "optimizers.pgd_search:PGDSearch",
        "apgd": "optimizers.apgd:APGD",
        "apgd-l1": "optimizers.apgd_l1:APGDL1",
        "frank-wolfe": "optimizers.frank_wolfe:FrankWolfe",
        "vertex-ascent": "optimizers.frank_wolfe:VertexAscent",
        "adam": "optimizers.adam:Adam",
        "fmn": "optimizers.fmn:FMN",
        "fab": "optimizers.fab:FAB",
        "brendel-bethge": "optimizers.brendel_bethge:BrendelBethge",
        "carlini-wagner": "optimizers.carlini_wagner:CarliniWagner",
        "ead": "optimizers.ead:EAD",
        "sigma-zero": "optimizers.sigma_zero:SigmaZero",
        "square": "optimizers.square:Square",
        "hop-skip-jump": "optimizers.hop_skip_jump:HopSkipJump",
        "scan": "optimizers.scan:Scan",
        "once": "optimizers.scan:Once",
        "sweep": "optimizers.sweep:Sweep",
        "ppgd": "optimizers.ppgd:PPGD",
        "lpa": "optimizers.lpa:LPA",
        "fast-lpa": "optimizers.lpa:FastLPA",
        "perceptual-descent": "optimizers.perceptual_descent:PerceptualDescent",
    },
    "a class derived from robustatlas.extending.Optimizer",
    subclass_test(Optimizer),
)
