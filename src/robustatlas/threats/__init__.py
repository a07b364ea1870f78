"""Threat models: what a perturbation is, and how large; one family a file."""
