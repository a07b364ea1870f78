"""Identity of a run (``run.json``), a model and a data set; and when, where and by what command parts were computed."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError, model_validator

from robustatlas.common.errors import UserError
from robustatlas.common.version import __version__
from robustatlas.outcomes.base import Record, digest

FORMAT_VERSION = 1
"""Version of the run directory."""

LOGIT_TOLERANCE = 1e-3
"""Largest difference of the probe's logits, relative to the largest of them, that another machine, device or number of
threads explains in float32. Other weights or code differ by more, or they make no difference."""

_LOGITS_OF_PART = 4
"""Number of classes of which each part records the probe's logits."""


class ModelRecord(Record):
    """The classifier.

    What must agree when a run goes on are the hashes of weights and code, and the logits of the probe.

    Attributes:
        name: what reports call it.
        source: where it came from, such as ``builtin:digits-linf``.
        weights_sha256: of the named tensors; None where there are none.
        code_sha256: of the file that makes it; None where there is none.
        probe: logits of a few drawn images.
        licence, home, library: of the weights, where they come from, and what built the network; None: not known.

    Example:
        >>> ModelRecord(name="mine").source
        ''
    """

    name: str
    source: str = ""
    weights_sha256: str | None = None
    code_sha256: str | None = None
    probe: tuple[tuple[float, ...], ...] = ()
    licence: str | None = None
    home: str | None = None
    library: str | None = None

    @property
    def is_distinguishable(self) -> bool:
        """Return if weights or answers are recorded, by which two models can be told apart."""
        return self.weights_sha256 is not None or bool(self.probe)

    @model_validator(mode="after")
    def _check(self) -> ModelRecord:
        if len({len(row) for row in self.probe}) > 1:
            raise UserError("The probe's rows are expected to be of one length, the number of classes.")
        return self

    def differences(self, given: ModelRecord) -> list[str]:
        """Return a phrase for each way in which ``given`` is another model."""
        found = []
        if self.weights_sha256 != given.weights_sha256:
            found.append("its weights are others")
        if self.code_sha256 != given.code_sha256:
            found.append("the code that makes it has changed")
        mine, other = np.array(self.probe), np.array(given.probe)
        if mine.size and other.size:
            scale = max(float(np.abs(mine[np.isfinite(mine)]).max(initial=0.0)), 1e-6)
            atol = LOGIT_TOLERANCE * scale
            if mine.shape != other.shape or not np.allclose(mine, other, rtol=0, atol=atol, equal_nan=True):
                gap = "of another shape" if mine.shape != other.shape else f"off by {np.abs(mine - other).max():.2g}"
                found.append(f"its logits on the probe's images are {gap}")
        return found


