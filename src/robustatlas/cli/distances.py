"""``robustatlas distances``: the scale of a data set, against which perturbations are large or small."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from robustatlas.cli import _asked, _runs
from robustatlas.cli._help import DATA, OUTPUT, FullHelp
from robustatlas.cli._options import split_names
from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError
from robustatlas.common.files import write_atomically
from robustatlas.metrics import interclass_distances
from robustatlas.metrics.interclass import InterclassDistances, LpNorm


def distances(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Data set: its name, or a `FILE.npz`.")],
    norms: Annotated[
        list[str] | None,
        DATA.option(
            "NAMES", "Norms to measure in: linf, l2, l1, with commas between them. By default all.", "--norm", "-n"
        ),
    ] = None,
    samples: Annotated[int | None, DATA.option("N", "Number of samples: the first ones. By default all.")] = None,
    split: Annotated[str, DATA.option("NAME", "Images to compare: test or train.")] = "test",
    resize: _asked.Resize = None,
    crop: _asked.Crop = None,
    channels: _asked.Channels = None,
    output: Annotated[
        Path | None,
        OUTPUT.option(
            "FILE", "File .npz to write the distance and the nearest sample of each sample to.", "--output", "-o"
        ),
    ] = None,
    explain: _runs.Explain = False,
    help_all: FullHelp = False,
) -> None:
    r"""Print the distances between classes: from each sample to the nearest sample of another class.

    They are the scale to judge strengths by: a perturbation that is longer can turn a sample into one of another class.

    ```bash
    robustatlas distances cifar10 --norm linf,l2
    ```

    Pictures are brought to one size as by `evaluate`:

    ```bash
    robustatlas distances imagefolder:pictures --resize 64 \
        --crop 64
    ```
    """
    from robustatlas.data import load_dataset
    from robustatlas.data.named import Split

    chosen = _parse_norms(split_names(norms, ["linf", "l2", "l1"]))
    _check(samples, split, output)
    which: Split = "train" if split == "train" else "test"
    dataset = load_dataset(data, which, resize=resize, crop=crop, channels=channels)
    images, labels = np.asarray(dataset.rows[:samples]), np.asarray(dataset.labels)[:samples]

    console = Console(highlight=False)
    found: dict[str, InterclassDistances] = {}
    with Progress(console=console, transient=True) as bars:
        for norm in chosen:
            shown = partial(_show_share, bars, bars.add_task(norm, total=1.0))
            found[norm] = interclass_distances(images, labels, norm, shown)
    console.print(_table(f"Distances to another class, {len(images)} samples of {safe(dataset.name)}", found))
    last = found[chosen[-1]]
    _print_broken(console, last.duplicates.tolist(), last.corrupted.tolist(), last.constant.tolist())
    if explain:
        console.print(
            "For every sample the distance to the nearest sample of another class in the same set, pixels in [0, 1]. "
            "Perturbed by less than half of the smallest distance, every sample is still nearer to itself than to any "
            "of another class; perturbations as large as the median distance can turn half of the samples into others."
        )
    if output is not None:
        arrays: dict[str, NDArray[Any]] = {f"{norm}_distance": each.per_sample for norm, each in found.items()}
        arrays |= {f"{norm}_nearest": each.nearest for norm, each in found.items()}
        write_atomically(output, partial(_save, arrays))
        console.print(f"Distances and nearest samples of every sample: {safe(output)}", soft_wrap=True)


def _check(samples: int | None, split: str, output: Path | None) -> None:
    if samples is not None and samples < 2:
        raise UserError(f"--samples is {samples}; at least 2 are needed to have a distance.")
    if split not in ("test", "train"):
        raise UserError(f"--split is {split!r}; give test or train.")
    if output is not None and not output.parent.is_dir():
        raise UserError(f"--output {output}: there is no folder {output.parent}.")


def _table(title: str, found: Mapping[str, InterclassDistances]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for column in ("norm", "smallest", "5 %", "median", "95 %", "largest"):
        first = column == "norm"
        shown.add_column(column, justify="left" if first else "right", style="bold" if first else "")
    for norm, each in found.items():
        quantiles = each.distribution().quantile([0.05, 0.5, 0.95])
        shown.add_row(norm, *(f"{value:.4g}" for value in (each.smallest, *quantiles, each.largest)))
    return shown


def _save(arrays: Any, path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _show_share(bars: Progress, task: TaskID, share: float) -> None:
    bars.update(task, completed=share)


def _parse_norms(given: Sequence[str]) -> list[LpNorm]:
    known: dict[str, LpNorm] = {"linf": "linf", "l2": "l2", "l1": "l1"}
    if not all(norm in known for norm in given):
        raise UserError(
            f"--norm {','.join(given)!r} is not understood; give linf, l2, l1, or several of them with commas."
        )
    return [known[norm] for norm in given]


def _print_broken(console: Console, duplicates: list[list[int]], corrupted: list[int], constant: list[int]) -> None:
    if duplicates:
        console.print(
            f"[yellow]Identical images with different labels[/yellow], passed over, {len(duplicates)} "
            f"pair{'s' * (len(duplicates) > 1)}: {_list_few([f'{first} and {second}' for first, second in duplicates])}"
        )
    if corrupted:
        console.print(
            f"[yellow]Images that are not finite[/yellow], left out, {len(corrupted)}: {_list_few(corrupted)}"
        )
    if constant:
        console.print(f"[yellow]Images of a single value[/yellow], {len(constant)}: {_list_few(constant)}")


def _list_few(items: list[int] | list[str]) -> str:
    return ", ".join(map(str, items[:5])) + (", ..." if len(items) > 5 else "")
