"""Defenses that transform the input: fewer bits, medians, JPEG; and a detector built of them.

Their rounding has no useful gradient. Each says what an attack gets instead; the suite ``input-transformation`` takes
every way back in turn, scores with the real transformation, and closes with an attack that needs no gradient.
"""

from robustatlas.models.defenses.detector import FeatureSqueezing, detection_threshold
from robustatlas.models.defenses.jpeg import JPEGCompression
from robustatlas.models.defenses.squeezing import BitDepthReduction, MedianSmoothing
from robustatlas.models.defenses.transformation import Defended, Transformation

__all__ = [
    "BitDepthReduction",
    "Defended",
    "FeatureSqueezing",
    "JPEGCompression",
    "MedianSmoothing",
    "Transformation",
    "detection_threshold",
]
