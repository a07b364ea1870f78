"""Models and attacks on their way to other processes."""

import io
import pickle
from typing import Any

import cloudpickle
import torch

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier, arrival_device, unpickle_on
from robustatlas.models.loading import load_model
from robustatlas.models.sources.functions import modules_of_files


class CannotShareError(UserError):
    """Other processes cannot do this work; this one can do it alone."""


def packed(value: Any, what: str) -> bytes:
    """Return ``value`` as bytes for a process that shares nothing with this one but the installed packages.

    Code of files and scripts goes along. A :class:`Classifier` goes as it is now; one that cannot (a program of
    ``torch.export``) goes as what :func:`load_model` was called with, and is loaded again.

    Raises:
        CannotShareError: something in it can go neither way; ``what`` names it.
    """
    problems = []
    for module in modules_of_files():  # which have no name that another process could import
        cloudpickle.register_pickle_by_value(module)
    for pickler in (cloudpickle.Pickler, _BySource):
        stream = io.BytesIO()
        try:
            pickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}".splitlines()[0].rstrip("."))
        else:
            return stream.getvalue()
    raise CannotShareError(
        f"{what} cannot be sent to other processes ({problems[0]}); evaluate in this process alone, without workers, "
        "devices or ray, or load the model by its name (load_model)."
    )


def unpacked(content: bytes, device: str | torch.device) -> Any:
    """Return the value that :func:`packed` made bytes of, with its classifiers on ``device``."""
    with unpickle_on(device):
        return pickle.loads(content)


class _BySource(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Classifier) and value.origin is not None and value.origin.recipe is not None:
            return _loaded, (dict(value.origin.recipe),)
        return super().reducer_override(value)


def _loaded(recipe: dict[str, Any]) -> Classifier:
    return load_model(**recipe, device=arrival_device())
