"""Robustness while a network is trained: a small evaluation every few epochs, inside whatever trains it."""

from robustatlas.training.callbacks import Lightning, Look, Transformers, Watch, looks_in, plot_looks, watch

__all__ = ["Lightning", "Look", "Transformers", "Watch", "looks_in", "plot_looks", "watch"]
