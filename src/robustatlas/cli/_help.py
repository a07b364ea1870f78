"""Panels of options in the help of commands, and the class of commands with rare options."""

from collections import Counter
from copy import copy
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from robustatlas.common.files import parse_path


class HelpPanel(str):
    """Title of a panel in the help, which makes the options that the panel shows."""

    def option(self, metavar: str, about: str, *names: str, **settings: Any) -> Any:
        """Return an option with a value. Without `names`, the option is called like its parameter."""
        return typer.Option(*names, metavar=metavar, help=about, rich_help_panel=self, **settings)

    def flag(self, name: str, about: str, *names: str, **settings: Any) -> Any:
        """Return an option without a value."""
        return typer.Option(name, *names, metavar="", help=about, rich_help_panel=self, **settings)


MODEL = HelpPanel("Model")
DATA = HelpPanel("Data")
SAMPLES = HelpPanel("Samples")
ATTACKS = HelpPanel("Attacks")
TRAINING = HelpPanel("Training")
REFERENCE = HelpPanel("Reference")
OUTPUT = HelpPanel("Output")
COMPUTE = HelpPanel("Compute")
DISTRIBUTED = HelpPanel("Distributed")
GENERAL = HelpPanel("Options")

MEASURE = "Measure"
LOOK = "Look at results"
TRAIN = "Train and calibrate"


def _print_full_help(ctx: typer.Context, requested: bool) -> None:
    if requested:
        full = copy(ctx.command)
        full.params = [copy(parameter) for parameter in ctx.command.params]
        for parameter in full.params:
            parameter.hidden = False  # type: ignore[attr-defined]  # Click's base class of parameters has no `hidden`
        typer.echo(full.get_help(ctx))
        raise typer.Exit


FullHelp = Annotated[
    bool,
    GENERAL.flag(
        "--help-all",
        "Show every option and exit; `--help` shows those that most people use.",
        is_eager=True,
        expose_value=False,
        callback=_print_full_help,
    ),
]
"""Option of each command that has hidden options."""


class Command(TyperCommand):
    """Command that refuses a single value given twice, and expands `~` in each path."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Click keeps the last value of an option and drops the others silently.
        _, _, typed = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(typed).items():
            if count > 1 and isinstance(parameter, TyperOption) and not (parameter.is_flag or parameter.multiple):
                ctx.fail(f"{parameter.opts[0]} is given {count} times; give it once.")
        rest = super().parse_args(ctx, args)
        ctx.params = {name: _expand_home(value) for name, value in ctx.params.items()}
        return rest


def _expand_home(value: Any) -> Any:
    """Expand `~` in a path or in each path of a list. Return other values unchanged."""
    if isinstance(value, list):
        return [_expand_home(each) for each in value]
    return parse_path(value) if isinstance(value, Path) else value
