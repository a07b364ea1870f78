"""The callback of Hugging Face's Trainer."""

from typing import Any

from transformers import TrainerCallback

from robustatlas.training.callbacks.watching import Watch

_Base: Any = TrainerCallback


class OnTransformers(_Base):  # type: ignore[misc]
    """See :func:`robustatlas.training.callbacks.Transformers`."""

    def __init__(self, trainer: Any, watch: Watch) -> None:
        self.trainer, self.watch = trainer, watch

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.watch.begin()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if numbers := self.watch(given["model"], round(state.epoch)):
            self.trainer.log(numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.watch.plot()
