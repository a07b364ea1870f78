"""Models named on the command line, ready to be evaluated."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, brief
from robustatlas.common.files import named
from robustatlas.models.checkpoints import Fitted
from robustatlas.models.classifier import Classifier, Origin, Precision
from robustatlas.models.classifier.network import Given, Statistic, statistic
from robustatlas.models.sources import source_named
from robustatlas.models.weights import load_weights

_NONE: Mapping[str, Any] = MappingProxyType({})


def load_model(
    source: str,
    weights: str | Path | None = None,
    *,
    mean: Given = None,
    std: Given = None,
    device: str | torch.device | None = None,
    precision: Precision | None = None,
    name: str | None = None,
    arguments: Mapping[str, Any] = _NONE,
) -> Classifier:
    """Load the model that ``source`` names: on its device, in eval mode, with its weights and its normalisation.

    Args:
        source: ``path/file.py:function``, ``package.module:function``, or a name behind one of
            :data:`~robustatlas.models.schemes.SCHEMES`, such as ``timm:resnet18``. A function returns an
            ``nn.Module``, ``(nn.Module, mean, std)`` with one mean and deviation per channel, or a
            :class:`Classifier`.
        weights: a ``.safetensors`` file, or a state dict saved by ``torch.save``, to load into it.
        mean, std: the normalisation, in place of the one that the function or the weights bring.
        device: where to run; default: where the function put it.
        precision: ``"float32"``, ``"tf32"`` or ``"bfloat16"``, see :class:`Classifier`.
        name: its name in reports; default: ``source``.
        arguments: arguments of the function, or settings of the source, such as ``{"pretrained": False}``.

    Returns:
        The classifier; ``.net``, ``.mean``, ``.std`` are its parts, ``.origin`` says where it came from, and ``.notes``
        what was done to make everything fit.

    Raises:
        UserError: nothing under that name, a function that fails, takes other arguments or returns something else,
            weights that do not fit, a device that cannot be used.

    Example:
        >>> model = load_model("builtin:digits-linf")
        >>> model.name, model.logits(torch.zeros(2, 1, 8, 8)).shape
        ('builtin:digits-linf', torch.Size([2, 10]))
    """
    found = source_named(source)
    if not isinstance(arguments, Mapping):
        raise UserError(
            f"arguments={brief(repr(arguments))}; expected a mapping of names to values, such as {{'depth': 18}}."
        )
    settings = dict(arguments)
    if weights is not None and found.pretrains:
        settings.setdefault("pretrained", False)
    net, *own = _parts(found.make_model(settings), source)
    fitted = _load_into(net, weights, source) if weights is not None else Fitted({})
    made = net.origin if isinstance(net, Classifier) and net.origin is not None else Origin(source)
    notes = [*made.notes, *fitted.notes]
    used_mean = _choose_statistic("mean", source, mean, own[0], fitted.mean, notes)
    used_std = _choose_statistic("std", source, std, own[1], fitted.std, notes)
    module = net.net if isinstance(net, Classifier) else net
    if isinstance(module, nn.Module):
        _to_eval_mode(module)
    code = found.sha256(arguments) or made.code_sha256
    home = str(named(weights).resolve()) if weights is not None else made.home
    licence = made.licence if weights is None else None
    asked = {"source": source, "weights": weights, "mean": mean, "std": std, "name": name, "arguments": dict(arguments)}
    origin = Origin(source, code, tuple(notes), licence, home, made.library, asked | {"precision": precision})
    return Classifier(net, used_mean, used_std, device=device, precision=precision, name=name or source, origin=origin)


def _to_eval_mode(net: nn.Module) -> None:
    """Set each module to eval mode; exported programs have no ``eval()`` themselves."""
    for module in net.modules():
        module.training = False


def _parts(made: Any, source: str) -> tuple[nn.Module | Classifier, Any, Any]:
    """Return the model that a function returned, and its mean and deviation."""
    if isinstance(made, Classifier):
        return made, made.mean, made.std
    if isinstance(made, nn.Module):
        return made, None, None
    if isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], nn.Module):
        return made
    returned = type(made).__name__
    if isinstance(made, tuple):
        returned += f" of {', '.join(type(part).__name__ for part in made)}"
    raise UserError(
        f"{source!r} must return an nn.Module, (nn.Module, mean, std) or a Classifier, but returned {returned}."
    )


def _load_into(net: nn.Module | Classifier, weights: str | Path, source: str) -> Fitted:
    module: nn.Module | Callable[[Tensor], Any] = net.net if isinstance(net, Classifier) else net
    if not isinstance(module, nn.Module):
        raise UserError(
            f"{source!r} returned a Classifier of a plain function, which takes no weights; leave them out."
        )
    return load_weights(module, weights)


def _choose_statistic(
    what: str, source: str, given: Given, made: Given, saved: Given, notes: list[str]
) -> Statistic | None:
    """Return the one mean or deviation to use, and add a note if others are not."""
    candidates = {
        f"The {what} given": statistic(given, what),
        f"the {what} of the model's function": statistic(made, f"{source!r} returned {what}"),
        f"the {what} in the weights": statistic(saved, what),
    }
    present = [(whose, value) for whose, value in candidates.items() if value is not None]
    if not present:
        return None
    whose, chosen = present[0]
    passed = [f"{other} ({value})" for other, value in present[1:] if not _is_same_statistic(chosen, value)]
    if passed:
        notes.append(f"{whose[0].upper()}{whose[1:]} ({chosen}) is used, not {' or '.join(passed)}.")
    return chosen


def _is_same_statistic(one: Statistic, other: Statistic) -> bool:
    first, second = torch.as_tensor(one).flatten(), torch.as_tensor(other).flatten()
    return len(first) == len(second) and torch.allclose(first, second, atol=1e-6)
