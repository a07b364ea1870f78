"""How strengths are explored: what a search does is a :class:`~robustatlas.search.plan.Plan`, and one class each, a
:class:`~robustatlas.search.base.Schedule`, carries it out."""

from robustatlas.registry import Registry, subclass_of
from robustatlas.search.base import Schedule
from robustatlas.search.plan import Search

__all__ = ["SEARCHES", "Schedule", "Search", "search_named"]

SEARCHES: Registry[type[Schedule]] = Registry(
    "search",
    "robustatlas.searches",
    {
        "descent": "search.descent:Descent",
        "bisection": "search.grid:Bisection",
        "every": "search.grid:Every",
        "frontier": "search.frontier:FrontierSearch",
        "minimum": "search.descent:Minimum",
    },
    "a class derived from robustatlas.search.Schedule",
    subclass_of(Schedule),
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
