"""The models that ship with robustatlas."""

from collections.abc import Callable
from importlib import resources

from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.models.architectures import digits_cnn
from robustatlas.models.classifier import seeded
from robustatlas.models.weights import load_weights

BUILTIN_MODELS: dict[str, Callable[[], nn.Module]] = {
    "digits-standard": digits_cnn,
    "digits-linf": digits_cnn,
    "digits-l2": digits_cnn,
    "digits-ibp": digits_cnn,
}
"""Name to architecture; the weights are ``models/shipped/NAME.safetensors`` (made by ``scripts/train_digits.py``)."""


def load_builtin(name: str) -> nn.Module:
    """Load a shipped model with its weights."""
    if name not in BUILTIN_MODELS:
        raise UserError(f"There is no built-in model {name!r}; there are {', '.join(BUILTIN_MODELS)}.")
    with seeded(0):  # the weights that are drawn first are replaced, and the caller's random numbers are not
        net = BUILTIN_MODELS[name]()
    with resources.as_file(resources.files(__package__) / "shipped" / f"{name}.safetensors") as path:
        load_weights(net, path)
    return net
