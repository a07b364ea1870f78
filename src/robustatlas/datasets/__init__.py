"""Images and labels: bundled, from local files, or downloaded."""

from robustatlas.datasets.dataset import Beginning, Dataset, Fingerprint
from robustatlas.datasets.named import load_dataset, names
from robustatlas.datasets.rows import InMemory, Rows, as_inputs
from robustatlas.datasets.torches import of_torch

__all__ = ["Beginning", "Dataset", "Fingerprint", "InMemory", "Rows", "as_inputs", "load_dataset", "names", "of_torch"]
