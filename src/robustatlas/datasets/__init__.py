"""Images and labels: bundled, from local files, or downloaded."""

from robustatlas.datasets.dataset import Dataset, Fingerprint
from robustatlas.datasets.named import load_dataset, names

__all__ = ["Dataset", "Fingerprint", "load_dataset", "names"]
