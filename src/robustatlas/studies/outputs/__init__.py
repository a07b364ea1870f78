"""The tables and figures that a study can ask for by name; a new one is one class and one line here."""

from robustatlas.common.registry import Registry, subclass_test
from robustatlas.studies.outputs.base import Made, Output, Wanted

__all__ = ["OUTPUTS", "Made", "Output", "Wanted"]

OUTPUTS: Registry[type[Output]] = Registry(
    "output",
    "robustatlas.outputs",
    {
        "scores": "studies.outputs.scores:Scores",
        "published": "studies.outputs.scores:PrintedValues",
        "scatter": "studies.outputs.scores:Scatter",
        "uar-matrix": "studies.outputs.matrices:UarMatrix",
        "cr-matrix": "studies.outputs.matrices:CrMatrix",
        "accuracies": "studies.outputs.matrices:Accuracies",
        "trained-strengths": "studies.outputs.matrices:TrainedStrengths",
        "corruptions": "studies.outputs.matrices:Corruptions",
        "correlations": "studies.outputs.matrices:Correlations",
        "reference": "studies.outputs.matrices:ReferenceTable",
        "calibration": "studies.outputs.matrices:CalibrationTable",
        "curves": "studies.outputs.curves:Curves",
        "slopes": "studies.outputs.curves:Slopes",
        "distances": "studies.outputs.curves:Distances",
        "curves-over-epochs": "studies.outputs.epochs:NumbersOverEpochs",
        "trainings": "studies.outputs.epochs:Trainings",
        "frontier": "studies.outputs.hypervolumes:Frontiers",
        "convergence": "studies.outputs.hypervolumes:Convergence",
        "tests-between-groups": "studies.outputs.groups:GroupTests",
        "claims": "studies.outputs.claims:PaperClaims",
        "defenses": "studies.outputs.defenses:Defenses",
        "board": "studies.outputs.pages:Board",
        "gallery": "studies.outputs.pages:Gallery",
    },
    "a class derived from robustatlas.studies.outputs.Output",
    subclass_test(Output),
)
"""Name -> what makes it."""
