"""Attacks: a threat model, objectives and optimizers as a plan; the catalogue of named ones, and the searches."""
