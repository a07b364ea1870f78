"""What an evaluation would take, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType

from robustatlas.cli._terminal import safe, table
from robustatlas.common.wording import counted, duration, volume

if TYPE_CHECKING:
    from robustatlas.evaluation import Forecast
    from robustatlas.evaluation.request import Request


def print_forecast(model: Any, data: Any, request: Request) -> None:
    from robustatlas.evaluation.forecast import forecasted

    Console(highlight=False).print(forecast_table(forecasted(model, data, request, budget=5.0), f"{model.device}"))


def forecast_table(forecast: Forecast, device: str) -> RenderableType:
    if not forecast.expected:
        return "Nothing to do: the run has all of it."
    counted_passes = forecast.passes > 0  # certificates make none
    shown = table("attack", "samples", *["passes a sample"] * counted_passes, "time", "disk")
    for each in forecast.expected:
        most = "up to " if each.bounded else ""
        shown.add_row(
            safe(each.attack),
            f"{each.samples:,}",
            *[f"{most}{each.passes:,.0f}"] * counted_passes,
            f"{most}{duration(each.seconds / forecast.workers)}",
            volume(each.bytes),
        )
    shared = f" shared by {counted(forecast.workers, 'worker')}" if forecast.workers > 1 else ""
    most = "at most " if any(each.bounded for each in forecast.expected) else "about "
    passes = f", {forecast.passes:,.0f} passes" * counted_passes
    total = (
        f"In all {most}{duration(forecast.seconds)} on {safe(device)}{shared}{passes}, "
        f"{volume(forecast.bytes)} on disk; {counted(forecast.batch_size, 'sample')} at work at once."
    )
    if forecast.memory is None:
        return Group(shown, total)
    several = f" in each process, {volume(forecast.workers * forecast.memory)} in all" if forecast.workers > 1 else ""
    return Group(shown, total, f"Memory: about {volume(forecast.memory)}{several}.")
