"""``trained:DIR``: a network in the folder that its training left."""

from __future__ import annotations

from robustatlas.models.classifier import Classifier


def trained_model(folder: str) -> Classifier:
    """The network that ``robustatlas train --out DIR`` left there, with the architecture that its card names."""
    from robustatlas.models.networks import load_trained

    return load_trained(folder)
