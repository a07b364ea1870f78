"""Attacks: what one is, and the catalogue of named ones."""
