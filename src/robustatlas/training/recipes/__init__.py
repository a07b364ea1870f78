"""The recipes by name; a new one is one file and one line here."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from robustatlas.errors import UserError
from robustatlas.training.against import Against, opponents_of
from robustatlas.training.recipes.ascending import Ascending
from robustatlas.training.recipes.avg import Avg
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update
from robustatlas.training.recipes.e_at import EAt
from robustatlas.training.recipes.manifold import Manifold
from robustatlas.training.recipes.mng_ac import MngAc
from robustatlas.training.recipes.msd import Msd
from robustatlas.training.recipes.pat import Pat
from robustatlas.training.recipes.pgd import Pgd
from robustatlas.training.recipes.sat import Sat
from robustatlas.training.recipes.standard import Standard
from robustatlas.training.recipes.trades import Trades
from robustatlas.training.recipes.uniform import Uniform
from robustatlas.training.recipes.variation import Variation
from robustatlas.training.recipes.worst import Max
from robustatlas.wording import instead

__all__ = ["RECIPES", "Batch", "Memory", "Recipe", "Update", "recipe_named"]

RECIPES: dict[str, type[Recipe]] = {
    recipe.name: recipe
    for recipe in (
        Standard,
        Pgd,
        Uniform,
        Trades,
        Ascending,
        Avg,
        Max,
        Msd,
        Sat,
        MngAc,
        EAt,
        Pat,
        Variation,
        Manifold,
    )
}


def recipe_named(
    name: str,
    against: Against | None = None,
    steps: int | None = None,
    rate: float | None = None,
    **settings: Any,
) -> Recipe:
    """The recipe of that name.

    Args:
        name: one of :data:`RECIPES`.
        against: attack -> strength, or :class:`~robustatlas.training.crafting.Opponent` objects.
        steps: of crafting; default: the recipe's.
        rate: length of a step as a share of the strength; default: the recipe's.
        **settings: fields of the recipe, such as ``beta=6.0`` of trades or ``warmup=0.5`` of any.

    Returns:
        the recipe with these settings.

    Raises:
        UserError: unknown recipes, threat models or settings (the nearest name is suggested), a number of threat models
            that the recipe does not take.

    Example:
        >>> recipe = recipe_named("max", {"linf": 0.1, "l2": 1.5}, steps=5)
        >>> recipe.name, [o.name for o in recipe.against], recipe.against[0].optimizer.steps
        ('max', ['linf', 'l2'], 5)
    """
    if not isinstance(name, str) or name not in RECIPES:
        raise UserError(f"There is no recipe {name!r}{_nearest(str(name), list(RECIPES))}")
    kind = RECIPES[name]
    known = [field.name for field in fields(kind) if field.name != "against"]
    for key in settings:
        if key not in known:
            raise UserError(f"The recipe {name!r} has no setting {key!r}{_nearest(key, known)}")
    count = kind.steps if steps is None else steps
    given_rate = kind.rate_of(max(count, 1)) if rate is None else rate
    opponents = opponents_of(against, count, given_rate, optimizer=kind.optimizer, l2_start=kind.l2_start)
    return kind(against=opponents, **settings)


def _nearest(given: str, known: list[str]) -> str:
    return instead(given, known, f"known are {', '.join(known)}")
