"""Weights from files into networks; nothing is unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.models.architectures import Normalised
from robustatlas.models.checkpoints import Fitted, Tensors, fit, read_weights
from robustatlas.models.classifier import Classifier


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
    file = parse_path(path, "a file of weights")
    return _fit_into(read_weights(file), net, file)


def copy_weights(net: nn.Module, model: Classifier) -> Fitted:
    """Put the weights of a model into ``net``, a network of the same architecture and normalisation.

    Args:
        net: changed in place.
        model: of any source.

    Returns:
        What was done to make them fit.

    Raises:
        UserError: names, shapes or the normalisation do not match, or the model is no network of torch.
    """
    if not isinstance(model.net, nn.Module):
        raise UserError(f"{model.name} is a plain function, which has no weights to begin with; give a network.")
    inner: nn.Module = net
    own: tuple[Any, Any] = (0.0, 1.0)
    if isinstance(net, Normalised) and not isinstance(model.net, Normalised):
        inner, own = net.net, (net.mean.flatten().tolist(), net.std.flatten().tolist())
    given = (0.0 if model.mean is None else model.mean, 1.0 if model.std is None else model.std)
    if not all(np.allclose(mine, its) for mine, its in zip(own, given, strict=True)):
        raise UserError(
            f"{model.name} normalises its images by the mean {given[0]} and the deviation {given[1]}, and the network "
            f"that is to begin with its weights by {own[0]} and {own[1]}; give as architecture a function that returns "
            "(network, mean, std) of that model."
        )
    tensors = {name: value for name, value in model.net.state_dict().items() if isinstance(value, Tensor)}
    return _fit_into(tensors, inner, Path(model.name))


def _fit_into(tensors: Tensors, net: nn.Module, origin: Path) -> Fitted:
    own = {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    buffers = {name for name, _ in net.named_buffers()}
    fitted = fit(tensors, own, buffers, origin, type(net).__name__)
    net.load_state_dict(net.state_dict() | fitted.tensors)
    return fitted
