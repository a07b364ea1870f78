"""What was evaluated, and where: the content of ``run.json``."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from robustatlas.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

FORMAT_VERSION = 1
"""Version of the run directory that this release writes; it reads this one and older ones."""

AttackName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


def _plain(value: object) -> object:
    """``value`` as JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(value))


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class ModelSettings(_Record):
    """The classifier: its name, and a hash of its weights (None for a function without any)."""

    name: str
    sha256: str | None = None


class DataSettings(_Record):
    """The data set: its name, and hashes of all its images and labels."""

    name: str
    images_sha256: str | None = None
    labels_sha256: str | None = None


class SampleSettings(_Record):
    """The samples taken of the data set: how many, and a hash of their indices in order."""

    count: int = Field(ge=1)
    indices_sha256: str | None = None


class AttackSettings(_Record):
    """One attack: the strengths it is judged at, their unit, and every parameter it runs with.

    ``monotone`` says that a sample fooled at one strength counts as fooled at all larger ones; it is False for
    procedures that judge each strength on its own.
    """

    strengths: tuple[float, ...] = Field(min_length=1)
    unit: str = ""
    monotone: bool = True
    parameters: Annotated[dict[str, JsonValue], BeforeValidator(_plain)] = Field(default_factory=dict)


class Settings(_Record):
    """Everything the numbers depend on. A run is only continued with equal settings."""

    model: ModelSettings
    data: DataSettings
    samples: SampleSettings
    attacks: dict[AttackName, AttackSettings] = Field(min_length=1)
    search: str = "descent"
    procedure: str = "default"
    seed: int = 0
    precision: str = "float32"
    keep_adversarial: bool = False


class Context(_Record):
    """What the numbers do not depend on, for the record: when, where and with which versions the run was started."""

    created: str = ""
    command: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    machine: dict[str, str] = Field(default_factory=dict)
    threads: int | None = None
    batch_size: int | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def here(
        cls,
        warnings: Sequence[str] = (),
        batch_size: int | None = None,
        threads: int | None = None,
        machine: Mapping[str, str] | None = None,
    ) -> Context:
        """The context of this process; ``machine`` adds to what is known anyway, e.g. ``{"device": "NVIDIA H100"}``."""
        versions = {package: metadata.version(package) for package in ("robustatlas", "torch", "numpy")}
        return cls(
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            command=_command(sys.argv),
            versions=versions | {"python": platform.python_version()},
            machine={"system": platform.platform(), "processor": platform.machine(), "cores": str(os.cpu_count())}
            | dict(machine or {}),
            threads=threads,
            batch_size=batch_size,
            warnings=tuple(warnings),
        )


class Manifest(_Record):
    """The content of ``run.json``: settings (compared when a run is continued), context (not compared), and layout.

    ``shard_size`` is the number of samples in a shard (the last may have fewer); a continued run keeps the one it has.

    Example:
        >>> manifest = Manifest(
        ...     settings=Settings(
        ...         model=ModelSettings(name="m"), data=DataSettings(name="d"), samples=SampleSettings(count=250),
        ...         attacks={"linf": AttackSettings(strengths=(0.1, 0.2))},
        ...     ),
        ...     shard_size=100,
        ... )
        >>> manifest.shards()
        (range(0, 100), range(100, 200), range(200, 250))
    """

    format_version: int = FORMAT_VERSION
    settings: Settings
    context: Context = Context()
    shard_size: int = Field(default=256, ge=1)

    def shards(self) -> tuple[range, ...]:
        """Positions (in the order of the samples) of each shard."""
        count = self.settings.samples.count
        return tuple(range(start, min(start + self.shard_size, count)) for start in range(0, count, self.shard_size))

    def differences(self, given: Manifest) -> list[str]:
        """A phrase for each setting in which ``given`` differs from this run: 'seed: 0 in the run, 1 given'."""
        run, other = (json.loads(manifest.settings.model_dump_json()) for manifest in (self, given))
        return list(_differences(run, other))

    def to_json(self) -> str:
        """The text of ``run.json`` (strict JSON: infinity and NaN are the strings "Infinity" and "NaN")."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "run.json") -> Manifest:
        """Parse ``run.json``; ``source`` names the file in the errors (:class:`UserError`)."""
        try:
            version = TypeAdapter(dict[str, Any]).validate_json(text).get("format_version")
        except ValidationError as error:
            raise UserError(f"{source} is not readable as a run's manifest: it is not complete JSON.") from error
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise UserError(
                f"{source} was written by a newer robustatlas (run format {version}, this one reads up to "
                f"{FORMAT_VERSION}); update robustatlas to use this run."
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UserError(f"{source} is not a valid manifest of a run: {place}: {first['msg']}.") from error


def _differences(run: object, given: object, place: str = "") -> Iterator[str]:
    if isinstance(run, dict) and isinstance(given, dict):
        for key in [*run, *(key for key in given if key not in run)]:
            yield from _differences(run.get(key), given.get(key), f"{place}.{key}" if place else str(key))
    elif run != given:
        yield f"{place}: {_brief(run)} in the run, {_brief(given)} given"


def _brief(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "{" + ", ".join(value) + "}"
    text = f"{value}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def sha256_of_array(array: NDArray[Any]) -> str:
    """Hash of an array's type, shape and content.

    Example:
        >>> sha256_of_array(np.zeros(2)) == sha256_of_array(np.zeros((1, 2)))
        False
    """
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def sha256_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Hash of named tensors (a ``state_dict``), whatever their order, device and memory layout."""
    import torch  # here, so that reading outcomes needs no torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}:{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _command(arguments: Sequence[str]) -> str:
    """What was typed, so that it can be typed again."""
    program = arguments[0]
    begin = ["python", program] if program.endswith(".py") else [Path(program).name]
    return shlex.join([*begin, *arguments[1:]])
