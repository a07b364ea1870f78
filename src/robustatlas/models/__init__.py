"""Where models come from: a function in a file or a package, or the networks that ship with robustatlas."""

from robustatlas.models.builtin import BUILTIN_MODELS, builtin_names
from robustatlas.models.loading import load_model
from robustatlas.models.settings import parse_settings
from robustatlas.models.weights import load_weights

__all__ = ["BUILTIN_MODELS", "builtin_names", "load_model", "load_weights", "parse_settings"]
