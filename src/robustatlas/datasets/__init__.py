"""Images and labels: bundled, from local files, or downloaded."""

from robustatlas.datasets.dataset import Dataset
from robustatlas.datasets.named import load_dataset, names

__all__ = ["Dataset", "load_dataset", "names"]
