"""Checks of a model that need no run of their own: sanity, indicators, remedies, findings and the verdict."""
