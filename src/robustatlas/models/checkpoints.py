"""The content of files of weights under the names of a network. Nothing is unpickled."""

import pickle
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from robustatlas.common.errors import UserError, first_line, warn

Tensors = Mapping[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network")
_USUAL_PREFIXES = ("", "module.", "model.", "net.", "network.", "_orig_mod.", "model.module.", "module.model.")
_MEANS = ("mu", "mean", "normalize.mean", "normalizer.mean", "normalization.mean", "0.mean")
_DEVIATIONS = ("sigma", "std", "normalize.std", "normalizer.std", "normalization.std", "0.std")
_COUNTERS = "num_batches_tracked"  # of batch normalisation; eval mode does not read them
_SHOWN = 4


@dataclass(frozen=True)
class Fitted:
    """Weights under the names of a network.

    Attributes:
        tensors: the tensors to load; names of the network that are missing here keep what they hold.
        notes: sentences on the changes that made them fit.
        mean, std: the normalisation in the file that the network has no place for.
    """

    tensors: dict[str, Tensor]
    notes: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a ``.safetensors`` file, or of a file of ``torch.save``.

    The file holds a state dict, or keeps it under one of the keys that checkpoints of trainers use.
    """
    content = content_of(path)
    while isinstance(content, dict) and (
        taken := next((key for key in _WRAPPERS if isinstance(content.get(key), dict)), None)
    ):
        _warn_of_other_weights(
            path, taken, [key for key in content if key != taken and _has_same_shapes(content[taken], content[key])]
        )
        content = content[taken]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path} does not hold a state dict (names to tensors); save model.state_dict().")
    return {str(name): tensor for name, tensor in content.items()}


def content_of(path: Path) -> Any:
    """Read whatever a file of weights holds."""
    if not path.is_file():
        raise UserError(f"There is no weights file {path}; give the path of a .safetensors or .pt file.")
    try:
        return load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        refused = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise UserError(
            f"{path} holds pickled objects besides tensors{f' ({refused[1]})' if refused else ''}, which are not "
            "loaded; save model.state_dict() alone, best with safetensors.torch.save_file."
        ) from error
    except Exception as error:  # torch.load answers bytes that are not a pickle with whatever they happen to provoke
        raise UserError(
            f"{path} cannot be read as weights ({first_line(error)}); expected a file of safetensors, or of torch.save."
        ) from error


def _has_same_shapes(taken: Mapping[str, Any], other: Any) -> bool:
    """Return True if another entry of a checkpoint could be weights of the same network, such as their averages."""
    if not isinstance(other, Mapping):
        return False
    mine, its = (Counter(tuple(v.shape) for v in each.values() if isinstance(v, Tensor)) for each in (taken, other))
    return bool(mine) and mine <= its


def _warn_of_other_weights(path: Path, taken: str, others: Sequence[str]) -> None:
    if others:
        left = " and ".join(map(repr, others))
        warn(
            f"{path.name} holds several sets of weights that fit: {taken!r} is taken, and {left} left. To evaluate "
            "another one, save it by itself."
        )


def fit(tensors: Tensors, own: Tensors, optional: Collection[str], path: Path, what: str) -> Fitted:
    """Return the ``tensors`` of the file ``path`` under the names of ``own``, the state of the network ``what``.

    A prefix that trainers put before all names is dropped, with what lies outside. A normalisation in the file that the
    network has no place for is handed back. One that the file lacks stays the network's, where ``optional`` (its
    buffers) names it.
    """
    kept = [n for n in own if n in optional and (n in (*_MEANS, *_DEVIATIONS) or n.endswith(_COUNTERS))]
    needed = [name for name in own if name not in kept]
    prefix, others = _prefix(tensors, needed, path, what)
    _warn_of_other_weights(path, prefix, others)
    inside = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    extra = {name: value for name, value in inside.items() if name not in own}
    outside = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    normalisation = {name: value for name, value in (outside | extra).items() if _is_normalisation(name, value)}
    problems = [
        *_listed("missing", [name for name in needed if name not in inside]),
        *_listed("not in the model", [name for name in extra if name not in normalisation]),
        *_listed(
            "of another shape",
            [
                f"{name} {tuple(inside[name].shape)} (the model's is {tuple(own[name].shape)})"
                for name in own
                if name in inside and inside[name].shape != own[name].shape
            ],
        ),
    ]
    if problems:
        raise UserError(
            f"The weights in {path} do not fit the model {what}: {'; '.join(problems)}. Give the state dict of this "
            "very network, or set the network up as it was trained with arguments={...} (--set NAME=VALUE)."
        )
    notes = [
        *([f"the prefix {prefix!r} was dropped from the names"] if prefix else []),
        *_listed("beside the network and left out", [name for name in outside if name not in normalisation]),
        *_listed(
            "not in the file, so the model's own stay",
            [name for name in kept if name not in inside and not name.endswith(_COUNTERS)],
        ),
        *_listed("with a normalisation", list(normalisation)),
    ]
    return Fitted(
        {name: value for name, value in inside.items() if name in own},
        (f"Weights from {path.name}: {'; '.join(notes)}.",) if notes else (),
        _channels(normalisation, _MEANS, path),
        _channels(normalisation, _DEVIATIONS, path),
    )


def _prefix(tensors: Tensors, needed: Sequence[str], path: Path, what: str) -> tuple[str, list[str]]:
    """Return the prefix under which ``tensors`` hold all of ``needed``, and the other prefixes that do, too."""
    if not needed:
        return "", []
    beginnings = {name.removesuffix(needed[0]) for name in tensors if f".{name}".endswith(f".{needed[0]}")}
    fitting = [beginning for beginning in beginnings if all(beginning + name in tensors for name in needed)]
    usual = [prefix for prefix in _USUAL_PREFIXES if prefix in fitting]
    if usual:
        return usual[0], sorted(set(fitting) - {usual[0]})
    if len(fitting) > 1:
        raise UserError(
            f"{path} holds several networks that fit the model {what}, under {', '.join(sorted(fitting))}; "
            "save the state dict of the one to evaluate."
        )
    if fitting:
        return fitting[0], []
    return next((p for p in ("module.", "model.") if tensors and all(name.startswith(p) for name in tensors)), ""), []


def _is_normalisation(name: str, tensor: Tensor) -> bool:
    return name in (*_MEANS, *_DEVIATIONS) and tensor.is_floating_point() and tensor.squeeze().dim() <= 1


def _channels(normalisation: Tensors, names: Sequence[str], path: Path) -> tuple[float, ...] | None:
    name = next((name for name in names if name in normalisation), None)
    if name is None:
        return None
    values = tuple(float(value) for value in normalisation[name].flatten())
    if max(values, default=0.0) > 1:
        raise UserError(
            f"{path} holds a normalisation {name} = {values} for pixels from 0 to 255, but models here take [0, 1]; "
            "save the weights without it, and give mean and std divided by 255."
        )
    return values


def _listed(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{what}: {', '.join(names[:_SHOWN])}{more}"]
