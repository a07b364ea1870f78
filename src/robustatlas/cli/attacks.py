"""``robustatlas attacks``: the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from robustatlas.attacks.definition import Attack


def attacks(
    name: Annotated[str | None, typer.Argument(help="An attack or a suite; without it: all.")] = None,
) -> None:
    """List the attacks and suites, or explain one: its set, strengths, unit, source, and how the default differs from
    the historical attack.

    robustatlas attacks fog
    """
    from robustatlas.attacks.suites import SUITES

    console = Console()
    if name is None:
        _list(console)
    elif name in SUITES:
        suite = SUITES[name]
        console.print(f"[bold]{suite.name}[/bold]: {suite.about}.")
        console.print(_table_of(suite.build("default")))
    else:
        _explain(console, name)


def _span(strengths: tuple[float, ...]) -> str:
    return f"{strengths[0]:.4g} .. {strengths[-1]:.4g} ({len(strengths)})"


def _list(console: Console) -> None:
    from robustatlas.attacks.catalogue import catalogue
    from robustatlas.attacks.suites import SUITES

    prefix = "corruption-"
    console.print(_table_of(attack for name, attack in catalogue().items() if not name.startswith(prefix)))
    if corruptions := [name.removeprefix(prefix) for name in catalogue() if name.startswith(prefix)]:
        console.print(f"corruption-NAME, severities 1 to 5: {', '.join(corruptions)}", highlight=False)
    suites = Table("suite", "about", box=box.SIMPLE_HEAD, pad_edge=False)
    for suite in SUITES.values():
        suites.add_row(suite.name, suite.about)
    console.print(suites)


def _table_of(attacks: Iterable[Attack]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    made.add_column("attack", no_wrap=True)
    made.add_column("strengths", no_wrap=True)
    made.add_column("unit")
    for attack in attacks:
        made.add_row(attack.name, _span(attack.strengths), attack.about.unit)
    return made


def _explain(console: Console, name: str) -> None:
    from robustatlas.attacks.catalogue import attack_named

    attack, paper = attack_named(name), attack_named(name, "paper")
    about = (type(attack.threat).__doc__ or "").strip().split("\n\n")[0].replace("``", "")
    console.print(f"[bold]{attack.name}[/bold]: {' '.join(about.split())}", highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_row("strengths", ", ".join(f"{s:.4g}" for s in attack.strengths))
    table.add_row("unit", attack.about.unit)
    table.add_row("source", attack.about.source)
    for title, one in (("default", attack), ("paper", paper)):
        nested = "nested" if one.nested else "not nested"
        clean = "contains the clean input" if one.contains_clean else "does not contain the clean input"
        table.add_row(f"{title} set", f"{nested}, {clean}")
        table.add_row(f"{title} searches", ", ".join(one.searches))
    if attack.about.note:
        table.add_row("difference", attack.about.note)
    console.print(table)
    _plans(console, attack, "")
    if paper.plans != attack.plans:
        _plans(console, paper, " as published")


def _plans(console: Console, attack: Attack, how: str) -> None:
    """A table for each plan: legs and rules, and how often and how long they run at each effort."""
    from robustatlas.attacks.table import EFFORTS, together

    efforts = ("default",) if how else EFFORTS
    for searches, rows in together(attack, efforts):
        table = Table(f"{', '.join(searches)}{how}", "", *efforts, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(row.role, row.what, *row.cells)
        console.print(table)
