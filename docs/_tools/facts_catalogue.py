"""Facts that are read from the catalogue: what runs, what to cite, which suites and searches there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from facts_stored import Row, table
from papers import PAPERS, cited

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.everyday import everyday_suite
from robustatlas.attacks.kinds import kinds, stages_run
from robustatlas.attacks.suites import SUITES
from robustatlas.common import wording

OPTIMIZERS = {
    "Adam": ("Adam", "Kingma and Ba 2015"),
    "APGD": ("APGD", "Croce and Hein 2020"),
    "APGDL1": ("APGD for l1", "Croce and Hein 2021"),
    "BrendelBethge": ("Brendel-Bethge", "Brendel et al. 2019"),
    "CarliniWagner": ("Carlini-Wagner", "Carlini and Wagner 2017"),
    "EAD": ("EAD", "Chen et al. 2018"),
    "FAB": ("FAB", "Croce and Hein 2020b"),
    "FMN": ("FMN", "Pintor et al. 2021"),
    "FrankWolfe": ("Frank-Wolfe", "Kang et al. 2019"),
    "VertexAscent": ("vertex ascent", ""),
    "HopSkipJump": ("HopSkipJump", "Chen et al. 2020"),
    "LPA": ("LPA", "Laidlaw et al. 2021"),
    "Once": ("one draw", ""),
    "PerceptualDescent": ("descent along the decision boundary", ""),
    "PGD": ("PGD", "Madry et al. 2018"),
    "PPGD": ("PPGD", "Laidlaw et al. 2021"),
    "Scan": ("scan of the one parameter", ""),
    "SigmaZero": ("sigma-zero", "Cinà et al. 2025"),
    "Sweep": ("exhaustive sweep over a grid", ""),
    "Square": ("Square", "Andriushchenko et al. 2020"),
}
"""Of each kind of optimizer the name that pages use, and the paper it is from (empty: nothing to cite)."""

HOPPING = ("basin-hopping restarts", "Wales and Doye 1997")


def what_runs(attack: Attack, search: Search | None = None) -> list[tuple[str, str]]:
    """Name and paper of all that a search runs of an attack, in order: what pages say of it comes from here."""
    found = [OPTIMIZERS[kind.__name__] for kind in kinds(attack, search)]
    return [*found, HOPPING] if any(stage.kick for stage in stages_run(attack, search)) else found


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


def everyday_table() -> str:
    """The everyday changes at the three sizes of their suite, below 85 pixels and from there on, and how fine the sweep
    of each is."""
    rows = []
    for large in everyday_suite("default"):
        name, small = large.name, large.small or large
        sizes = [
            ", ".join(wording.strength(at, of=name) for at in each.strengths) for each in dict.fromkeys((small, large))
        ]
        steps = [
            f"{each.strengths[-1] / each.plans['descent'].legs[0].stage.optimizer.sizes:g}"
            for each in dict.fromkeys((small, large))
        ]
        sources = "; from 85 pixels: ".join(each.about.source for each in dict.fromkeys((small, large)))
        unit = large.about.unit.removeprefix(wording.FALLEN)
        same = steps[:1] if len(set(steps)) == 1 else steps
        rows.append((f"`{name}`", unit, "; from 85 pixels: ".join(sizes), "; ".join(same), sources))
    return table(("change", "unit", "slight, clear, strong", "step of the sweep", "source of the sizes"), rows)


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
    return "\n".join(f"- {cited(name)}" for name in PAPERS)
