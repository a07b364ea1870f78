"""Data sets of images and labels: bundled, from local files, or downloaded."""

from robustatlas.data.dataset import Beginning, Dataset, Fingerprint
from robustatlas.data.named import dataset_names, load_dataset
from robustatlas.data.on_disk import has_single_split
from robustatlas.data.rows import InMemory, Rows, as_inputs
from robustatlas.data.torches import from_torch

__all__ = [
    "Beginning",
    "Dataset",
    "Fingerprint",
    "InMemory",
    "Rows",
    "as_inputs",
    "dataset_names",
    "from_torch",
    "has_single_split",
    "load_dataset",
]
