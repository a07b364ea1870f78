"""The options that name a model and data, the same in every command that has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robustatlas.cli._options import parse_statistic
from robustatlas.cli._terminal import safe
from robustatlas.errors import UserError

if TYPE_CHECKING:
    from robustatlas.classifier import Classifier, Precision
    from robustatlas.datasets import Dataset

Model = Annotated[
    str,
    typer.Argument(
        help="`path/file.py:function`, `package.module:function`, or a name behind `builtin:`, `timm:`, "
        "`torchvision:`, `hf:`, `robustbench:`, `onnx:`, `export:` or `trained:`."
    ),
]
Data = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="digits, mnist, cifar10, ..., a file.npz (images, labels), imagefolder:FOLDER, hf:FOLDER.",
        show_default=False,
    ),
]
Weights = Annotated[Path | None, typer.Option(metavar="FILE", help="Weights: .safetensors, or .pt of plain tensors.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="What MODEL's function is called with: `bits=3`. Repeatable."),
]
Mean = Annotated[
    str | None, typer.Option(metavar="NUMBERS", help="Normalisation: one number, or one per channel with commas.")
]
Std = Annotated[str | None, typer.Option(metavar="NUMBERS", help="Likewise, what the difference is divided by.")]
Device = Annotated[
    str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps; default: cuda where there is one.")
]


def data_for(model: Classifier, name: str, resize: int | None = None, crop: int | None = None) -> Dataset:
    """The data set of that name; pictures in folders have the size that is given, or else the one ``model`` states."""
    from robustatlas.datasets import load_dataset
    from robustatlas.models.resizing import Resizing

    stated = model.prepare
    if name.startswith(("imagefolder:", "hf:")) and resize is None and crop is None and isinstance(stated, Resizing):
        side = stated.crop or stated.resize
        if isinstance(stated.resize, int) and isinstance(side, tuple) and side[0] == side[1]:
            resize, crop = stated.resize, side[0]
    return load_dataset(name, resize=resize, crop=crop)


def loaded(
    model: str,
    weights: Path | None,
    settings: list[str] | None,
    mean: str | None,
    std: str | None,
    device: str | None,
    precision: Precision | None = None,
    name: str | None = None,
    compiled: bool = False,
) -> Classifier:
    """The model that the options name; what was done to make it fit is said on standard error."""
    import torch

    from robustatlas.classifier import Classifier
    from robustatlas.models import load_model, parse_settings

    if name is not None and not name.strip():
        raise UserError("--name is empty; give the model a name, or leave the option out.")
    classifier = load_model(
        model,
        weights,
        mean=parse_statistic(mean, "--mean"),
        std=parse_statistic(std, "--std"),
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
        precision=precision,
        name=name,
        arguments=parse_settings(settings or []),
    )
    for note in classifier.notes:
        Console(stderr=True).print(safe(note), highlight=False, soft_wrap=True)
    return Classifier(classifier, compiled=True) if compiled else classifier
