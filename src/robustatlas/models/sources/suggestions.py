"""Suggestions for names that are not those of models."""

import os
from collections.abc import Iterable
from pathlib import PurePath

from robustatlas.common.wording import nearest
from robustatlas.models.builtin import BUILTIN_MODELS
from robustatlas.models.card import CARD

_WEIGHTS = (".pt", ".pth", ".safetensors", ".bin", ".ckpt", ".tar")
_PROGRAMS = {".onnx": "onnx", ".pt2": "export"}
_BRIDGES = {
    "jax": "from_jax",
    "flax": "from_jax",
    "tensorflow": "from_tensorflow",
    "tf": "from_tensorflow",
    "keras": "from_tensorflow",
    "sklearn": "from_predictions",
}


def suggest_source(name: str, schemes: Iterable[str]) -> str:
    """Return a sentence about a name that no source takes; empty if it looks like ``package.module:function``.

    >>> suggest_source("net.onnx", ["onnx"])
    "A network in a file of ONNX is 'onnx:net.onnx'."
    >>> suggest_source("digits-linf", ["builtin"])
    "There is no model 'digits-linf'; did you mean 'builtin:digits-linf'?"
    >>> suggest_source("package.module:function", ["builtin"])
    ''
    """
    place, _, function = name.rpartition(":")
    suffix = PurePath(name).suffix.lower()
    if "://" in name:
        return (
            f"{name!r} is an address; a model of Hugging Face is hf:OWNER/NAME, and a served model is a function of "
            "yours that asks it (from_predictions)."
        )
    if os.path.isfile(os.path.join(name, CARD)):  # noqa: PTH113, PTH118  # False for names too long to be files
        return f"{name!r} is the folder of a training; its network is {f'trained:{name}'!r}."
    if os.path.isfile(os.path.join(name, "config.json")):  # noqa: PTH113, PTH118
        return f"{name!r} is a folder as Hugging Face saves models; its network is {f'hf:{name}'!r}."
    if suffix in _PROGRAMS and not place:
        kind = {"onnx": "ONNX", "export": "torch.export"}[_PROGRAMS[suffix]]
        return f"A network in a file of {kind} is {f'{_PROGRAMS[suffix]}:{name}'!r}."
    if suffix in _WEIGHTS:
        return (
            f"{name!r} is a file of weights, which alone are not a model; give the function that builds the network, "
            "such as path/file.py:function, and the file with --weights (in Python as the second argument)."
        )
    if place in _BRIDGES:
        return (
            f"There is no source '{place}:'; a function of it is a model by robustatlas.{_BRIDGES[place]}. On the "
            "command line name the function of a file that returns it, as path/file.py:function."
        )
    if place and function:
        return ""
    if near := nearest(name, BUILTIN_MODELS):
        return f"There is no model {name!r}; did you mean 'builtin:{near}'?"
    return (
        f"The model {name!r} must be path/file.py:function, package.module:function or builtin:NAME, "
        f"for example builtin:digits-standard; other sources are {', '.join(f'{scheme}:' for scheme in schemes)}."
    )
