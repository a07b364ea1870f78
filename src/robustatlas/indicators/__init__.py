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
        "unconstrained": "indicators.attack_failures:UnconstrainedFailure",
        "black-box": "indicators.carlini:BlackBoxWins",
        "random-draws": "indicators.carlini:RandomDraws",
        "half": "indicators.carlini:GreyImage",
        "single-step": "indicators.carlini:SingleStep",
        "more-steps": "indicators.carlini:MoreSteps",
        "restarts": "indicators.carlini:Restarts",
        "larger-budget": "indicators.carlini:LargerBudget",
        "gradient-in-forward": "indicators.autoattack:GradientInForward",
        "float-saturation": "indicators.numbers:FloatSaturation",
        "quantised": "indicators.numbers:QuantisedInputs",
        "kinds": "indicators.kinds:KindsDiffer",
        "one-kind": "indicators.kinds:OneKindAlone",
        "nearest-data": "indicators.kinds:NearestData",
        "binarisation": "indicators.binarisation:Binarisation",
        "silent-success": "indicators.attack_failures:SilentSuccess",
        "incomplete-optimisation": "indicators.attack_failures:IncompleteOptimisation",
        "transfer-failure": "indicators.attack_failures:TransferFailure",
        "square-lowers": "indicators.autoattack:SquareLowers",
        "few-classes": "indicators.autoattack:FewClasses",
        "unavailable-gradients": "indicators.unavailable:UnavailableGradients",
        "unstable-predictions": "indicators.unstable:UnstablePredictions",
    },
    "a class derived from robustatlas.indicators.Indicator",
    subclass_of(Indicator),
)
"""Name to indicator; those that do not decide are read on request."""
