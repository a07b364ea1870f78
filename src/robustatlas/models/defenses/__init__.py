"""Defenses that transform the input: fewer bits, medians, JPEG; and a detector built of them. Their rounding has no
useful gradient, so each says what an attack gets instead. The suite ``input-transformation`` takes every way back in
turn, judges by the real transformation, and ends with an attack that needs no gradient."""

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
