"""``http:URL``: a model that a server answers for."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import torch
from numpy.typing import NDArray

from robustatlas.common.addresses import is_recorded, parted, recorded, shown
from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import whole
from robustatlas.common.wording import instead
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.classifier.outputs import looks_like_percent
from robustatlas.models.frameworks.predictions import Sender, from_predictions
from robustatlas.models.remote.asking import RefusedError, Server, TooLargeError
from robustatlas.models.remote.protocols import KINDS, PROTOCOLS, Description, Protocol, spoken_at

Array = NDArray[Any]

_SILENT = (400, 404, 405, 501)
"""What servers answer to GET where they take images only."""


def http_model(
    url: str,
    *,
    protocol: str | None = None,
    answers: str | None = None,
    classes: int | None = None,
    layout: str | None = None,
    pixels: str | None = None,
    at_once: int = 32,
    headers: Mapping[str, str] | None = None,
    queries: int | None = None,
    budget: int | None = None,
    per_second: float | None = None,
    timeout: float = 30.0,
    retries: int = 6,
) -> Classifier:
    """A model behind an API. It can only be asked; a run keeps its answers, so that no question is asked twice.

    Args:
        url: that images are posted to; of the Open Inference Protocol ``.../v2/models/NAME``. What stands behind its
            ``?`` is sent with each request, not shown, and recorded as a hash.
        protocol: ``"json"``, ``"npy"`` or ``"oip"``; default: ``"oip"`` where the address has ``/v2/models/``.
        answers: ``"probabilities"``, ``"logits"`` or ``"labels"``; default: what the server says.
        classes: how many; default: what the server says. Each answer must have a column for each.
        layout: ``"nchw"`` or ``"nhwc"``; default: by the shape that the server names, else ``"nchw"``.
        pixels: ``"float32"`` in [0, 1], or ``"uint8"``; default: what the server says, else ``"float32"``.
        at_once: images in a request.
        headers: of each request; neither shown nor recorded.
        queries: at most so many about one sample by each attack.
        budget: at most so many altogether; what is sent again counts again.
        per_second: at most so many images a second.
        timeout: seconds until a request counts as failed.
        retries: of a request that failed, after longer and longer waits.
    """
    given = _address(url)
    address, query = parted(given)
    speaks = spoken_at(address) if protocol is None else PROTOCOLS.get(protocol)
    if speaks is None:
        there = instead(str(protocol), PROTOCOLS, f"there are {', '.join(PROTOCOLS)}")
        raise UserError(f"protocol={protocol!r} is not known{there}")
    server = Server(address.removesuffix(speaks.path), query, dict(headers or {}), timeout, whole(retries) or 0)
    spoken = speaks(server)
    about = _described(spoken)
    about = replace(about, pixels=pixels or about.pixels, answers=answers or about.answers)
    _check(about, layout, at_once)
    served = Served(spoken, about, (layout or _layout_of(about)) == "nhwc", at_once)
    kind = about.answers or served.kind_seen()
    model = from_predictions(
        served,
        kind,  # type: ignore[arg-type]
        classes=(about.classes or None) if classes is None else classes,
        per_second=per_second,
        budget=budget,
        queries=queries,
        keeps=True,
        name=shown(given),
    )
    return Classifier(model, origin=Origin(recorded(f"http:{given}"), home=recorded(given)))


def https_model(url: str, **settings: Any) -> Classifier:
    """:func:`http_model` of an address that begins with ``https:``."""
    return http_model(f"https:{url}" if url.startswith("//") else url, **settings)


class Served(Sender):
    """What a server answers about images [B, C, H, W], as a function."""

    def __init__(self, spoken: Protocol, about: Description, last: bool, at_once: int) -> None:
        self.server, self.spoken, self.about, self.last, self.at_once = spoken.server, spoken, about, last, at_once
        self.shape = (at_once, *self._in_order(about.shape)) if len(about.shape) == 3 else ()

    def send(self, x: Array, again: Callable[[int], None]) -> Array:
        """The answers [B, C], or class numbers [B]."""
        found, begin = [], 0
        while begin < len(x):
            part = x[begin : begin + self.at_once]
            try:
                found.append(self._answer(part, again)[1])
            except TooLargeError:
                if len(part) == 1:
                    raise UserError(
                        f"{self.server.url} refuses a single image as too large; give data of smaller images."
                    ) from None
                self.at_once = max(1, len(part) // 2)
                again(len(part))
                continue
            begin += len(part)
        return np.concatenate(found)

    def kind_seen(self) -> str:
        """What the scores of a grey image look like, where the server says how large one is."""
        shape = self.about.shape
        if len(shape) != 3 or min(shape) < 1:
            raise UserError(
                f"{self.server.url} does not say what it answers; give --set answers=probabilities (or logits, or "
                "labels with --set classes=10)."
            )
        grey = np.full((1, *self._in_order(shape)), 0.5, np.float32)
        self._sent_once_more(1)
        kind, values = self._answer(grey, self._sent_once_more)
        if kind is None and looks_like_percent(torch.as_tensor(values)):
            raise UserError(
                f"{self.server.url} answers numbers that sum to 100 and does not say what they are; they look like "
                "percent: divide them by 100, or give --set answers=logits where they are logits."
            )
        whole = bool((values >= 0).all()) and math.isclose(float(values.sum()), 1.0, abs_tol=1e-3)
        return kind or ("probabilities" if whole else "logits")

    def _sent_once_more(self, count: int) -> None:
        self.sent += count

    def _in_order(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an image as it is here, of one as the server takes it."""
        return shape[-1:] + shape[:-1] if self.last else shape

    def _answer(self, x: Array, again: Callable[[int], None]) -> tuple[str | None, Array]:
        sent = np.moveaxis(x, 1, -1) if self.last and x.ndim == 4 else x
        if self.about.pixels == "uint8":
            sent = np.rint(255 * sent).astype(np.uint8)
        message = self.spoken.message(np.ascontiguousarray(sent), self.about)
        path, once_more = self.spoken.path, partial(again, len(x))
        response = self.server.asked("POST", path, message.body, message.headers, once_more)
        kind, values = self.spoken.read(response, self.about)
        expected, dimensions = self.about.answers, 1 if (kind or self.about.answers) == "labels" else 2
        if kind is not None and expected is not None and kind != expected:
            raise UserError(f"{self.server.url} answered {kind}; expected {expected}, as it was said before.")
        if dimensions == 1 and values.shape == (len(x), 1):
            values = values[:, 0]
        if values.ndim != dimensions or len(values) != len(x):
            raise UserError(
                f"{self.server.url} answered with shape {values.shape} about {len(x)} images; expected "
                f"{'[B]' if dimensions == 1 else '[B, C]'} with B={len(x)}."
            )
        return kind, values


