"""``hf:NAME`` and ``hf:FOLDER``: image classifiers of Hugging Face's transformers, with their own preprocessing."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.classifier.columns import Classes
from robustatlas.models.resizing import Resizing
from robustatlas.models.sources.packages import optional, unreachable, version_of

_INTERPOLATIONS = {0: "nearest", 1: "bicubic", 2: "bilinear", 3: "bicubic"}  # Pillow's numbers; 1 is Lanczos
_FINDS = "AutoModelForImageClassification"


def huggingface_model(name: str, *, pretrained: bool = True, **settings: Any) -> Classifier:
    """An image classifier of transformers. Weights are read from safetensors only, and no code of the repository runs.

    Args:
        name: a folder that ``save_pretrained`` wrote, or a repository of the hub, from the cache or fetched.
        pretrained: with its weights; otherwise random ones of the same architecture.
        settings: of its configuration, such as ``num_labels=10``.
    """
    source = f"hf:{name}"
    transformers = optional("transformers", source, "transformers")
    try:
        finder = getattr(transformers, _FINDS)
    except ImportError as error:
        optional("torchvision", source, "transformers")  # what its import fails with where it does not fit torch
        raise UserError(f"{source} needs {_FINDS}, which this transformers cannot import ({error}).") from error
    config, local = configuration_of(transformers, name, settings)
    try:
        if pretrained:
            net = finder.from_pretrained(name, config=config, use_safetensors=True, trust_remote_code=False, **local)
        else:
            net = finder.from_config(config, trust_remote_code=False)
    except OSError as error:
        raise unreachable(source, "Hugging Face", error) from error
    except ValueError as error:
        raise UserError(f"{source} is not an image classifier of transformers: {first_of(error)}.") from error
    about = preprocessor_of(transformers, name, local)
    mean, std = normalisation_of(about, source)
    return Classifier(
        net,
        mean,
        std,
        prepare=resizing_of(about),
        classes=_classes_of(net.config),
        origin=Origin(
            source,
            licence=licence_of(transformers, name, local),
            home=str(Path(name).resolve()) if Path(name).is_dir() else f"https://huggingface.co/{name}",
            library=version_of("transformers"),
            notes=() if about else (f"{source} says nothing of its preprocessing: images go in as they are.",),
        ),
    )


def _classes_of(config: Any) -> Classes:
    """The names that a configuration gives its classes, or how many they are where it has made them up."""
    names = [str(name) for _, name in sorted(config.id2label.items())]
    made_up = all(name == f"LABEL_{number}" for number, name in enumerate(names))
    return (len(names) if made_up else names) if len(names) > 1 else None


def configuration_of(transformers: ModuleType, name: str, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The configuration of a model with ``settings``, and how to ask for its other files: here or at the hub."""
    local = {"local_files_only": True}
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise UserError(f"The folder {name} holds no model of transformers (no config.json).")
    try:
        return transformers.AutoConfig.from_pretrained(name, **local, **settings), local
    except (OSError, ValueError) as error:
        if Path(name).is_dir():
            raise UserError(f"The folder {name} holds no model of transformers ({first_of(error)}).") from error
    try:
        return transformers.AutoConfig.from_pretrained(name, **settings), {}
    except (OSError, ValueError) as error:
        raise unreachable(f"hf:{name}", "Hugging Face", error) from error


def preprocessor_of(transformers: ModuleType, name: str, local: Mapping[str, Any]) -> dict[str, Any]:
    """What ``preprocessor_config.json`` says; its class is not made, because that may need torchvision."""
    text = _text_of(transformers, name, "preprocessor_config.json", local)
    return dict(json.loads(text)) if text else {}


def _text_of(transformers: ModuleType, name: str, file: str, local: Mapping[str, Any]) -> str:
    path = transformers.utils.cached_file(
        name,
        file,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        _raise_exceptions_for_gated_repo=False,
        **local,
    )
    return Path(path).read_text(encoding="utf-8") if path else ""


def licence_of(transformers: ModuleType, name: str, local: Mapping[str, Any]) -> str | None:
    """What the card of the repository says."""
    found = re.search(r"^license:\s*(\S+)", _text_of(transformers, name, "README.md", local), re.MULTILINE)
    return found[1].strip("\"'") if found else None


def normalisation_of(about: Mapping[str, Any], source: str) -> tuple[Any, Any]:
    """The mean and deviation for pixels in [0, 1]."""
    scale = 255 * about.get("rescale_factor", 1 / 255) if about.get("do_rescale", True) else 255.0
    shift = 1.0 if about.get("rescale_offset") or about.get("offset") else 0.0  # pixels from -1 to 1
    normalise = about.get("do_normalize", "image_mean" in about)
    mean, std = (about.get("image_mean"), about.get("image_std")) if normalise else (None, None)
    if abs(scale - 1) < 1e-6 and not shift:
        return mean, std
    if mean is not None and (not isinstance(mean, (list, tuple)) or not isinstance(std, (list, tuple))):
        raise UserError(f"The preprocessing of {source} gives mean={mean}, std={std}; expected one number per channel.")
    means, stds = mean or [0.0], std or [1.0]
    values = [(m + shift) / scale for m in means], [s / scale for s in stds]
    return values if mean is not None else (values[0][0], values[1][0])


def resizing_of(about: Mapping[str, Any]) -> Resizing | None:
    """What the preprocessor does to the size of images."""
    crop = _sides(about.get("crop_size")) if about.get("do_center_crop") else None
    if not about.get("do_resize", "size" in about):
        return Resizing(crop, crop) if crop else None
    interpolation = _INTERPOLATIONS.get(about.get("resample", 2), "bilinear")
    size = about.get("size")
    if isinstance(size, Mapping) and "shortest_edge" in size:
        share = about.get("crop_pct")  # ConvNeXt: resize to a little more, then cut out
        edge = int(size["shortest_edge"])
        if share and edge < 384:
            return Resizing(int(edge / share), (edge, edge), interpolation)
        return Resizing((edge, edge) if share else edge, crop, interpolation)
    sides = _sides(size)
    return Resizing(sides, crop, interpolation) if sides else None


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and "height" in size:
        return int(size["height"]), int(size["width"])
    return None


def first_of(error: BaseException) -> str:
    """The first line of what an error says."""
    return str(error).strip().splitlines()[0].rstrip(".:")
