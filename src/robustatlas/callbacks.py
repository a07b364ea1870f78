"""Robustness while a network is trained: a small evaluation every few epochs, inside whatever trains it."""

from robustatlas.training.callbacks import Lightning, Look, Transformers, Watch, plot_looks, read_looks, watch

__all__ = ["Lightning", "Look", "Transformers", "Watch", "plot_looks", "read_looks", "watch"]
