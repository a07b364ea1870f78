"""The version of the package, in one place, for whoever must not import the rest."""

__version__ = "0.1.0"
