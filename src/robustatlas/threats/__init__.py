"""Threat models: one file per family."""
