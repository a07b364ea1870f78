"""``robustatlas attacks``: the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._help import OUTPUT
from robustatlas.common.attack_labels import CORRUPTION, GROUPS, OTHER, attack_label
from robustatlas.common.typed_strengths import unit_as_typed, value_as_typed

if TYPE_CHECKING:
    from robustatlas.attacks.definition import Attack

_SINGLE = ", by one published attack"


def attacks(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Attack or suite to explain. Without a name all are listed.")
    ] = None,
    plans: Annotated[bool, OUTPUT.flag("--plans", "Show what each search runs, how often and how long.")] = False,
) -> None:
    """List the attacks and suites, or explain one of them.

    What is explained of an attack: its threat model, strengths, unit and source, what it runs, and how the default
    differs from the published attack.

    ```bash
    robustatlas attacks fog --plans
    ```
    """
    from robustatlas.attacks.suites import SUITES
    from robustatlas.threats.imagenet_ua.sizes import LARGE

    console = Console(highlight=False)
    if name is None:
        _list(console)
    elif name in SUITES:
        suite = SUITES[name]
        console.print(f"[bold]{suite.name}[/bold]: {suite.about}.")
        attacks = suite.build("default")
        console.print(_attack_table(attacks))
        if small := [attack.small for attack in attacks if attack.small is not None]:
            console.print(f"On images whose shorter side is below {LARGE} pixels:")
            console.print(_attack_table(small))
    else:
        _explain(console, name, plans)


def _span(attack: Attack) -> str:
    first, last = (value_as_typed(attack.name, attack.strengths[end]) for end in (0, -1))
    return f"{first:.4g} .. {last:.4g} ({len(attack.strengths)})"


def _unit(attack: Attack) -> str:
    """Return the unit of the strengths, and the origin of strengths that were calibrated here."""
    return "; ".join(filter(None, [unit_as_typed(attack.about.unit, attack=attack.name), attack.about.calibrated]))


def _list(console: Console) -> None:
    from robustatlas.attacks.catalogue import catalogue
    from robustatlas.attacks.suites import SUITES

    for family, members in group_by_family(catalogue()).items():
        console.print(f"[bold]{family}[/bold]")
        if family == CORRUPTION:
            names = ", ".join(name.removeprefix("corruption-") for name in members)
            console.print(f"corruption-NAME, at severities 1 to 5: {names}\n")
        else:
            console.print(_attack_table(members.values()))
    console.print("[bold]Suites[/bold]")
    suites = Table("suite", "attacks", box=box.SIMPLE_HEAD, pad_edge=False)
    for suite in SUITES.values():
        suites.add_row(suite.name, suite.about)
    console.print(suites)
    console.print("'robustatlas attacks NAME' explains an attack or a suite.")


def group_by_family(attacks: Mapping[str, Attack]) -> dict[str, dict[str, Attack]]:
    """Return the attacks by the family of their threat model, in the order of reports.

    A published attack by itself, such as ``fab-l2``, stands apart from the attack that its threat model is named after.
    """
    known = {name: attack_label(name).group for name in attacks}
    of_set = {type(attack.threat): known[name] for name, attack in attacks.items() if known[name] != OTHER}
    found: dict[str, dict[str, Attack]] = {}
    for name, attack in attacks.items():
        family = known[name]
        if family == OTHER and type(attack.threat) in of_set:
            family = f"{of_set[type(attack.threat)]}{_SINGLE}"
        found.setdefault(family, {})[name] = attack
    return dict(sorted(found.items(), key=lambda item: GROUPS.index(item[0].removesuffix(_SINGLE))))


def _attack_table(attacks: Iterable[Attack]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("attack", no_wrap=True)
    made.add_column("strengths", no_wrap=True)
    made.add_column("unit")
    for attack in attacks:
        made.add_row(attack.name, _span(attack), _unit(attack))
    return made


def _explain(console: Console, name: str, plans: bool) -> None:
    from robustatlas.attacks.catalogue import attack_named
    from robustatlas.attacks.definition import kinds
    from robustatlas.threats.imagenet_ua.sizes import LARGE

    attack, paper = attack_named(name), attack_named(name, "paper")
    about = (type(attack.threat).__doc__ or "").strip().split("\n\n")[0].replace("``", "")
    console.print(f"[bold]{attack.name}[/bold]: {' '.join(about.split())}")
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_row("strengths", _span(attack))
    if attack.small is not None:
        table.add_row(f"below {LARGE} pixels", _span(attack.small))
    table.add_row("unit", _unit(attack))
    table.add_row("source", attack.about.source)
    nested = "nested" if attack.nested else "not nested"
    clean = "contains the clean input" if attack.contains_clean else "does not contain the clean input"
    table.add_row("threat model", f"{nested}, {clean}")
    for search in attack.searches if plans else attack.searches[:1]:
        default = " (default)" if search == attack.searches[0] else ""
        table.add_row(f"{search}{default}", ", then ".join(kind.__name__ for kind in kinds(attack, search)))
    if not plans:
        table.add_row("others", ", ".join(attack.searches[1:]))
    if attack.about.note:
        table.add_row("difference", attack.about.note)
    console.print(table)
    if plans:
        _plans(console, attack, "")
        if (paper.runs, paper.searches) != (attack.runs, attack.searches):
            _plans(console, paper, " as published")
    else:
        console.print(f"What each search runs: robustatlas attacks {name} --plans. A picture: docs/attacks.md")


def _plans(console: Console, attack: Attack, how: str) -> None:
    """Print a table for each plan: its runs and rules, and how often and how long they run at each effort."""
    from robustatlas.attacks.table import EFFORTS, grouped_rows

    efforts = ("default",) if how else EFFORTS
    for searches, rows in grouped_rows(attack, efforts):
        table = Table(f"{', '.join(searches)}{how}", "", *efforts, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(row.role, row.what, *row.cells)
        console.print(table)
