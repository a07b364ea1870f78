"""Models named on the command line: ``path/file.py:function``, ``package.module:function``, ``builtin:NAME``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import nn

from robustatlas.errors import UserError
from robustatlas.models.builtin import load_builtin
from robustatlas.models.weights import load_weights


@dataclass(frozen=True)
class LoadedModel:
    """A network that takes images in [0, 1], normalised with ``mean`` and ``std`` where these are given.

    ``name`` is what the model was asked for by.
    """

    net: nn.Module
    name: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def load_model(source: str, weights: str | Path | None = None) -> LoadedModel:
    """The model that ``source`` names, in eval mode.

    Args:
        source: ``path/file.py:function``, ``package.module:function`` or ``builtin:NAME``. The function takes no
            arguments and returns an ``nn.Module``, or ``(nn.Module, mean, std)``, one mean and deviation per channel.
        weights: A ``.safetensors`` file, or a state dict saved by ``torch.save``, to load into it.

    Raises:
        UserError: nothing under that name, a function that fails or returns something else, weights that do not fit.

    Example:
        >>> model = load_model("builtin:digits-linf")
        >>> model.name, sum(p.numel() for p in model.net.parameters())
        ('builtin:digits-linf', 21706)
    """
    place, separator, function = source.rpartition(":")
    if not separator or not place or not function:
        raise UserError(
            f"The model {source!r} must be path/file.py:function, package.module:function or builtin:NAME, "
            "for example builtin:digits-standard."
        )
    if place == "builtin":
        return LoadedModel(load_builtin(function, weights), source)
    module = _module_of_file(Path(place)) if place.endswith(".py") else _module_of_package(place)
    net, mean, std = _made(module, function, source)
    if weights is not None:
        load_weights(net, weights)
    return LoadedModel(net.eval(), source, mean, std)


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no file {path} to take a model from.")
    spec = importlib.util.spec_from_file_location(f"robustatlas_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} cannot be imported as a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    sys.path.insert(0, str(path.parent.resolve()))  # so that the file can import its neighbours
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path} failed while it was imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def _module_of_package(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))  # as python -m does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UserError(
                f"There is no Python module {name!r}; give a module, or a file as path/file.py:function."
            ) from error
        raise UserError(f"Module {name!r} needs {error.name!r}, which is not installed.") from error
    except Exception as error:
        raise UserError(f"Module {name!r} failed while it was imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)


def _made(
    module: ModuleType, function: str, source: str
) -> tuple[nn.Module, tuple[float, ...] | None, tuple[float, ...] | None]:
    make = getattr(module, function, None)
    if not callable(make):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        close = difflib.get_close_matches(function, known, n=1)
        raise UserError(
            f"{source!r} has no function {function!r}"
            + (f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(known) or 'none'}.")
        )
    try:
        made = make()
    except Exception as error:
        raise UserError(
            f"{source!r} failed ({type(error).__name__}: {error}); "
            "it is called without arguments and must return an nn.Module."
        ) from error
    if isinstance(made, nn.Module):
        return made, None, None
    if isinstance(made, tuple) and len(made) == 3 and isinstance(made[0], nn.Module):
        return made[0], _channels(made[1], source), _channels(made[2], source)
    raise UserError(
        f"{source!r} must return an nn.Module or (nn.Module, mean, std), but returned {type(made).__name__}."
    )


def _channels(values: float | Sequence[float], source: str) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in (values if isinstance(values, Sequence) else [values]))
    except (TypeError, ValueError) as error:
        raise UserError(f"{source!r} must return mean and std as numbers, one per channel; got {values!r}.") from error
