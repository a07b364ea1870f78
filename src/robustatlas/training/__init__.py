"""Adversarial training: how references and defenses are made."""

from robustatlas.training.adversarial import Training, adversarial_examples, train

__all__ = ["Training", "adversarial_examples", "train"]
