"""The identity of a model: the name it was asked for by, the code that made it, and its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from robustatlas.outcomes import sha256_of_tensors


@dataclass(frozen=True)
class Origin:
    """The origin of a model.

    Attributes:
        source: the name it was asked for by, such as ``"builtin:digits-linf"``.
        code_sha256: of the file that makes it and of the arguments given (None: not known).
        notes: what was done to make it fit, one sentence each; to be shown to the user.
        licence: of the weights, as their publisher names it (None: not known).
        home: where the weights come from: an address, or a file (None: not known).
        library: what built the network, and its version, such as ``"timm 1.0.31"``.
        recipe: what :func:`load_model` was called with, to load it again elsewhere (None: it was not).

    Example:
        >>> Origin("builtin:digits-linf").notes
        ()
    """

    source: str
    code_sha256: str | None = None
    notes: tuple[str, ...] = ()
    licence: str | None = None
    home: str | None = None
    library: str | None = None
    recipe: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ModelIdentity:
    """The facts that two equal models share.

    Attributes:
        source: the name it was asked for by (None: given as an object).
        code_sha256: of the file that makes it and of the arguments given (None: given as an object, or built in).
        weights_sha256: of the named tensors, those of the normalisation among them (None: there are none).

    Example:
        >>> from robustatlas import load_model
        >>> load_model("builtin:digits-linf").identity == load_model("builtin:digits-l2").identity
        False
    """

    source: str | None
    code_sha256: str | None
    weights_sha256: str | None


def model_identity(
    net: Callable[..., Any], normalisation: Mapping[str, Tensor], origin: Origin | None
) -> ModelIdentity:
    """Return the identity of a network, the tensors of its normalisation, and its origin."""
    tensors = tensors_of(net) | {f"normalisation.{name}": value for name, value in normalisation.items()}
    return ModelIdentity(
        source=origin.source if origin is not None else None,
        code_sha256=origin.code_sha256 if origin is not None else None,
        weights_sha256=sha256_of_tensors(tensors) if tensors else None,
    )


def tensors_of(net: Callable[..., Any]) -> dict[str, Tensor]:
    """Return the named tensors of ``net``: its state, and the buffers it does not save.

    A compiled network has the names of the network that was compiled.
    """
    net = getattr(net, "_orig_mod", net)
    if not isinstance(net, nn.Module):
        return {}
    saved = {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    return dict(net.named_buffers(remove_duplicate=False)) | saved
