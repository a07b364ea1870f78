"""The forms in which images go to a server and answers come back. One class each."""

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.wording import counted
from robustatlas.models.frameworks.predictions import Answers as Kind
from robustatlas.models.remote.asking import Server

Array = NDArray[Any]
KINDS: tuple[str, ...] = get_args(Kind)
_WHOLE = ("INT", "UINT", "BOOL")


@dataclass(frozen=True)
class Description:
    """What a server says of its model; None and empty: nothing. ``answers``: probabilities, logits or labels.
    ``classes``: their names or numbers. ``shape``: of an image, as it takes it. ``pixels``: ``"uint8"`` where it takes
    whole numbers from 0 to 255. ``names``: of its input and output."""

    answers: str | None = None
    classes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    pixels: str = "float32"
    names: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Message:
    """What is sent."""

    body: bytes
    headers: Mapping[str, str]


class Protocol(ABC):
    """Base of all: how a request is written, and a response read."""

    name: ClassVar[str]
    path: ClassVar[str] = ""
    """That images go to, behind the address."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def url(self) -> str:
        """What messages call the server."""
        return self.server.url

    @abstractmethod
    def described(self, said: Any) -> Description:
        """What the JSON that the address answers to GET says."""

    @abstractmethod
    def message(self, x: Array, about: Description) -> Message:
        """The request for images [B, ...]."""

    @abstractmethod
    def read(self, response: Any, about: Description) -> tuple[str | None, Array]:
        """What kind of answer a response holds (None: it does not say), and the values."""

    def _in_json(self, response: Any) -> Any:
        try:
            return response.json()
        except ValueError as error:
            said = self.server.quoted(response.text) or "nothing"
            raise UserError(f"{self.url} answered {said}; expected JSON.") from error

    def _as_array(self, values: Any, names: Sequence[str]) -> Array:
        """Nested lists as an array; names of classes as their numbers."""
        if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
            unknown = [value for value in values if value not in names]
            if unknown:
                known = f"classes are {', '.join(names[:5])}" if names else "it names no classes"
                raise UserError(
                    f"{self.url} answered the class {self.server.quoted(unknown[0])!r}, and {known}; expected one of "
                    "them."
                )
            return np.array([names.index(value) for value in values])
        try:
            return np.array(values, np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{self.url} answered {self.server.quoted(repr(values))}; expected numbers, the same many for each "
                "image."
            ) from error


class Json(Protocol):
    """Ours: ``{"images": [...]}``, answered by ``{"probabilities": [[...], ...]}``, or ``logits``, or ``labels``."""

    name = "json"

    def described(self, said: Any) -> Description:
        if not isinstance(said, Mapping):
            return Description()
        classes, answers, shape = said.get("classes", ()), said.get("answers"), said.get("shape", ())
        names = tuple(map(str, range(classes))) if isinstance(classes, int) else tuple(map(str, classes))
        if answers is not None and answers not in KINDS:
            raise UserError(
                f"{self.url} says that it answers {self.server.quoted(repr(answers))}; expected one of {_listed()}."
            )
        return Description(answers, names, tuple(shape), str(said.get("pixels", "float32")))

    def message(self, x: Array, about: Description) -> Message:
        return Message(json.dumps({"images": x.tolist()}).encode(), {"Content-Type": "application/json"})

    def read(self, response: Any, about: Description) -> tuple[str | None, Array]:
        said = self._in_json(response)
        kinds = [kind for kind in KINDS if isinstance(said, Mapping) and kind in said]
        if not kinds:
            raise UserError(
                f"{self.url} answered {self.server.quoted(repr(said))}; expected an object with one of {_listed()}."
            )
        return kinds[0], self._as_array(said[kinds[0]], about.classes)


class Npy(Json):
    """The same with arrays as NumPy's files: smaller, and exact. The answer may be JSON, or an array whose kind the
    header ``X-Answers`` names."""

    name = "npy"

    def message(self, x: Array, about: Description) -> Message:
        file = io.BytesIO()
        np.save(file, x, allow_pickle=False)
        headers = {"Content-Type": "application/x-npy", "Accept": "application/x-npy, application/json"}
        return Message(file.getvalue(), headers)

    def read(self, response: Any, about: Description) -> tuple[str | None, Array]:
        if "json" in response.headers.get("Content-Type", ""):
            return super().read(response, about)
        try:
            values = np.load(io.BytesIO(response.content), allow_pickle=False)
        except ValueError as error:
            raise UserError(f"{self.url} answered something that is not a file of NumPy; expected one.") from error
        return response.headers.get("X-Answers"), values


class OpenInference(Protocol):
    """Open Inference Protocol v2, as KServe, Triton and MLServer speak it: ``POST v2/models/NAME/infer``."""

    name = "oip"
    path = "/infer"

    def described(self, said: Any) -> Description:
        if not isinstance(said, Mapping) or not said.get("inputs") or not said.get("outputs"):
            raise UserError(
                f"{self.url} says nothing of its inputs and outputs; give the address of a model, such as "
                "http://127.0.0.1:8000/v2/models/NAME."
            )
        taken, given = said["inputs"][0], said["outputs"][0]
        kind = "labels" if str(given.get("datatype", "")).startswith(_WHOLE) else None
        shape = tuple(int(side) for side in taken.get("shape", ()))
        pixels = "uint8" if taken.get("datatype") == "UINT8" else "float32"
        return Description(kind, (), shape[-3:], pixels, (str(taken["name"]), str(given["name"])))

    def message(self, x: Array, about: Description) -> Message:
        datatype = "UINT8" if about.pixels == "uint8" else "FP32"
        tensor = {"name": about.names[0], "shape": x.shape, "datatype": datatype, "data": x.ravel().tolist()}
        asked = {"inputs": [tensor], "outputs": [{"name": about.names[1]}]}
        headers = {"Content-Type": "application/json"}
        return Message(json.dumps(asked).encode(), headers)

    def read(self, response: Any, about: Description) -> tuple[str | None, Array]:
        said = self._in_json(response)
        outputs = said.get("outputs") if isinstance(said, Mapping) else None
        chosen = [each for each in outputs or () if each.get("name") == about.names[1]] or outputs
        if not chosen or "data" not in chosen[0]:
            raise UserError(f"{self.url} answered {self.server.quoted(repr(said))}; expected outputs with data.")
        values = self._as_array(chosen[0]["data"], ())
        try:
            return about.answers, values.reshape([int(side) for side in chosen[0].get("shape", values.shape)])
        except ValueError as error:
            raise UserError(
                f"{self.url} answered {counted(values.size, 'number')} for a shape of {chosen[0]['shape']}; expected "
                "one for each place."
            ) from error


PROTOCOLS: dict[str, type[Protocol]] = {protocol.name: protocol for protocol in (Json, Npy, OpenInference)}
"""Name -> how a server is asked."""


def spoken_at(url: str) -> type[Protocol]:
    """The protocol that an address looks like.

    >>> spoken_at("http://127.0.0.1:8000/v2/models/net/infer").name, spoken_at("http://127.0.0.1:8000/ask").name
    ('oip', 'json')
    """
    return OpenInference if "/v2/models/" in url else Json


def _listed() -> str:
    return ", ".join(KINDS)
