"""Published accuracies, shipped as data, and the references that users make of their own models."""

from robustatlas.references.field import Field, FieldEntry
from robustatlas.references.reference import Defense, Reference
from robustatlas.references.shipped import available_fields, available_references, load_field, load_reference

__all__ = [
    "Defense",
    "Field",
    "FieldEntry",
    "Reference",
    "available_fields",
    "available_references",
    "load_field",
    "load_reference",
]
