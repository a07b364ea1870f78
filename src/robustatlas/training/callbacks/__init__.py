"""Robustness while a network is trained: a small evaluation every few epochs, inside whatever trains it."""

from robustatlas.training.callbacks.looks import Look, plot_looks, read_looks
from robustatlas.training.callbacks.trainers import Lightning, Transformers
from robustatlas.training.callbacks.watching import Watch, watch

__all__ = ["Lightning", "Look", "Transformers", "Watch", "plot_looks", "read_looks", "watch"]
