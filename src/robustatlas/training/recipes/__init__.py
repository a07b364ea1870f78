"""The recipes by name; a new one is one file and one line here."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.registry import Registry, subclass_test
from robustatlas.common.wording import suggestion
from robustatlas.training.against import Against, make_opponents
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update

__all__ = ["RECIPES", "Batch", "Memory", "Recipe", "Update", "check_options", "recipe_named"]

RECIPES: Registry[type[Recipe]] = Registry(
    "recipe",
    "robustatlas.recipes",
    {
        "standard": "training.recipes.standard:Standard",
        "pgd": "training.recipes.pgd:Pgd",
        "uniform": "training.recipes.uniform:Uniform",
        "trades": "training.recipes.trades:Trades",
        "mart": "training.recipes.mart:Mart",
        "hat": "training.recipes.hat:Hat",
        "awp": "training.recipes.awp:Awp",
        "ascending": "training.recipes.ascending:Ascending",
        "avg": "training.recipes.avg:Avg",
        "max": "training.recipes.worst:Max",
        "msd": "training.recipes.msd:Msd",
        "sat": "training.recipes.sat:Sat",
        "mng-ac": "training.recipes.mng_ac:MngAc",
        "e-at": "training.recipes.e_at:EAt",
        "pat": "training.recipes.pat:Pat",
        "variation": "training.recipes.variation:Variation",
        "manifold": "training.recipes.manifold:Manifold",
        "mmr": "training.recipes.mmr:Mmr",
        "ibp": "training.recipes.ibp:Ibp",
        "crown-ibp": "training.recipes.crown_ibp:CrownIbp",
        "kw": "training.recipes.kw:Kw",
    },
    "a class derived from robustatlas.extending.Recipe",
    subclass_test(Recipe),
)


def check_options(name: str, given: Iterable[str]) -> None:
    """Raise :class:`UserError` where the recipe ``name`` has no setting of a ``given`` name."""
    known = [field.name for field in fields(RECIPES[name]) if field.name != "against"]
    for key in given:
        if key not in known:
            there = f"known are {', '.join(known)}"
            raise UserError(f"The recipe {name!r} has no setting {key!r}{suggestion(key, known, there)}")


def recipe_named(
    name: str,
    against: Against | None = None,
    steps: int | None = None,
    rate: float | None = None,
    features: str | None = None,
    **settings: Any,
) -> Recipe:
    """Return the recipe of that name.

    Args:
        name: one of :data:`RECIPES`.
        against: attack -> strength, or :class:`~robustatlas.optimizers.crafting.Opponent` objects.
        steps: of crafting; default: the recipe's.
        rate: length of a step as a share of the strength; default: the recipe's.
        features: what ``lpips`` compares images by, ``ARCHITECTURE=FILE``; default: the network that is trained.
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
    kind = RECIPES[name]
    check_options(name, settings)
    count = kind.steps if steps is None else steps
    given_rate = kind.rate_of(max(count, 1)) if rate is None else rate
    opponents = make_opponents(
        against, count, given_rate, optimizer=kind.optimizer, l2_start=kind.l2_start, features=features
    )
    return kind(against=opponents, **settings)
