"""Sources of models, and any model as one thing, the Classifier; architectures and defenses.

The names of this module are imported when they are first used: the names of all sources can be had without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustatlas.models.builtin import BUILTIN_MODELS
    from robustatlas.models.loading import load_model
    from robustatlas.models.settings import parse_settings
    from robustatlas.models.weights import load_weights

__all__ = ["BUILTIN_MODELS", "load_model", "load_weights", "parse_settings"]

_HOME = {
    "BUILTIN_MODELS": "builtin",
    "load_model": "loading",
    "load_weights": "weights",
    "parse_settings": "settings",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
