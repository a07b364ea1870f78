"""Published accuracies, shipped as data, and the references that users make of their own models."""

from robustatlas.references.field import Entry, Field
from robustatlas.references.reference import Defense, Reference
from robustatlas.references.shipped import available_fields, available_references, load_field, load_reference

__all__ = [
    "Defense",
    "Entry",
    "Field",
    "Reference",
    "available_fields",
    "available_references",
    "load_field",
    "load_reference",
]
