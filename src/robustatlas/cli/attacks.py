"""``robustatlas attacks``: the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from robustatlas.attacks.definition import Attack, Stage


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
        made.add_row(attack.name, _span(attack.strengths), attack.unit)
    return made


def _explain(console: Console, name: str) -> None:
    from robustatlas.attacks.catalogue import attack_named
    from robustatlas.attacks.kinds import kinds

    attack, paper = attack_named(name), attack_named(name, "paper")
    about = (type(attack.threat).__doc__ or "").strip().split("\n\n")[0].replace("``", "")
    console.print(f"[bold]{attack.name}[/bold]: {' '.join(about.split())}", highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_row("strengths", ", ".join(f"{s:.4g}" for s in attack.strengths))
    table.add_row("unit", attack.unit)
    table.add_row("source", attack.source)
    for title, one in (("default", attack), ("paper", paper)):
        nested = "nested" if one.nested else "not nested"
        clean = "contains the clean input" if one.contains_clean else "does not contain the clean input"
        table.add_row(f"{title} set", f"{nested}, {clean}")
    for search in attack.valid_searches:
        default = " (default)" if search == attack.valid_searches[0] else ""
        table.add_row(f"{search}{default}", ", then ".join(kind.__name__ for kind in kinds(attack, search)))
    for step, stages in (
        ("at one strength", attack.stages),
        ("as published", paper.stages if paper.stages != attack.stages else ()),
        ("descent: bound", attack.bound),
        ("descent: below it", attack.descent),
        ("descent: at last", (*attack.closing, *attack.polish)),
        ("minimum: bound", attack.minimum),
    ):
        if stages:
            table.add_row(step, _stages(stages))
    if attack.note:
        table.add_row("difference", attack.note)
    console.print(table)


def _stages(stages: Sequence[Stage]) -> str:
    return "; ".join(_stage(stage) for stage in stages)


def _stage(stage: Stage) -> str:
    steps = getattr(stage.optimizer, "steps", None)
    number = f", {steps} steps" if steps else ""
    rate = getattr(stage.optimizer, "rate", None)
    number += f" of rate {rate:.3g}" if rate else ""
    targets = f", {stage.targets} targets" if stage.targets and stage.targets != 1 else ""
    first = ", nearest class" if stage.targets == 1 else ""
    last = ", last iterate" if stage.judge == "last" else ""
    return f"{type(stage.optimizer).__name__}{number} on {stage.objective}{targets}{first}{_begun(stage)}{last}"


def _begun(stage: Stage) -> str:
    """Where its runs begin, and how many of them."""
    if stage.kick:
        return f", {stage.restarts} hops from the smallest example"
    if stage.start == "missed":
        return ", from the nearest miss"
    if stage.start == "best" and stage.optimizer.minimum_size:
        return ", from the smallest example"
    return f", {stage.restarts} starts" if stage.restarts != 1 else ""
