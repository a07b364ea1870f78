"""How many bytes tensors take while code runs."""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def storages(tree: Any) -> list[torch.UntypedStorage]:
    """Those of all tensors in a tree."""
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class Live(TorchDispatchMode):
    """Bytes of the tensors that are alive, and the most there ever were; those below ``least`` bytes do not count."""

    def __init__(self, least: int = 0) -> None:
        super().__init__()
        self.least, self.now, self.most = least, 0, 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {storage._cdata for storage in storages((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if storage._cdata not in given:
                self._enter(storage)
        return result

    def _enter(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if size >= self.least and key not in self.known:
            self.known.add(key)
            self.now += size
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._leave, key, size)

    def _leave(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size
