"""Weights from files into networks; nothing is unpickled."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from robustatlas.errors import UserError

_WRAPPERS = ("state_dict", "model_state_dict", "model")
_SHOWN = 4


def read_weights(path: Path) -> dict[str, Tensor]:
    """The named tensors of a ``.safetensors`` file, or of a file of ``torch.save`` that holds nothing but tensors.

    A state dict may lie under the key "state_dict", "model_state_dict" or "model"; the prefix "module." of
    data-parallel training is dropped.
    """
    if not path.is_file():
        raise UserError(f"There is no weights file {path}.")
    try:
        content = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} holds pickled objects besides tensors, which are not loaded; "
            "save model.state_dict() alone, best with safetensors.torch.save_file."
        ) from error
    except Exception as error:  # torch.load answers bytes that are no pickle with whatever they happen to provoke
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{path} cannot be read as weights: {reason}") from error
    for key in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path} does not hold a state dict (names to tensors); save model.state_dict().")
    return {str(name).removeprefix("module."): tensor for name, tensor in content.items()}


def load_weights(net: nn.Module, path: str | Path) -> None:
    """Put the weights of a file into ``net``; :class:`UserError` where names or shapes do not match."""
    tensors = read_weights(Path(path))
    own: Mapping[str, Tensor] = net.state_dict()
    problems = [
        *_listed("missing", [name for name in own if name not in tensors]),
        *_listed("not in the model", [name for name in tensors if name not in own]),
        *_listed(
            "of another shape",
            [
                f"{name} {tuple(tensors[name].shape)} (the model's is {tuple(own[name].shape)})"
                for name in own
                if name in tensors and tensors[name].shape != own[name].shape
            ],
        ),
    ]
    if problems:
        raise UserError(f"The weights in {path} do not fit the model {type(net).__name__}: {'; '.join(problems)}.")
    net.load_state_dict(tensors)


def _listed(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{what}: {', '.join(names[:_SHOWN])}{more}"]
