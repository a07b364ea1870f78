"""The options that name a model and data, the same in every command that has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robustatlas.cli._help import COMPUTE, DATA, MODEL
from robustatlas.cli._options import parse_statistic
from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError
from robustatlas.common.wording import join_words, list_names
from robustatlas.models.schemes import SCHEMES

if TYPE_CHECKING:
    from robustatlas.data import Dataset
    from robustatlas.models.classifier import Classifier, Precision

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Source of the model: `path/file.py:function`, `package.module:function`, or a name after one of "
        f"{join_words([f'`{scheme}:`' for scheme in SCHEMES])}.",
    ),
]
Data = Annotated[
    str,
    DATA.option(
        "NAME",
        "Data set: digits, mnist, fashion-mnist, cifar10 and others by name, a `FILE.npz` with images and labels, "
        "`imagefolder:FOLDER` or `hf:FOLDER`.",
        show_default=False,
    ),
]
Weights = Annotated[Path | None, MODEL.option("FILE", "File of weights: .safetensors, or .pt that holds tensors only.")]
Settings = Annotated[
    list[str] | None,
    MODEL.option(
        "NAME=VALUE",
        "An argument for the function that makes the model, such as `bits=3`. May be given several times.",
        "--set",
        hidden=True,
    ),
]
Mean = Annotated[
    str | None,
    MODEL.option(
        "NUMBERS",
        "Normalisation: the mean, which is subtracted from the pixel values in [0, 1]. One number, or one for "
        "each channel, with commas between them.",
    ),
]
Std = Annotated[
    str | None,
    MODEL.option(
        "NUMBERS",
        "Normalisation: the standard deviation, by which pixel values are divided after the mean is subtracted. "
        "One number, or one for each channel, with commas between them.",
    ),
]
Classes = Annotated[
    Path | None,
    MODEL.option(
        "FILE",
        "Names of the classes, one a line in the order of the model's outputs: they number pictures in folders, "
        "and models behind `hf-clip:` and `open_clip:` need them.",
        hidden=True,
    ),
]
Prompt = Annotated[
    list[str] | None,
    MODEL.option(
        "TEXT",
        "What a name of a class stands in, as `{}`; the features of several are averaged. By default `a photo of "
        "a {}`.",
        hidden=True,
    ),
]
Device = Annotated[
    str | None,
    COMPUTE.option(
        "NAME",
        "Device that computes: cpu, cuda, cuda:1, mps. By default the first CUDA GPU where there is one, else the "
        "processor.",
    ),
]


_NONE: Mapping[str, Any] = MappingProxyType({})


def zero_shot(model: str, classes: Path | None, prompt: list[str] | None) -> dict[str, Any]:
    """Return the arguments for the source of a model without weights for the classes; nothing for other models.

    Example:
        >>> zero_shot("hf-clip:net", Path("names.txt"), ["a {}"])
        {'classes': 'names.txt', 'prompt': ['a {}']}
    """
    if model.partition(":")[0] not in ("hf-clip", "open_clip"):
        if prompt:
            raise UserError(f"--prompt is for models behind hf-clip: and open_clip:, and {model!r} is none.")
        return {}
    arguments = {"classes": None if classes is None else str(classes), "prompt": prompt or None}
    return {name: value for name, value in arguments.items() if value is not None}


def has_pictures(data: str | None) -> bool:
    """Return True if a data set of this name holds pictures, which become images of the model's size."""
    return data is not None and data.startswith(("imagefolder:", "hf:"))


def load_data(
    model: Classifier | None, name: str, resize: int | None = None, crop: int | None = None, channels: int | None = None
) -> Dataset:
    """Return the data set of a name.

    Pictures in folders get the size and channels that are given, or else those of ``model`` (None: not known). Their
    classes have the order of the model's names, if it has any.
    """
    from robustatlas.data import load_dataset

    kind = name.partition(":")[0]
    if model is None or not has_pictures(name):
        return load_dataset(name, resize=resize, crop=crop, channels=channels)
    if resize is None and crop is None:
        resize, crop = _stated_size(model)
    channels = _stated_channels(model) if channels is None else channels
    classes = _stated_classes(model, Path(name.partition(":")[2])) if kind == "imagefolder" else None
    return load_dataset(name, resize=resize, crop=crop, channels=channels, classes=classes)


def _stated_size(model: Classifier) -> tuple[int | None, int | None]:
    """Return the sizes to which the preprocessing of a model resizes and crops pictures."""
    from robustatlas.models.resizing import Resizing

    stated = model.prepare
    if isinstance(stated, Resizing) and isinstance(stated.resize, int):
        side = stated.resize if stated.crop is None else stated.crop
        if isinstance(side, tuple) and side[0] == side[1]:
            return stated.resize, side[0]
    return None, None


def _stated_channels(model: Classifier) -> int | None:
    from robustatlas.models.classifier.network import input_channels
    from robustatlas.models.resizing import Resizing

    if model.prepare is not None and not isinstance(model.prepare, Resizing):
        return None
    taken = input_channels(model.net)
    return taken if taken in (1, 3) else None


def _stated_classes(model: Classifier, folder: Path) -> tuple[str, ...] | int | None:
    """The names of a model's classes, where class folders have such; else how many there are."""
    from robustatlas.common.errors import warn
    from robustatlas.data.folders import folder_names
    from robustatlas.models.classifier.columns import class_names

    names = class_names(model.classes)
    if not names or len(set(names)) < len(names):
        return model.class_count
    if not set(names) & set(folder_names(folder)):
        warn(
            f"No folder of {folder} has the name of a class of the model ({list_names(names)}), so the order of the "
            "folders' "
            "own names counts."
        )
        return model.class_count
    return names


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
    asked: Mapping[str, Any] = _NONE,
    draws: int | None = None,
    classes: Path | None = None,
) -> Classifier:
    """Load the model that the options name, and print on standard error what was done to make it fit.

    ``asked``: arguments of the source, as :func:`zero_shot` returns them. ``classes``:
    a file of the names of its classes, if ``asked`` does not have them."""
    import torch

    from robustatlas.models.classifier import Classifier
    from robustatlas.models.loading import load_model
    from robustatlas.models.settings import parse_settings
    from robustatlas.models.sources.clip import class_names

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
        arguments=parse_settings(settings or []) | dict(asked),
    )
    for note in classifier.notes:
        Console(stderr=True, highlight=False).print(safe(note), soft_wrap=True)
    names = None if classes is None or "classes" in asked else class_names(classes, model)
    if not compiled and draws is None and names is None:
        return classifier
    return Classifier(classifier, compiled=compiled or None, draws=draws, classes=names)
