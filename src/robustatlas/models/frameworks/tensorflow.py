"""TensorFlow functions and Keras models as models."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.dlpack import to_dlpack  # type: ignore[attr-defined]

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier, Outputs
from robustatlas.models.classifier.network import Given
from robustatlas.models.frameworks.gradient import SIZES, Foreign, Pullback
from robustatlas.models.sources.packages import optional


def from_tensorflow(
    function: Callable[[Any], Any],
    mean: Given = None,
    std: Given = None,
    *,
    outputs: Outputs = "logits",
    sizes: Sequence[int] = SIZES,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    name: str | None = None,
) -> Classifier:
    """A model that is a function of TensorFlow, such as a Keras model. Its graph is traced, forward and backward, once
    for each of ``sizes``.

    Args:
        function: a tensor [B, ...] in [0, 1] (less ``mean``, divided by ``std``) to logits [B, C]; it must be traceable
            by ``tf.function``, in eval mode. Torch's images are [B, C, H, W]; transpose where channels come last
            (``lambda x: net(tf.transpose(x, (0, 2, 3, 1)))``).
        mean, std, outputs, name: see :class:`Classifier`. Keras models often end in a softmax: ``"probabilities"``.
        sizes: the sizes of batch that it is traced for; other batches are cut into such and filled up.
        dtype: float32, or float64, in which the function's variables must be then.
        device: where the tensors lie; they go over by DLPack.

    Returns:
        the model, which attacks ask for outputs and gradients as they ask a network of torch.

    Raises:
        UserError: TensorFlow is not installed; later, where it computes in less than the float64 that is asked for.

    Example:
        >>> import tensorflow as tf  # doctest: +SKIP
        >>> model = from_tensorflow(lambda x: tf.reshape(x, (len(x), 64)) @ tf.ones((64, 10)))  # doctest: +SKIP
    """
    tf = optional("tensorflow", "from_tensorflow", "tensorflow")
    graph = tf.function(function)

    def to_tensorflow(x: Tensor) -> Any:
        # A copy of its own: TensorFlow's kernels crash on views that begin between two multiples of 64 bytes.
        return tf.experimental.dlpack.from_dlpack(to_dlpack(x.clone()))

    def forward(x: Any) -> Any:
        try:
            returned = graph(x)
        except (TypeError, ValueError) as error:  # of tracing: a story of many lines that ends with what is wrong
            raise type(error)(str(error).strip().splitlines()[-1].strip()) from error
        if dtype == torch.float64 and returned.dtype != tf.float64:
            raise UserError(
                f"The function returns {returned.dtype.name} where float64 is asked for; make its variables float64 "
                "(keras.config.set_floatx('float64') before the model is built), or leave dtype out."
            )
        return returned

    def with_pullback(x: Tensor) -> tuple[Any, Pullback]:
        at = to_tensorflow(x)
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(at)
            logits = forward(at)

        def pullback(weights: Tensor) -> Any:
            gradient = tape.gradient(logits, at, tf.cast(to_tensorflow(weights), logits.dtype))
            if gradient is None:
                raise UserError(
                    "TensorFlow has no gradient of the function's output with respect to its input (tf.round, argmax "
                    "or a py_function inside?); give from_predictions(function) a model that has none at all."
                )
            return gradient

        return logits, pullback

    net = Foreign(lambda x: forward(to_tensorflow(x)), with_pullback)
    called = name or getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__)
    return Classifier(net, mean, std, outputs=outputs, batch_size=sizes, dtype=dtype, device=device, name=called)
