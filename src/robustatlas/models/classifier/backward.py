"""The kind of gradient that a model gives to an attack: the attack chooses it for the time of a pass.

Values are always the model's own. Only the way back through input transformations, or through the ReLUs of the network,
differs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from robustatlas.common.errors import UserError

Backward = Literal["true", "identity", "surrogate", "bare", "smoothed"]
"""The way of gradients back through input transformations:

- ``"true"``: what autograd makes of the transformation (rounding: zero).
- ``"identity"``: as if it did nothing (BPDA: Athalye et al. 2018).
- ``"surrogate"``: through its smooth stand-in.
- ``"bare"``: that of the network without it, at the input itself. Examples are transferred from there.
- ``"smoothed"``: as each transformation says itself. The ReLUs of the network are smoothed
  (:mod:`robustatlas.models.classifier.smoothing`).
"""

BACKWARD: tuple[Backward, ...] = get_args(Backward)

_CHOSEN: ContextVar[Backward | None] = ContextVar("backward", default=None)


def check_backward(name: str | None) -> None:
    """Raise a :class:`UserError` if ``name`` is not a way back."""
    if name is not None and name not in BACKWARD:
        raise UserError(f"backward={name!r} is not known; expected {', '.join(map(repr, BACKWARD))}.")


def check_transformation_backward(name: str | None) -> None:
    """Raise a :class:`UserError` if ``name`` is not a way back of an input transformation."""
    check_backward(name)
    if name == "smoothed":
        raise UserError(
            "backward='smoothed' is of the ReLUs of a network, which a stage of an attack chooses; an input "
            "transformation takes 'true', 'identity' or 'surrogate'."
        )


@contextmanager
def going_back(by: Backward | None) -> Iterator[None]:
    """Let passes inside go back ``by`` this way (None: as each transformation says itself)."""
    if by is None:
        yield
        return
    token = _CHOSEN.set(by)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def requested_backward() -> Backward | None:
    """Return the choice of an attack for a pass made now; None: it has made none."""
    return _CHOSEN.get()


def transformation_backward(own: Backward | None) -> Backward | None:
    """Return the way back through an input transformation in a pass made now; ``own``: its own choice."""
    chosen = requested_backward()
    return own if chosen in (None, "smoothed") else chosen
