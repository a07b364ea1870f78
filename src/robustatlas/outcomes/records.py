"""What a run says of itself in JSON: its identity (``run.json``), its attacks (``attacks/``), its plans (``plans/``).

All of it is read back through pydantic: a stranger's file can be wrong, but it cannot surprise.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

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
    model_validator,
)

from robustatlas.documents import fault
from robustatlas.errors import UserError
from robustatlas.interrupts import interrupts_wait
from robustatlas.outcomes.gradients import GradientRecord
from robustatlas.outcomes.strengths import check_strengths
from robustatlas.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

FORMAT_VERSION = 2
"""Version of the run directory that this release writes."""

LOGIT_TOLERANCE = 1e-3
"""Largest difference of the probe's logits, relative to the largest of them, that another machine, device or number of
threads explains in float32. Other weights or code differ by more, or they make no difference."""

EXAMPLES = "examples"
"""The search of a record whose examples were handed over; its rows say what is known, not what was searched."""

_LOGITS_OF_PART = 4
"""Of the probe's logits of each image, those of so many classes stand in each part."""

MOST_SAMPLES = 2**25
"""Larger positions in a data set than this are a mistake or an attack on the reader's memory."""

ATTACK_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,119}$"
AttackName = Annotated[str, StringConstraints(pattern=ATTACK_NAME)]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{6,64}$")]


def _plain(value: object) -> object:
    """``value`` as strict JSON gives it back: tuples become lists, infinity the text "Infinity"."""
    return json.loads(json.dumps(value), parse_constant=str)


Json = Annotated[dict[str, JsonValue], BeforeValidator(_plain)]


class Record(BaseModel):
    """Base of all records: immutable, nothing unknown accepted, strict JSON (infinity as "Infinity")."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    def to_json(self) -> str:
        """The text of the file."""
        with interrupts_wait():
            return self.model_dump_json(indent=2) + "\n"


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

    @model_validator(mode="after")
    def _check(self) -> ModelRecord:
        if len({len(row) for row in self.probe}) > 1:
            raise UserError("The probe's rows are expected to be of one length, the number of classes.")
        return self

    def differences(self, given: ModelRecord) -> list[str]:
        """A phrase for each way in which ``given`` is another model."""
        found = []
        if self.weights_sha256 != given.weights_sha256:
            found.append("its weights are others")
        if self.code_sha256 != given.code_sha256:
            found.append("the code that makes it has changed")
        mine, other = np.array(self.probe), np.array(given.probe)
        if mine.size and other.size:
            scale = max(float(np.abs(mine).max()), 1e-6)
            if mine.shape != other.shape or not np.allclose(mine, other, rtol=0, atol=LOGIT_TOLERANCE * scale):
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

    def differences(self, given: DataRecord) -> list[str]:
        """A phrase for each way in which ``given`` is other data."""
        found = []
        for what in ("images", "labels"):
            mine, other = (getattr(record, f"{what}_sha256") for record in (self, given))
            if mine and other and mine != other:
                found.append(f"the {what} are not those of the run ({self.name})")
        return found


class Identity(Record):
    """The content of ``run.json``: what a run is about. Everything in the run is evidence about this model on this
    data.

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
        """A phrase for each reason why ``given`` is not what this run is about."""
        found = [f"the model is not the one of the run: {phrase}" for phrase in self.model.differences(given.model)]
        return found + self.data.differences(given.data)

    def shortened(self) -> Identity:
        """What each part of the run says of it: the hashes, and a few logits of the probe."""
        model = ModelRecord(
            name=self.model.name,
            weights_sha256=self.model.weights_sha256,
            code_sha256=self.model.code_sha256,
            probe=tuple(row[:_LOGITS_OF_PART] for row in self.model.probe),
        )
        return Identity(format_version=self.format_version, model=model, data=self.data)


