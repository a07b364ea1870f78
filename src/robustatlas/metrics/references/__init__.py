"""Published accuracies, shipped as data, and the references that users make of their own models."""

from robustatlas.metrics.references.imagenet_ua import PublishedUA2, UA2Model, published_ua2
from robustatlas.metrics.references.reference import Defense, Reference
from robustatlas.metrics.references.shipped import (
    Field,
    FieldEntry,
    available_fields,
    available_references,
    load_field,
    load_reference,
)

__all__ = [
    "Defense",
    "Field",
    "FieldEntry",
    "PublishedUA2",
    "Reference",
    "UA2Model",
    "available_fields",
    "available_references",
    "load_field",
    "load_reference",
    "published_ua2",
]
