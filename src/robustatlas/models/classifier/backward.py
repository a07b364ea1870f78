"""Which gradient a model gives to an attack: chosen by the attack, for the time of a pass. Values are always the
model's own; only the way back through input transformations, or through the ReLUs of the network, differs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from robustatlas.common.errors import UserError

Backward = Literal["true", "identity", "surrogate", "bare", "smoothed"]
"""How gradients go back through input transformations:

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
    """Raise a :class:`UserError` where ``name`` is not a way back."""
    if name is not None and name not in BACKWARD:
        raise UserError(f"backward={name!r} is not known; expected {', '.join(map(repr, BACKWARD))}.")


def check_own(name: str | None) -> None:
    """Raise a :class:`UserError` where ``name`` is not a way back of an input transformation."""
    check_backward(name)
    if name == "smoothed":
        raise UserError(
            "backward='smoothed' is of the ReLUs of a network, which a stage of an attack chooses; an input "
            "transformation takes 'true', 'identity' or 'surrogate'."
        )


@contextmanager
def going_back(by: Backward | None) -> Iterator[None]:
    """Passes inside go back ``by`` this (None: as each transformation says itself)."""
    if by is None:
        yield
        return
    token = _CHOSEN.set(by)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_here() -> Backward | None:
    """What an attack has chosen for a pass made now; None: nothing."""
    return _CHOSEN.get()


def backward_here(own: Backward | None) -> Backward | None:
    """What holds for a pass made now through an input transformation whose ``own`` choice is this."""
    chosen = chosen_here()
    return own if chosen in (None, "smoothed") else chosen
