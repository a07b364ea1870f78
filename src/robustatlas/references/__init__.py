"""Published accuracies, shipped as data, and the references that users make of their own models."""

from robustatlas.references.reference import Defense, Reference
from robustatlas.references.shipped import available_references, load_reference

__all__ = ["Defense", "Reference", "available_references", "load_reference"]
