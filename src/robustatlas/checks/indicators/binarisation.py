"""The binarisation test: does an attack find an example that is known to be there?"""

import torch

from robustatlas.checks.advice import HONEST_GRADIENT
from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.checks.indicators.search_results import MISSED


class Binarisation(Indicator):
    """1 if the attack finds the example that a readout of the features planted at the border of the set, else 0."""

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

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        tests = samples.searched.binarised
        test = tests.get(self.attack) if self.attack else next(iter(tests.values()), None)
        if test is None:
            return Measurement.from_values(torch.ones_like(samples.margin), samples.labels < 0, samples.labels < 0)
        return Measurement.from_values(test.found.float(), ~test.found, test.set_up)
