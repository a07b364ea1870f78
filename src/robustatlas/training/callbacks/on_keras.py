"""The callback of Keras, and its models as ours."""

from typing import Any

import keras
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.outputs import Outputs
from robustatlas.models.frameworks import from_tensorflow
from robustatlas.training.callbacks.watching import Watch

_Base: Any = keras.callbacks.Callback


class OnKeras(_Base):  # type: ignore[misc]
    """See :func:`robustatlas.training.callbacks.Keras`."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def on_train_begin(self, logs: Any = None) -> None:
        self.watch.begin()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        numbers = self.watch(self.model, epoch + 1)
        if logs is not None:
            logs.update(numbers)

    def on_train_end(self, logs: Any = None) -> None:
        self.watch.plot()


def classifier_of(model: Any) -> Classifier:
    """A Keras model, which ends in logits or in a softmax, as one of images [B, C, H, W] in [0, 1]."""
    backend, last = keras.backend.backend(), keras.config.image_data_format() == "channels_last"
    layer = model.layers[-1] if getattr(model, "layers", None) else model
    ending = getattr(getattr(layer, "activation", None), "__name__", type(layer).__name__)
    outputs: Outputs = "probabilities" if ending.lower() == "softmax" else "logits"
    if backend == "torch":
        return Classifier(_OnTorch(model, last), outputs=outputs, name=model.name)
    if backend == "tensorflow":
        return from_tensorflow(lambda x: _answer(model, x, last), outputs=outputs, name=model.name)
    raise UserError(
        f"Keras computes with {backend} here, and a look needs torch or TensorFlow; give the callback model=a function "
        "from the Keras model to ra.from_jax(...)."
    )


def _answer(model: Any, x: Any, last: bool) -> Any:
    return model(keras.ops.transpose(x, (0, 2, 3, 1)) if last else x, training=False)


class _OnTorch(nn.Module):
    """A Keras model that gets images as Keras lays them out, in evaluation."""

    def __init__(self, model: Any, last: bool) -> None:
        super().__init__()
        self.model, self.last = model, last

    def forward(self, x: Tensor) -> Tensor:
        answered: Tensor = _answer(self.model, x, self.last)
        return answered