_PAGES = ("huggingface.co", "hf.co")


def _address(url: str) -> str:
    full = f"http:{url}" if url.startswith("//") else url
    parts = urlsplit(full)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            f"{brief(url.partition('?')[0])!r} is not an address; expected one such as http://127.0.0.1:8000/predict."
        )
    if parts.hostname in _PAGES:
        raise UserError(
            f"{brief(shown(full))!r} is a page of Hugging Face and no served model; give it as hf:OWNER/NAME."
        )
    if parts.username or parts.password:
        raise UserError("The address holds a name or password, which runs would record; give them by --header.")
    if is_recorded(full):
        raise UserError(
            f"A run does not keep what stands behind the ? of {shown(full)}; give the whole address, or the model "
            "itself."
        )
    return full


def _described(spoken: Protocol) -> Description:
    """What the server says of its model to GET; one that speaks our own protocol may say nothing."""
    try:
        response = spoken.server.asked("GET")
    except RefusedError as error:
        if spoken.name == "oip" or error.status not in _SILENT:
            raise
        return Description()
    try:
        said = response.json()
    except ValueError:
        said = None
    return spoken.described(said)


def _layout_of(about: Description) -> str:
    channels_last = len(about.shape) == 3 and about.shape[-1] in (1, 3) and about.shape[0] not in (1, 3)
    return "nhwc" if channels_last else "nchw"


def _check(about: Description, layout: str | None, at_once: int) -> None:
    for name, value, known in (
        ("answers", about.answers, (None, *KINDS)),
        ("layout", layout, (None, "nchw", "nhwc")),
        ("pixels", about.pixels, ("float32", "uint8")),
    ):
        if value not in known:
            raise UserError(f"{name}={value!r} is not known; expected one of {', '.join(map(str, known[-3:]))}.")
    if (whole(at_once) or 0) < 1:
        raise UserError(f"at_once={at_once!r}; expected a number of images of at least 1.")
