"""Table of the forecast of a request, the same for evaluations, certificates, fields and studies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from robustatlas.cli._terminal import safe, table
from robustatlas.common.wording import counted, duration, some, volume

if TYPE_CHECKING:
    from robustatlas.evaluation import Forecast


def print_forecast(forecast: Forecast, rows: str, number: str, device: str, price: float | None = None) -> None:
    """Print a forecast.

    Args:
        forecast: what is expected.
        rows: what a row is of, such as "attack".
        number: what a row counts, such as "samples".
        device: where it would be computed.
        price: of an hour.
    """
    console = Console(highlight=False)
    if not forecast.expected:
        console.print("Nothing to do: all of it is there.")
        return
    has_passes = forecast.passes > 0  # certificates make none
    shown = table(rows, number, *["passes"] * has_passes, "time", "disk")
    for each in forecast.expected:
        at_most = "up to " if each.is_upper_bound else ""
        seconds = f"{at_most}{duration(each.seconds / forecast.workers)}"
        known = [*[f"{each.passes:,.0f}"] * has_passes, seconds, volume(each.bytes)]
        shown.add_row(safe(each.name), f"{each.number:,}", *(["not known"] * len(known) if each.unknown else known))
    console.print(shown)
    for why in dict.fromkeys(each.unknown for each in forecast.expected if each.unknown):
        names = [each.name for each in forecast.expected if each.unknown == why]
        console.print(f"Not known of {safe(some(names, at_most=3))}: {safe(why)}", soft_wrap=True)
    console.print(_summary(forecast, device, price), soft_wrap=True)


def _summary(forecast: Forecast, device: str, price: float | None) -> str:
    about = "at most" if forecast.is_upper_bound else "about"
    known = ", of what is known," if any(each.unknown for each in forecast.expected) else ""
    shared = f" shared by {counted(forecast.workers, 'worker')}" if forecast.workers > 1 else ""
    cost = "" if price is None else f", {price * forecast.seconds / 3600:,.2f} at {price:g} an hour"
    passes = f"{forecast.passes:,.0f} passes, " if forecast.passes else ""
    at_once = "" if forecast.batch_size is None else f"; {counted(forecast.batch_size, 'sample')} at work at once"
    total = (
        f"In all{known} {about} {duration(forecast.seconds)} on {safe(device)}{shared}{cost}: {passes}"
        f"{volume(forecast.bytes)} on disk{at_once}."
    )
    if forecast.memory is None:
        return total
    several = f" in each process, {volume(forecast.workers * forecast.memory)} in all" if forecast.workers > 1 else ""
    return f"{total}\nMemory: about {volume(forecast.memory)}{several}."
