"""The strengths at which papers give robust accuracies."""

STANDARD = {"linf": (8 / 255, "8/255"), "l2": (0.5, "0.5"), "l1": (12.0, "12")}
"""Attack -> the strength at which papers give its robust accuracy, and how they write it."""

NEAR = 0.1
"""A strength of a grid stands for a standard one up to this relative difference."""
