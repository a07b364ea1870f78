"""How strengths are explored: what a search does is a :class:`~robustatlas.search.plan.Plan`, and one class each, a
:class:`~robustatlas.search.base.Schedule`, carries it out."""

from robustatlas.search.base import Schedule
from robustatlas.search.descent import Descent, Minimum
from robustatlas.search.frontier import FrontierSearch
from robustatlas.search.grid import Bisection, Every
from robustatlas.search.plan import Search

__all__ = ["SEARCHES", "Schedule", "Search", "search_named"]

SEARCHES: dict[Search, type[Schedule]] = {
    "every": Every,
    "bisection": Bisection,
    "descent": Descent,
    "frontier": FrontierSearch,
    "minimum": Minimum,
}


def search_named(name: Search) -> type[Schedule]:
    """The schedule of a search."""
    return SEARCHES[name]
