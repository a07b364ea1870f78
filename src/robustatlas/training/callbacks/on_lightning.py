"""The callback of Lightning."""

import sys
from importlib import import_module
from typing import Any

from robustatlas.training.callbacks.watching import Watch

_USED = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
_Base: Any = import_module(_USED).Callback  # the classes of the two packages do not know each other


class OnLightning(_Base):  # type: ignore[misc]
    """See :func:`robustatlas.training.callbacks.Lightning`."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.watch.begin()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Look, and log what was found from the one process that looked."""
        if numbers := self.watch(pl_module, trainer.current_epoch + 1):
            pl_module.log_dict(numbers, rank_zero_only=trainer.world_size > 1)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.watch.plot()
