"""The binarisation test: does an attack find an example that is known to be there?"""

import torch

from robustatlas.checks.advice import HONEST_GRADIENT
from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.checks.indicators.searched import MISSED


class Binarisation(Indicator):
    """Whether the attack finds the example that was planted at the border of the set by a readout of the features."""

    name = "binarisation"
    part = "full"
    severity = "masked"
    threshold = MISSED
    means = "the attack misses examples that were planted"
    remedy = "The attack cannot optimise through this network: give it another gradient, then test again"
    code = HONEST_GRADIENT
    source = "Zimmermann et al. 2022 (binarisation test, with its control)"
    limit = "planted and not found"

    def __init__(self, attack: str = "") -> None:
        if attack:
            self.name = f"binarisation-{attack}"  # type: ignore[misc]
        self.attack = attack

    def measure(self, look: LookedAt) -> Measured:
        tests = look.searched.binarised
        test = tests.get(self.attack) if self.attack else next(iter(tests.values()), None)
        if test is None:
            return Measured.of(torch.ones_like(look.margin), look.labels < 0, look.labels < 0)
        return Measured.of(test.found.float(), ~test.found, test.set_up)
