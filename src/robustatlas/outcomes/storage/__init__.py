"""Where the files of a run lie: in a directory, in memory, or in a store of objects."""

from robustatlas.outcomes.storage.base import Storage
from robustatlas.outcomes.storage.memory import Memory
from robustatlas.outcomes.storage.places import is_run, place_of

__all__ = ["Memory", "Storage", "is_run", "place_of"]
