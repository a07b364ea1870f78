"""Searches over strengths: a :class:`~robustatlas.attacks.search.base.Schedule` derives the
:class:`~robustatlas.attacks.search.plan.Plan` of an attack and carries it out."""

from robustatlas.attacks.search.base import Schedule
from robustatlas.attacks.search.plan import Search
from robustatlas.common.registry import Registry, subclass_test

__all__ = ["SEARCHES", "Schedule", "Search", "search_named"]

SEARCHES: Registry[type[Schedule]] = Registry(
    "search",
    "robustatlas.searches",
    {
        "descent": "attacks.search.descent:Descent",
        "bisection": "attacks.search.grid:Bisection",
        "every": "attacks.search.grid:Every",
        "frontier": "attacks.search.frontier:FrontierSearch",
        "minimum": "attacks.search.descent:Minimum",
    },
    "a class derived from robustatlas.extending.Schedule",
    subclass_test(Schedule),
)


def search_named(name: str) -> type[Schedule]:
    """The schedule of a search.

    Raises:
        UserError: there is no such search, or it cannot be imported.

    Example:
        >>> search_named("every").__name__
        'Every'
    """
    return SEARCHES[name]
