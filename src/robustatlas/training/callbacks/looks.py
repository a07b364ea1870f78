"""Results of evaluating a network during its training, and their figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.metrics.intervals import Interval
from robustatlas.report.numbers.number import CLEAN as CLEAN_ACCURACY
from robustatlas.report.numbers.statistics import intervals, mean_label, measures_of, statistics_of
from robustatlas.results.result import Result, load_result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FOLDER = re.compile(r"epoch-(\d+)-[0-9a-f]+")
CLEAN = "clean"


@dataclass(frozen=True)
class Look:
    """Evaluation of a network after an epoch of its training.

    Attributes:
        epoch: number of epochs that it was trained for.
        samples: number of images of the evaluation.
        clean: accuracy on them, in percent.
        robust: attack -> robust accuracy in percent, the mean over the strengths of the attack.
        run: the run directory, which can be shown, reported and compared like any other.

    Example:
        >>> Look(1, 64, Interval(90.0, 80.2, 96.0, 0.95), {}, Path("runs")).numbers()["robustness/clean_high"]
        96.0
    """

    epoch: int
    samples: int
    clean: Interval
    robust: Mapping[str, Interval]
    run: Path

    @classmethod
    def from_result(cls, result: Result, epoch: int, run: Path) -> Look:
        """Return the look for the result of an evaluation."""
        judged = [name for name in result.attacks if result.outcome(name).is_judged]
        table = result.restrict_distances({name: result.distances(name).tolist() for name in judged})
        found = intervals(statistics_of(measures_of(table)))
        robust = {name: found[mean_label(name)] for name in table.attacks}
        return cls(epoch, result.samples, found[CLEAN_ACCURACY], robust, run)

    def numbers(self) -> dict[str, float]:
        """Return each number in percent with both ends of its interval, for the logger of a trainer."""
        ends = {CLEAN: self.clean, **self.robust}
        return {
            f"robustness/{name}{end}": value
            for name, interval in ends.items()
            for end, value in (("", interval.value), ("_low", interval.low), ("_high", interval.high))
        }


def run_folder_name(epoch: int, weights: str) -> str:
    """Return the name of the run directory of a network with these weights (a SHA-256) after an epoch."""
    return f"epoch-{epoch:05d}-{weights[:8]}"


def read_looks(folder: str | Path) -> list[Look]:
    """Return all looks of a training in the order of the epochs.

    Args:
        folder: the argument ``folder`` of the callback.

    Returns:
        the looks; an epoch that was trained twice with different outcomes has two.

    Raises:
        UserError: the folder contains no look.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> net, data = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)), ra.load_dataset("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.callbacks.watch(data, "pgd-linf", samples=4, share=None, folder=folder)(net, 1)
        ...     [(look.epoch, look.samples) for look in read_looks(folder)]
        [(1, 4)]
    """
    place = parse_path(folder)
    runs = sorted(run for run in place.glob("epoch-*") if _FOLDER.fullmatch(run.name) and (run / "run.json").is_file())
    if not runs:
        raise UserError(f"{place} holds no run of a callback; give the folder that the callback was given.")
    return [Look.from_result(load_result(run), int(run.name.split("-")[1]), run) for run in runs]


def plot_looks(looks: str | Path | Sequence[Look], ax: Axes | None = None) -> Axes:
    """Draw robust accuracy over the epochs of a training, by attack, with intervals at 95 %.

    Args:
        looks: of one training, or the folder that holds them.
        ax: where to draw; a new figure, 3.3 inches wide, when None.

    Returns:
        the axes, whose ``.figure`` can be saved.

    Raises:
        UserError: there is nothing to draw.

    Example:
        >>> found = Interval(50.0, 40.0, 60.0, 0.95)
        >>> axes = plot_looks([Look(epoch, 64, found, {"linf": found}, Path("runs")) for epoch in (1, 2)])
        >>> axes.get_xlabel(), [line.get_label() for line in axes.get_lines()]
        ('epoch', ['clean', 'L∞'])
    """
    from robustatlas.metrics.figures import plot_over_epochs

    found = read_looks(looks) if isinstance(looks, (str, Path)) else list(looks)
    if not found:
        raise UserError("There is no look at the network to draw; give a longer training, or a larger share of it.")
    names = dict.fromkeys(name for look in found for name in look.robust)
    lines = {CLEAN: [(look.epoch, look.clean) for look in found]}
    lines |= {
        attack_label(name).label: [(look.epoch, look.robust[name]) for look in found if name in look.robust]
        for name in names
    }
    drawn = {
        name: np.array([(epoch, value.value, value.low, value.high) for epoch, value in points])
        for name, points in lines.items()
    }
    return plot_over_epochs(drawn, ax)


def save_plot(looks: Sequence[Look], path: Path) -> None:
    """Write the figure of :func:`plot_looks` to a file."""
    from matplotlib import pyplot as plt

    figure = plot_looks(looks).get_figure(root=True)
    if figure is not None:
        figure.savefig(path, dpi=200)
        plt.close(figure)