class AttackRecord(Record):
    """One attack as it was run. ``fingerprint`` is of what determines its numbers; ``unit``, ``source``, ``note`` and
    ``effort`` are not among that.

    Attributes:
        name: of the attack.
        strengths: those that were searched.
        monotone: whether a sample broken at one strength is broken at all larger ones.
        threat: the set of perturbations, with all its settings (and fingerprints of networks in it).
        procedure: how it was searched: the plan of the search, seed, precision, constants of the engine.
        gradient: that it was given; None where it takes none, and in runs from before it was recorded.
        unit: of the strengths.
        source: where the attack was published.
        note: how the default differs from the published attack.
        effort: what the plan was scaled to, where that is not the default.
        legs: what each leg of the plan does, in words.

    Example:
        >>> AttackRecord(name="linf", strengths=(0.1, 0.2)).monotone
        True
    """

    name: AttackName
    strengths: tuple[float, ...] = Field(min_length=1, max_length=100_000)
    monotone: bool = True
    threat: Json = Field(default_factory=dict)
    procedure: Json = Field(default_factory=dict)
    gradient: GradientRecord | None = None
    unit: str = ""
    source: str = ""
    note: str = ""
    effort: str = ""
    legs: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> AttackRecord:
        check_strengths(list(self.strengths), self.name)
        return self

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits; equal for equal numbers."""
        with interrupts_wait():
            told = self.model_dump(mode="json", exclude={"gradient", "unit", "source", "note", "effort", "legs"})
            if self.gradient is not None:
                told["gradient"] = self.gradient.model_dump(mode="json", include={"at", "ways"})
            return _digest(told)

    @property
    def key(self) -> str:
        """Name of its files: ``linf-0123456789ab``."""
        return f"{self.name}-{self.fingerprint}"

    @property
    def finder(self) -> str | None:
        """Who found the examples that it holds, where they were handed over and verified; None: they were searched."""
        by = self.procedure.get("by")
        return str(by) if self.procedure.get("search") == EXAMPLES else None

    @property
    def origin(self) -> str:
        """How its numbers were found, in a phrase for people."""
        if self.finder is not None:
            return f"examples of {self.finder}"
        search, seed = self.procedure.get("search", "given"), self.procedure.get("seed")
        effort = self.effort or self.procedure.get("effort")
        said = [str(search), *([f"{effort} effort"] if effort else []), *([f"seed {seed}"] if seed is not None else [])]
        return ", ".join(said)

    def same_set(self, other: AttackRecord) -> bool:
        """Whether the examples of both lie in the same sets and are judged alike, so that the smaller one counts."""
        return self.name == other.name and self.monotone == other.monotone and self.threat == other.threat

    def same_search(self, other: AttackRecord) -> bool:
        """Whether both search the same sets in the same way by the same gradient, at whatever strengths."""
        if self.gradient is None or other.gradient is None:
            by_gradient = self.gradient is other.gradient
        else:
            by_gradient = self.gradient.same(other.gradient)
        return self.same_set(other) and self.procedure == other.procedure and by_gradient


Span = tuple[Annotated[int, Field(ge=0, le=MOST_SAMPLES)], Annotated[int, Field(ge=1, le=MOST_SAMPLES)]]


class CallRecord(Record):
    """What one call of ``evaluate`` asked of a run: some attacks on some samples.

    Attributes:
        attacks: their names.
        spans: positions of the samples, as (first, end) of runs of consecutive ones, in increasing order.
        created: when it was asked, in UTC.
        command: the command line that asked.
        warnings: what the checks before the work said.

    Example:
        >>> CallRecord(attacks=("linf",), spans=((0, 3), (5, 6))).index()
        array([0, 1, 2, 5])
    """

    attacks: tuple[str, ...] = Field(min_length=1)
    spans: tuple[Span, ...] = Field(min_length=1)
    created: str = ""
    command: str = ""
    warnings: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> CallRecord:
        if any(end <= first for first, end in self.spans) or any(a[1] > b[0] for a, b in pairwise(self.spans)):
            raise UserError("Spans are expected as (first, end) of samples, increasing and apart.")
        return self

    @property
    def name(self) -> str:
        """Of its file; the same for the same attacks and samples."""
        return _digest([list(self.attacks), [list(span) for span in self.spans]])

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(end - first for first, end in self.spans)

    def index(self) -> NDArray[np.int64]:
        """Positions of the samples, increasing."""
        return np.concatenate([np.arange(first, end) for first, end in self.spans])


class CardRecord(Record):
    """What the owner of a run says of its model, such as its paper or its training; of no effect on any number."""

    created: str = ""
    about: Json

    @property
    def name(self) -> str:
        """Of its file."""
        return _digest([self.created, self.about])


def spans_of(index: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Positions as runs of consecutive ones.

    Example:
        >>> spans_of(np.array([4, 0, 1, 2, 9]))
        ((0, 3), (4, 5), (9, 10))
    """
    ordered = distinct(index)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    runs = np.split(ordered, breaks)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs)


def distinct(index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions in increasing order, each once: ``np.unique``, which takes ten times as long over a million positions
    because it hashes them.

    Example:
        >>> distinct(np.array([4, 0, 4, 2]))
        array([0, 2, 4])
    """
    ordered = np.sort(index)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


def now(timespec: str = "seconds") -> str:
    """The time, to the second or as `timespec` of `datetime.isoformat` says."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=timespec)


def circumstances(**more: str) -> dict[str, str]:
    """Where and with what a part was computed: versions, host, processor; ``more`` adds to it, such as the device."""
    versions = {"robustatlas": __version__} | {package: metadata.version(package) for package in ("torch", "numpy")}
    machine = {"python": platform.python_version(), "system": platform.platform(), "host": socket.gethostname()}
    return versions | machine | {"cores": str(os.cpu_count()), "created": now()} | more


def command_line(arguments: Sequence[str] | None = None) -> str:
    """What was typed (default: to start this process), so that it can be typed again."""
    given = sys.argv if arguments is None else arguments
    program = given[0]
    begin = ["python", program] if program.endswith(".py") else [Path(program).name]
    return shlex.join([*begin, *given[1:]])


R = TypeVar("R", bound=Record)


def parse(kind: type[R], text: str, source: str) -> R:
    """A record from its JSON; ``source`` names the file in the errors (:class:`UserError`)."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise UserError(f"{source} is not what it should be: {fault(error, 'its content')}") from error


def format_of(text: str, source: str) -> int:
    """The format that a ``run.json`` was written in."""
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
            f"{source} was written by a newer robustatlas (run format {version}, this one reads up to "
            f"{FORMAT_VERSION}); update robustatlas to use this run."
        )
    return version


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def sha256_of_array(array: NDArray[Any]) -> str:
    """Hash of an array's type, shape and content.

    Args:
        array: of any type and shape.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> sha256_of_array(np.zeros(2)) == sha256_of_array(np.zeros((1, 2)))
        False
    """
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def sha256_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Hash of named tensors (a ``state_dict``), whatever their order, device and memory layout.

    Args:
        tensors: name -> tensor.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> import torch
        >>> one, two = torch.zeros(2), torch.ones(2)
        >>> sha256_of_tensors({"a": one, "b": two}) == sha256_of_tensors({"b": two, "a": one})
        True
    """
    import torch  # here, so that reading outcomes needs no torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}:{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
