"""Kinds of optimizers that a search runs."""

from typing import Any

from robustatlas.attacks.definition import Attack, Search
from robustatlas.optimizers.base import Optimizer


def kinds(attack: Attack, search: Search | None = None) -> tuple[type[Optimizer[Any]], ...]:
    """Return the kinds of optimizers that ``search`` (None: the default one) may run, in the order of their first run.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> [kind.__name__ for kind in kinds(attack_named("linf"))]
        ['FMN', 'PGD']
    """
    runs = attack.plan(attack.choose_search(search)).runs
    return tuple(dict.fromkeys(type(run.optimizer) for run in runs))
