"""Signs by which a robustness number is to be doubted: each is measured of single samples, in a few passes."""

from robustatlas.indicators.base import Indicator, LookedAt, Measured
from robustatlas.registry import Registry, subclass_of

__all__ = ["INDICATORS", "Indicator", "LookedAt", "Measured"]

INDICATORS: Registry[type[Indicator]] = Registry(
    "indicator",
    "robustatlas.indicators",
    {
        "zero-gradient": "indicators.zero:ZeroGradient",
        "gradient": "indicators.directional:DirectionalDerivative",
        "border-gradient": "indicators.border:BorderGradient",
        "random": "indicators.randomness:Randomness",
        "batch": "indicators.company:BatchDependence",
        "probabilities": "indicators.probabilities:Probabilities",
        "logit-scale": "indicators.scale:LogitScale",
        "random-step": "indicators.random_step:RandomStep",
        "unavailable-gradients": "indicators.unavailable:UnavailableGradients",
        "unstable-predictions": "indicators.unstable:UnstablePredictions",
    },
    "a class derived from robustatlas.indicators.Indicator",
    subclass_of(Indicator),
)
"""Name to indicator; those that do not decide are read on request."""
