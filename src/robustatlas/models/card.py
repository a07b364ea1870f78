"""The model card: what a network was trained on and how, written beside its weights."""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path, read_text, write_text
from robustatlas.common.version import __version__
from robustatlas.outcomes.base import differences

CARD = "card.json"
WEIGHTS = "weights.safetensors"
FORMAT_VERSION = 1


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class TrainingData(_Record):
    """The images trained on: name, hash of images and labels, how many were held out, and the shape of one."""

    name: str
    images_sha256: str
    labels_sha256: str
    images: int
    held_out: int
    shape: tuple[int, ...]
    classes: tuple[str, ...]


class TrainingIdentity(_Record):
    """Everything the weights depend on. A training is only continued with an equal identity. ``code``: hashes of the
    files of an architecture of one's own, by their names."""

    recipe: dict[str, Any]
    settings: dict[str, Any]
    data: TrainingData
    extra: TrainingData | None = None
    initial_sha256: str
    code: dict[str, str] = {}
    processes: int = 1

    def differences(self, given: TrainingIdentity) -> list[str]:
        """Return a phrase for each field in which ``given`` differs: 'seed: 0 there, 1 given'."""
        return list(differences(self.model_dump(mode="json"), given.model_dump(mode="json"), "there"))


class Card(_Record):
    """The content of ``card.json``.

    Attributes:
        architecture: what the network was asked for by, or the name of its class.
        parameters: how many numbers are trained.
        trained_on: attack -> strength, as people type it; empty for standard training.
        epoch: whose weights these are, from 1.
        accuracies: in percent on the held-out training images: "clean", each attack by projected ascent, and "union",
            the share that survives all of them. Quick and optimistic; ``robustatlas evaluate`` measures.
        weights_sha256: of the tensors.
        format_version: of the file.
        identity: what was trained on what: recipe, settings and data.
        warnings: what a reader has to know of this training, one sentence each.
        notes: what was said beforehand, such as a preset and what is not as it has it.
        seconds: wall-clock time of the training.
        created: when it ended, in UTC.
        versions: of the packages that the numbers depend on.
        machine: what it was trained on.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> from robustatlas.training import network_named
        >>> net, data = network_named("digits-cnn", (1, 8, 8), 10), ra.load_dataset("digits", "train").take(64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     card = ra.train(net, data, epochs=1, out=folder, architecture="digits-cnn", progress=False).card
        >>> card.architecture, card.epoch, card.trained_on
        ('digits-cnn', 1, {})
    """

    format_version: int = FORMAT_VERSION
    architecture: str
    parameters: int
    trained_on: dict[str, float]
    identity: TrainingIdentity
    epoch: int
    accuracies: dict[str, float]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    weights_sha256: str
    seconds: float
    created: str
    versions: dict[str, str]
    machine: dict[str, str]

    def write(self, folder: Path) -> None:
        """Write ``card.json`` into ``folder``."""
        text = self.model_dump_json(indent=2) + "\n"
        write_text(folder / CARD, text)


def read_card(folder: str | Path) -> Card:
    """Read the card in ``folder``, or in a file.

    Args:
        folder: the folder of a training, or its ``card.json``.

    Returns:
        the card.

    Raises:
        UserError: none there, or not readable.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> from robustatlas.training import network_named
        >>> net, data = network_named("digits-cnn", (1, 8, 8), 10), ra.load_dataset("digits", "train").take(64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trained = ra.train(net, data, epochs=1, out=folder, architecture="digits-cnn", progress=False)
        ...     read_card(folder) == trained.card
        True
    """
    path = parse_path(folder)
    path = path if path.suffix == ".json" else path / CARD
    try:
        return Card.model_validate_json(read_text(path))
    except OSError as error:
        raise UserError(f"There is no model card {path} ({error.strerror or error}).") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path} is not a valid model card: {field}: {first['msg']}.") from error


def training_circumstances() -> dict[str, Any]:
    """Return versions, machine and time of this process, as fields of a card."""
    versions = {"robustatlas": __version__} | {package: metadata.version(package) for package in ("torch", "numpy")}
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions | {"python": platform.python_version()},
        "machine": {"system": platform.platform(), "processor": platform.machine()},
    }