class DataRecord(Record):
    """The data set: its name, and hashes of all its images and labels.

    Attributes:
        name: of the data set.
        images_sha256: of all its images.
        labels_sha256: of all its labels.

    Example:
        >>> DataRecord(name="digits").name
        'digits'
    """

    name: str
    images_sha256: str | None = None
    labels_sha256: str | None = None

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits, equal for the same images and labels; of the name where no hashes are recorded."""
        return digest([self.images_sha256, self.labels_sha256] if self.images_sha256 else self.name)

    def differences(self, given: DataRecord) -> list[str]:
        """Return a phrase for each way in which ``given`` is other data."""
        return [f"the {what} are not those of the run ({self.name})" for what in self._different_parts(given)]

    def differing_parts(self, other: DataRecord) -> str:
        """Return what differs from another data set: "images", "labels" or both; empty: nothing that is known.

        Where one of the two records no hash of its images, the names decide.

        >>> digits = DataRecord(name="digits")
        >>> digits.differing_parts(DataRecord(name="mnist")), digits.differing_parts(digits)
        ('images', '')
        """
        if self.images_sha256 and other.images_sha256:
            return " and ".join(self._different_parts(other))
        return "images" if self.name != other.name else ""

    def _different_parts(self, other: DataRecord) -> list[str]:
        found = []
        for what in ("images", "labels"):
            mine, theirs = (getattr(record, f"{what}_sha256") for record in (self, other))
            if mine and theirs and mine != theirs:
                found.append(what)
        return found


class Identity(Record):
    """The content of ``run.json``: the model and the data that everything in the run is evidence about.

    Attributes:
        format_version: of the run's files.
        model: the classifier.
        data: the data set.
        created: when the run was begun, in UTC.

    Example:
        >>> Identity(model=ModelRecord(name="mine"), data=DataRecord(name="digits")).model.name
        'mine'
    """

    format_version: int = FORMAT_VERSION
    model: ModelRecord
    data: DataRecord
    created: str = ""

    def differences(self, given: Identity) -> list[str]:
        """Return a phrase for each reason why ``given`` is not what this run is about."""
        found = [f"the model is not the one of the run: {phrase}" for phrase in self.model.differences(given.model)]
        return found + self.data.differences(given.data)

    def shortened(self) -> Identity:
        """Return the identity that each part of the run records: the hashes, and a few logits of the probe."""
        model = ModelRecord(
            name=self.model.name,
            weights_sha256=self.model.weights_sha256,
            code_sha256=self.model.code_sha256,
            probe=tuple(row[:_LOGITS_OF_PART] for row in self.model.probe),
        )
        return Identity(format_version=self.format_version, model=model, data=self.data)


def check_format(text: str, source: str) -> None:
    """Raise :class:`UserError` unless the text of a ``run.json`` says :data:`FORMAT_VERSION`."""
    try:
        version = TypeAdapter(dict[str, Any]).validate_json(text).get("format_version")
    except ValidationError as error:
        broken = error.errors()[0]["type"] == "json_invalid"
        why = "it is not complete JSON" if broken else "it is no JSON object"
        raise UserError(f"{source} is not readable as a run's identity: {why}.") from error
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UserError(f"{source} is not a run's identity: it says no format_version.")
    if version > FORMAT_VERSION:
        raise UserError(
            f"{source} was written by a newer robustatlas (run format {version}, this one reads {FORMAT_VERSION}); "
            "update robustatlas to use this run."
        )


def current_time(timespec: str = "seconds") -> str:
    """Return the time, to the second or as `timespec` of `datetime.isoformat` says."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=timespec)


_version = cache(metadata.version)
"""Version of an installed package, cached: a look-up takes longer than computing a small part."""

SAID = ("robustatlas", "torch", "numpy", "python", "system", "host", "cores", "device", "threads")
"""Names of the metadata that describe the machine and the versions that computed a part."""


def circumstances(**more: str) -> dict[str, str]:
    """Return metadata for a part: versions, host, processor, time; ``more`` adds to them, such as the device."""
    versions = {"robustatlas": __version__} | {package: _version(package) for package in ("torch", "numpy")}
    machine = {"python": platform.python_version(), "system": platform.platform(), "host": socket.gethostname()}
    return versions | machine | {"cores": str(os.cpu_count()), "created": current_time()} | more


def machine_metadata(said: Mapping[str, str], aside: Collection[str] = ()) -> dict[str, str]:
    """Select the metadata of a part that describe its machine and versions.

    All others, such as those added by programs that rewrite files, are only counted; those in ``aside`` are not.

    >>> machine_metadata({"host": "here", "created": "today", "ARROW:schema": "/////9gB"}, aside=["created"])
    {'host': 'here', 'other metadata': '1 not shown'}
    """
    known = {name: said[name] for name in SAID if name in said}
    others = len(said.keys() - {*SAID, *aside})
    return known | ({"other metadata": f"{others} not shown"} if others else {})


def command_line(arguments: Sequence[str] | None = None) -> str:
    """Return the command that was typed (default: to start this process), so that it can be typed again.

    >>> command_line(["/usr/bin/robustatlas", "evaluate", "mine.py:make", "--about", "my model.json"])
    "robustatlas evaluate mine.py:make --about 'my model.json'"
    >>> command_line(["/packages/robustatlas/__main__.py", "evaluate", "mine.py:make"])
    'python -m robustatlas evaluate mine.py:make'
    """
    given = sys.argv if arguments is None else arguments
    program = Path(given[0])
    if program.name == "__main__.py":
        begin = ["python", "-m", program.parent.name]
    else:
        begin = ["python", given[0]] if program.suffix == ".py" else [program.name]
    return shlex.join([*begin, *given[1:]])
