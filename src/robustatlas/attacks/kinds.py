"""What a search really runs of an attack: the kinds of optimizers in its plan."""

from typing import Any

from robustatlas.attacks.definition import Attack, Search, Stage
from robustatlas.optimizers.base import Optimizer


def stages_run(attack: Attack, search: Search | None = None) -> tuple[Stage, ...]:
    """The stages that ``search`` (None: the default one of the attack) may run, in order."""
    return tuple(leg.stage for leg in attack.plans[attack.searched_by(search)].legs)


def kinds(attack: Attack, search: Search | None = None) -> tuple[type[Optimizer[Any]], ...]:
    """The kinds of optimizers among :func:`stages_run`, each once, in the order of their first run."""
    return tuple(dict.fromkeys(type(stage.optimizer) for stage in stages_run(attack, search)))
