"""Callbacks of trainers: each is made by a function that imports the trainer's package when it is called."""

import sys
from typing import Any

from robustatlas.evaluation.request import Attacks, Data
from robustatlas.models.sources.packages import optional
from robustatlas.training.callbacks.watching import Watch


def Lightning(data: str | Data, attacks: Attacks = ("linf", "l2"), **settings: Any) -> Any:  # noqa: N802 - a callback's
    """Return a callback of Lightning: robust accuracy every few epochs, through the loggers of the trainer.

    Args:
        data, attacks: as of :class:`Watch`.
        settings: the other arguments of :class:`Watch`.

    Returns:
        the callback; its ``watch`` is the :class:`Watch`.

    Raises:
        UserError: Lightning is not installed, or what was given does not fit.

    Example:
        >>> trainer = Trainer(callbacks=[Lightning("digits", "linf", every=5)])  # doctest: +SKIP
    """
    if "pytorch_lightning" not in sys.modules:
        optional("lightning", "ra.callbacks.Lightning", "lightning")
    from robustatlas.training.callbacks.on_lightning import OnLightning

    return OnLightning(Watch(data, attacks, **settings))


def Transformers(trainer: Any, data: str | Data, attacks: Attacks = ("linf", "l2"), **settings: Any) -> Any:  # noqa: N802
    """Return a callback of the ``Trainer`` of transformers: robust accuracy every few epochs, to whatever it
    reports to.

    Args:
        trainer: whose training it is; numbers go through its ``log``.
        data, attacks: as of :class:`Watch`.
        settings: the other arguments of :class:`Watch`.

    Returns:
        the callback; its ``watch`` is the :class:`Watch`.

    Raises:
        UserError: transformers is not installed, or what was given does not fit.

    Example:
        >>> trainer.add_callback(Transformers(trainer, "digits", "linf", every=5))  # doctest: +SKIP
    """
    optional("transformers", "ra.callbacks.Transformers", "transformers")
    from robustatlas.training.callbacks.on_transformers import OnTransformers

    return OnTransformers(trainer, Watch(data, attacks, **settings))
