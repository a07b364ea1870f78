"""Images and labels: bundled, from local files, or downloaded."""

from robustatlas.data.dataset import Beginning, Dataset, Fingerprint
from robustatlas.data.named import load_dataset, names
from robustatlas.data.on_disk import without_splits
from robustatlas.data.rows import InMemory, Rows, as_inputs
from robustatlas.data.torches import of_torch

__all__ = [
    "Beginning",
    "Dataset",
    "Fingerprint",
    "InMemory",
    "Rows",
    "as_inputs",
    "load_dataset",
    "names",
    "of_torch",
    "without_splits",
]
