"""Weights from files into networks; nothing is unpickled."""

from pathlib import Path

from torch import Tensor, nn

from robustatlas.common.files import named
from robustatlas.models.checkpoints import Fitted, fit, read_weights


def load_weights(net: nn.Module, path: str | Path) -> Fitted:
    """Put the weights of a file into ``net``.

    Args:
        net: changed in place.
        path: a ``.safetensors`` file, or a state dict saved by ``torch.save``, alone or in a checkpoint.

    Returns:
        What was done to make them fit, and the normalisation in the file that ``net`` has no place for.

    Raises:
        UserError: the file cannot be read, or names or shapes do not match.

    Example:
        >>> from robustatlas.models.architectures import digits_cnn
        >>> load_weights(digits_cnn(), "nothing.safetensors")
        Traceback (most recent call last):
        robustatlas.common.errors.UserError: There is no weights file nothing.safetensors; give the path of ...
    """
    own = {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    buffers = {name for name, _ in net.named_buffers()}
    file = named(path, "a file of weights")
    fitted = fit(read_weights(file), own, buffers, file, type(net).__name__)
    net.load_state_dict(net.state_dict() | fitted.tensors)
    return fitted
