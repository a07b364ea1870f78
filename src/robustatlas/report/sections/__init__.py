"""Sections of the report that stand by themselves, below the curves: one file and one line each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robustatlas.common.registry import Registry
from robustatlas.report.facts.run import RunFacts
from robustatlas.results.result import Result

__all__ = ["SECTIONS", "Section"]


@dataclass(frozen=True)
class Section:
    """A part of the report with a title.

    Attributes:
        name: in the registry, and in the page's anchors.
        body: from the runs and what is known of them, in the same order, to HTML; empty where it has nothing to say.
            Text of others in it is escaped by whoever writes it.

    Example:
        >>> Section("count", "How many", lambda results, facts: f"<p>{len(results)} runs</p>").body([], [])
        '<p>0 runs</p>'
    """

    name: str
    title: str
    body: Callable[[Sequence[Result], Sequence[RunFacts]], str]


SECTIONS: Registry[Section] = Registry(
    "section of the report",
    "robustatlas.sections",
    {
        "everyday": "report.sections.everyday:SECTION",
        "imagenet-ua": "report.sections.imagenet_ua:SECTION",
    },
    "a robustatlas.extending.Section",
    lambda thing: isinstance(thing, Section),
)
"""Name -> section, in the order of the page."""
