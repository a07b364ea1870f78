"""``hf:NAME`` and ``hf:FOLDER``: image classifiers of Hugging Face's transformers, with their own preprocessing."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from robustatlas.common.errors import UserError, quiet_logger
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.classifier.columns import Classes
from robustatlas.models.sources.packages import optional, unreachable, version_of
from robustatlas.models.sources.preprocessing import Preprocessing, preprocessing_of

_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
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
        raise UserError(f"{source} is not an image classifier of transformers: {first_line_of(error)}.") from error
    found = preprocessing_in(transformers, name, config, local, source)
    model = Classifier(
        net,
        None if found is None else found.mean,
        None if found is None else found.std,
        prepare=None if found is None else found.prepare,
        classes=_classes_of(net.config),
        origin=Origin(
            source,
            licence=licence_of(transformers, name, local),
            home=str(Path(name).resolve()) if Path(name).is_dir() else f"https://huggingface.co/{name}",
            library=version_of("transformers"),
            notes=() if found else (f"{source} says nothing of its preprocessing: images go in as they are.",),
        ),
    )
    if found is not None:
        found.check(model, source)
    return model


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
            raise UserError(f"The folder {name} holds no model of transformers ({first_line_of(error)}).") from error
    try:
        return transformers.AutoConfig.from_pretrained(name, **settings), {}
    except (OSError, ValueError) as error:
        raise unreachable(f"hf:{name}", "Hugging Face", error) from error


def preprocessing_in(
    transformers: ModuleType, name: str, config: Any, local: Mapping[str, Any], source: str
) -> Preprocessing | None:
    """Return what the image processor of a model does (see :mod:`robustatlas.models.sources.preprocessing`), or None
    where the model comes without one.

    Raises:
        UserError: a processor that cannot be made, or that is not linear.
    """
    if not any(_text_of(transformers, name, file, local) for file in _PROCESSORS):
        return None
    try:
        with quiet_logger("transformers"):
            processor = transformers.AutoImageProcessor.from_pretrained(
                name, use_fast=False, trust_remote_code=False, **local
            )
    except (ImportError, OSError, ValueError, TypeError) as error:
        raise UserError(
            f"The image processor of {source} cannot be made by transformers ({first_line_of(error)}); load the "
            "network yourself and give ra.Classifier(net, mean, std, prepare=...)."
        ) from error
    vision = getattr(config, "vision_config", config)
    return preprocessing_of(processor, int(getattr(vision, "num_channels", None) or 3), source)


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
    """Return the licence that the card of the repository names."""
    found = re.search(r"^license:\s*(\S+)", _text_of(transformers, name, "README.md", local), re.MULTILINE)
    return found[1].strip("\"'") if found else None


def first_line_of(error: BaseException) -> str:
    """Return the first line of an error."""
    return str(error).strip().splitlines()[0].rstrip(".:")
