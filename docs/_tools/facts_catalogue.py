"""Facts that are read from the catalogue: what runs, what to cite, which suites and searches there are."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from facts_attacks import SEEN
from facts_stored import NORMS, Row, table

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.everyday import everyday_suite
from robustatlas.attacks.search.descent import Descent, Minimum
from robustatlas.attacks.search.rules import Rule, StopFruitless
from robustatlas.attacks.suites import SUITES
from robustatlas.attacks.table import settings
from robustatlas.common.papers import papers
from robustatlas.common.typed_strengths import format_strength, unit_as_typed
from robustatlas.optimizers import OPTIMIZERS
from robustatlas.report.citing import HOPPING, methods_and_papers, title_and_paper


def search_words(attack: Attack, search: Search | None = None) -> str:
    return ", ".join(name for name, _ in methods_and_papers(attack, search))


def merge_equal(texts: dict[str, str]) -> list[tuple[str, str]]:
    """Return each text once, with the names that have it."""
    together: dict[str, list[str]] = {}
    for name, words in texts.items():
        together.setdefault(words, []).append(name)
    return [(words, "`, `".join(names)) for words, names in together.items()]


def group_equal_rows(attacks: Iterable[Attack], key: Callable[[Attack], Row]) -> list[Row]:
    """Return a row for each different key, which begins with the names of the attacks that share it."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for attack in attacks:
        groups.setdefault(tuple(key(attack)), []).append(f"`{attack.name}`")
    return [(" ".join(names), *values) for values, names in groups.items()]


def table_attacks() -> list[Attack]:
    """Return the catalogue with one attack for all common corruptions."""
    corruptions = [attack for name, attack in catalogue().items() if name.startswith("corruption-")]
    others = [attack for name, attack in catalogue().items() if not name.startswith("corruption-")]
    return [*others, *corruptions[:1]]


def _name_corruptions_once(markdown: str) -> str:
    """Return the table with one name for all corruptions, of which it shows the first."""
    return re.sub(r"`corruption-[a-z0-9-]+`", "`corruption-NAME`", markdown)


def lp_default() -> str:
    """Return the runs of the default search of each norm, in words."""
    found = merge_equal({norm: search_words(catalogue()[norm]) for norm in NORMS})
    return "; ".join(f"`{names}`: {words}" for words, names in found)


def optimizers_table() -> str:
    """Return the optimizers, each with the paper to cite for it."""
    named = dict.fromkeys([*map(title_and_paper, OPTIMIZERS.values()), HOPPING])
    return table(("what runs", "paper"), [(name, paper or "this package") for name, paper in named])


def rules_table() -> str:
    """Return the rules of a plan with their usual constants and reasons: those of searches, then those of attacks."""
    usual: dict[type[Rule], Rule] = {type(rule): rule for rule in (*Minimum.rules, *Descent.rules)}
    for attack in catalogue().values():
        for rule in attack.rules:
            usual.setdefault(type(rule), rule)
    rows = [(f"`{settings(rule, always=True)}`", kind.reason, kind.source) for kind, rule in usual.items()]
    return table(("rule", "why", "source"), rows)


def plans_table() -> str:
    """Return the runs of a descent with their constants: runs x steps of each role, and how far restarts move."""
    roles = {"bound": "bounds", "restart": "restarts", "ascend": "ascents"}

    def runs(attack: Attack) -> Row:
        plan = attack.plan("descent")
        found: dict[str, list[str]] = {role: [] for role in roles}
        for run in plan.runs:
            moved = f" moved {run.kick:g}" if run.kick else ""
            if run.role in found:
                found[run.role].append(f"{run.count} x {run.optimizer.steps}{moved}")
        patience = [rule for rule in plan.rules if isinstance(rule, StopFruitless)]
        cells = (
            ", ".join(f"{n} of {each}" if n > 1 else each for each, n in Counter(found[role]).items()) for role in roles
        )
        return *cells, f"{patience[0].patience}, {patience[0].stubborn}" if patience else ""

    descended = [attack for attack in table_attacks() if attack.name in SEEN and "descent" in attack.searches]
    return table(("attacks", *roles.values(), "patience"), group_equal_rows(descended, runs))


def everyday_table() -> str:
    """Return the everyday changes with the three sizes of their suite, below 85 pixels and from there on, and the steps
    of their sweeps."""
    rows = []
    for large in everyday_suite("default"):
        name, small = large.name, large.small or large
        sizes = [
            ", ".join(format_strength(at, attack=name) for at in each.strengths)
            for each in dict.fromkeys((small, large))
        ]
        steps = [f"{each.runs[0].optimizer.spacing:g}" for each in dict.fromkeys((small, large))]
        sources = "; from 85 pixels: ".join(each.about.source for each in dict.fromkeys((small, large)))
        unit = unit_as_typed(large.about.unit, attack=name)
        same = steps[:1] if len(set(steps)) == 1 else steps
        sources = sources.replace(": people still recognise what they see", "").replace(
            "; smaller ones chosen here", ""
        )
        rows.append((f"`{name}`", unit, "; from 85 pixels: ".join(sizes), "; ".join(same), sources))
    return table(("change", "unit", "slight, clear, strong", "step of the sweep", "source of the sizes"), rows)


def suites_table() -> str:
    """Return the suites with the number of attacks in each."""
    rows = [(f"`{suite.name}`", suite.about, len(suite.build("default"))) for suite in SUITES.values()]
    return table(("suite", "what it is", "attacks"), rows, 1)


def searches_table() -> str:
    """Return the valid searches of each attack, the default first."""
    rows = group_equal_rows(table_attacks(), lambda a: (" ".join(f"`{search}`" for search in a.searches),))
    return _name_corruptions_once(table(("attack", "searches, the default first"), rows))


def papers_list() -> str:
    return ",\n".join(f"[{name}]({paper.url})" for name, paper in papers().items()) + "."
