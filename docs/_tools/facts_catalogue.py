"""Facts that are read from the catalogue: what runs, what to cite, which suites and searches there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from facts_stored import Row, table

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.suites import SUITES
from robustatlas.common.papers import papers
from robustatlas.report.citing import what_runs


def said(attack: Attack, search: Search | None = None) -> str:
    return ", ".join(name for name, _ in what_runs(attack, search))


def merged(said_of: dict[str, str]) -> list[tuple[str, str]]:
    """What is said, and the names it is said of."""
    together: dict[str, list[str]] = {}
    for name, words in said_of.items():
        together.setdefault(words, []).append(name)
    return [(words, "`, `".join(names)) for words, names in together.items()]


def grouped(attacks: Iterable[Attack], key: Callable[[Attack], Row]) -> list[Row]:
    """A row for each different key, which begins with the names of the attacks that share it."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for attack in attacks:
        groups.setdefault(tuple(key(attack)), []).append(f"`{attack.name}`")
    return [(" ".join(names), *values) for values, names in groups.items()]


def shown() -> list[Attack]:
    """The catalogue with one attack for all common corruptions."""
    corruptions = [attack for name, attack in catalogue().items() if name.startswith("corruption-")]
    others = [attack for name, attack in catalogue().items() if not name.startswith("corruption-")]
    return [*others, *corruptions[:1]]


def _named(markdown: str) -> str:
    """All corruptions by one name, of which the catalogue's table shows the first."""
    return re.sub(r"`corruption-[a-z0-9-]+`", "`corruption-NAME`", markdown)


def kinds_table() -> str:
    """Which kinds of optimizers each attack runs, by its default search and at one strength."""
    rows = grouped(shown(), lambda a: (f"`{a.searches[0]}`", said(a), said(a, "every")))
    return _named(table(("attack", "default search", "what it runs", "at one strength (`bisection`, `every`)"), rows))


def cite_table() -> str:
    """What to cite for each attack: where its set is from, and what the default search runs."""

    def sources(attack: Attack) -> Row:
        return attack.about.source, "; ".join(
            f"{name}: {paper}" if paper else name for name, paper in what_runs(attack)
        )

    return _named(table(("attack", "set and grid from", "what the default search runs"), grouped(shown(), sources)))


def suites_table() -> str:
    """The suites and their attacks."""
    rows = []
    for suite in SUITES.values():
        attacks = suite.build("default")
        names = " ".join(f"`{attack.name}`" for attack in attacks)
        if all(attack.name.startswith("corruption-") for attack in attacks):
            names = f"all {len(attacks)} `corruption-NAME`"
        rows.append((f"`{suite.name}`", suite.about, names))
    return table(("suite", "what it is", "attacks"), rows)


def searches_table() -> str:
    """Which searches are valid for which attacks, the default first."""
    rows = grouped(shown(), lambda a: (" ".join(f"`{search}`" for search in a.searches),))
    return _named(table(("attack", "searches, the default first"), rows))


def papers_list() -> str:
    return "\n".join(f"- {name}, *[{paper.title}]({paper.where})*" for name, paper in papers().items())
