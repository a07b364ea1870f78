"""Indicators: signs that a robustness number is wrong, measured at single samples in a few passes."""

from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.common.registry import Registry, subclass_of

__all__ = ["INDICATORS", "DiagnosedSamples", "Indicator", "Measurement"]

INDICATORS: Registry[type[Indicator]] = Registry(
    "indicator",
    "robustatlas.indicators",
    {
        "zero-gradient": "checks.indicators.gradients:ZeroGradient",
        "gradient": "checks.indicators.gradients:DirectionalDerivative",
        "border-gradient": "checks.indicators.gradients:BorderGradient",
        "random": "checks.indicators.randomness:Randomness",
        "batch": "checks.indicators.randomness:BatchDependence",
        "probabilities": "checks.indicators.numbers:Probabilities",
        "logit-scale": "checks.indicators.numbers:LogitScale",
        "random-step": "checks.indicators.gradients:RandomStep",
        "unconstrained": "checks.indicators.attack_failures:UnconstrainedFailure",
        "black-box": "checks.indicators.carlini:BlackBoxWins",
        "random-draws": "checks.indicators.carlini:RandomDraws",
        "half": "checks.indicators.carlini:GreyImage",
        "single-step": "checks.indicators.carlini:SingleStep",
        "more-steps": "checks.indicators.carlini:MoreSteps",
        "restarts": "checks.indicators.carlini:Restarts",
        "larger-budget": "checks.indicators.carlini:LargerBudget",
        "gradient-in-forward": "checks.indicators.autoattack:GradientInForward",
        "float-saturation": "checks.indicators.numbers:FloatSaturation",
        "quantised": "checks.indicators.numbers:QuantisedInputs",
        "kinds": "checks.indicators.kinds:KindsDiffer",
        "one-kind": "checks.indicators.kinds:OneKindAlone",
        "nearest-data": "checks.indicators.kinds:NearestData",
        "binarisation": "checks.indicators.binarisation:Binarisation",
        "silent-success": "checks.indicators.attack_failures:SilentSuccess",
        "incomplete-optimisation": "checks.indicators.attack_failures:IncompleteOptimisation",
        "transfer-failure": "checks.indicators.attack_failures:TransferFailure",
        "square-lowers": "checks.indicators.autoattack:SquareLowers",
        "few-classes": "checks.indicators.autoattack:FewClasses",
        "unavailable-gradients": "checks.indicators.gradients:UnavailableGradients",
        "unstable-predictions": "checks.indicators.randomness:UnstablePredictions",
    },
    "a class derived from robustatlas.extending.Indicator",
    subclass_of(Indicator),
)
"""Registry of indicators by name. Indicators that do not decide are read on request."""
