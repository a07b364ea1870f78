"""Figures for notebooks and papers, drawn with matplotlib: one column (3.3 inches) wide, readable without colour.

matplotlib's own settings are left as they are; axes that are given keep their fonts.
"""

from robustatlas.metrics.figures.curves import plot_curves, plot_panels, plot_two_sided
from robustatlas.metrics.figures.hypervolumes import plot_convergence, plot_frontier, plot_frontiers, plot_over_epochs
from robustatlas.metrics.figures.maps import plot_accuracy_matrix, plot_scores, plot_trained_strengths
from robustatlas.metrics.figures.paper import COLUMN, SEQUENCE, STYLE, save_figure

__all__ = [
    "COLUMN",
    "SEQUENCE",
    "STYLE",
    "plot_accuracy_matrix",
    "plot_convergence",
    "plot_curves",
    "plot_frontier",
    "plot_frontiers",
    "plot_over_epochs",
    "plot_panels",
    "plot_scores",
    "plot_trained_strengths",
    "plot_two_sided",
    "save_figure",
]
