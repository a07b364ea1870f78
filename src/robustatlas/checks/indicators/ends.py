"""Did the gradient tell the truth where searches ended?"""

from robustatlas.checks.indicators.gradients import DirectionalDerivative


class EndGradient(DirectionalDerivative):
    """The indicator ``gradient``, away from the images: where searches of an attack ended."""

    name = "end-gradient"

    def __init__(self, attack: str) -> None:
        self.name = f"{self.name}-{attack}"  # type: ignore[misc]
        self.means = f"{self.means} where searches of {attack} end,"  # type: ignore[misc]
