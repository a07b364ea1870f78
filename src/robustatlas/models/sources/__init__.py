"""Where models come from: functions in files and packages, what is shipped, model zoos and files of other formats."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from robustatlas.errors import UserError
from robustatlas.models.builtin import load_builtin
from robustatlas.models.sources.exported import exported_model
from robustatlas.models.sources.functions import function_named
from robustatlas.models.sources.huggingface import huggingface_model
from robustatlas.models.sources.meant import meant_by
from robustatlas.models.sources.onnx import onnx_model
from robustatlas.models.sources.robustbench import robustbench_model
from robustatlas.models.sources.source import Source
from robustatlas.models.sources.timm import timm_model
from robustatlas.models.sources.torchvision import torchvision_model
from robustatlas.models.sources.trained import trained_model

SCHEMES: dict[str, Callable[..., Any]] = {
    "builtin": load_builtin,
    "timm": timm_model,
    "torchvision": torchvision_model,
    "hf": huggingface_model,
    "robustbench": robustbench_model,
    "onnx": onnx_model,
    "export": exported_model,
    "trained": trained_model,
}
"""What stands before the colon, and the function that makes a model of what stands behind it."""

FILES = frozenset({"onnx", "export"})
"""The schemes behind whose colon stands a file."""

__all__ = ["SCHEMES", "Source", "source_named"]


def source_named(name: str) -> Source:
    """What ``path/file.py:function``, ``package.module:function``, or one of :data:`SCHEMES` and a name behind it,
    such as ``builtin:NAME``, names.

    Raises:
        UserError: no such file, module or function, or a file that cannot be imported.
    """
    if not isinstance(name, str):
        raise UserError(
            f"A model is loaded by its name, not from a {type(name).__name__}; give a network to Classifier."
        )
    scheme, _, rest = name.partition(":")
    if scheme in SCHEMES and rest:
        return Source(name, partial(SCHEMES[scheme], rest), Path(rest) if scheme in FILES else None)
    if sentence := meant_by(name, SCHEMES):
        raise UserError(sentence)
    place, _, function = name.rpartition(":")
    return function_named(place, function)
