"""Networks to train, from a name, and trained ones from their folder."""

from pathlib import Path

from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.data import Dataset
from robustatlas.models.architectures import Normalised, architecture_named
from robustatlas.models.card import WEIGHTS, read_card
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.randomness import seeded
from robustatlas.models.loading import load_model
from robustatlas.models.sources.packages import optional
from robustatlas.models.weights import load_weights

_TIMM = "timm:"


def network_named(name: str, shape: tuple[int, ...], classes: int, seed: int = 0) -> nn.Module:
    """A network with fresh weights for images of ``shape`` [C, H, W] and so many classes.

    Args:
        name: a name of :data:`robustatlas.models.architectures.ARCHITECTURES`, ``wrn-DEPTH-WIDTH``, ``timm:NAME`` where
            timm is installed, or ``path/file.py:function``; a normalisation that the function returns becomes the first
            layer.
        shape: of one image.
        classes: number of logits (a function in a file has its own).
        seed: of the initial weights; torch's own generators are left as they are.

    Returns:
        the network, on the CPU; images [B, C, H, W] in [0, 1] to logits [B, classes].

    Raises:
        UserError: unknown names, timm not installed, a function that fails.

    Example:
        >>> network_named("digits-cnn", (1, 8, 8), 10)[0].weight.shape
        torch.Size([12, 1, 3, 3])
    """
    if len(shape) != 3:
        raise UserError(f"Images have shape {shape}; named networks take [channels, height, width].")
    with seeded(seed):
        if name.startswith(_TIMM):
            return _from_timm(name.removeprefix(_TIMM), shape[0], classes)
        if ":" in name:
            return _from_function(name)
        if shape[1] != shape[2]:
            raise UserError(f"Images have shape {shape}; the named networks take square ones.")
        return architecture_named(name, shape[0], shape[1], classes)


def network_for(name: str, data: Dataset, seed: int = 0) -> nn.Module:
    """:func:`network_named` for the images and classes of a data set.

    Args:
        name: as of :func:`network_named`.
        data: whose images and classes the network is for.
        seed: of the initial weights.

    Returns:
        the network, on the CPU.

    Raises:
        UserError: as of :func:`network_named`.

    Example:
        >>> import torch
        >>> from robustatlas.data import load_dataset
        >>> network_for("digits-cnn", load_dataset("digits"))(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    return network_named(name, tuple(data.images.shape[1:]), len(data.classes), seed)


def load_trained(folder: str | Path) -> Classifier:
    """The network that a training left in ``folder``, ready to be evaluated.

    Args:
        folder: what the training was told as ``out``.

    Returns:
        the network in eval mode, named after the folder.

    Raises:
        UserError: no card or weights there, or an architecture that is not a name.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> net, data = network_named("digits-cnn", (1, 8, 8), 10), ra.load_dataset("digits", "train").take(64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.train(net, data, epochs=1, out=folder, architecture="digits-cnn", progress=False)
        ...     load_trained(folder).logits(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    card = read_card(folder)
    data = card.identity.data
    net = network_named(card.architecture, data.shape, len(data.classes))
    place = parse_path(folder)
    load_weights(net, place / WEIGHTS)
    return Classifier(net.eval(), classes=data.classes if len(data.classes) > 1 else None, name=place.name)


def _from_timm(name: str, channels: int, classes: int) -> nn.Module:
    timm = optional("timm", f"timm:{name}", "timm")
    try:
        net: nn.Module = timm.create_model(name, num_classes=classes, in_chans=channels)
    except Exception as error:
        raise UserError(f"timm has no model {name!r} for {channels} channels ({error}).") from error
    return net


def _from_function(name: str) -> nn.Module:
    model = load_model(name)
    if not isinstance(model.net, nn.Module):
        raise UserError(f"{name!r} gives a plain function; only an nn.Module can be trained.")
    if model.mean is None and model.std is None:
        return model.net
    mean = model.mean if isinstance(model.mean, tuple) else (model.mean or 0.0,)
    std = model.std if isinstance(model.std, tuple) else (model.std or 1.0,)
    return Normalised(model.net, mean, std)
