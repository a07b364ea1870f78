"""Asking a server until it answers: retries with back-off, and one sentence where it does not."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urljoin, urlsplit

import requests

from robustatlas.common.addresses import shown
from robustatlas.common.errors import UserError, brief, first_line

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that mean: later."""
_LONGEST_WAIT, _LONGEST_ASKED = 60.0, 300.0
"""Seconds between two tries, and those that a server may ask for by Retry-After."""
_NONE: Mapping[str, str] = MappingProxyType({})
_TELLING = 8
"""Characters from which on a word is a secret by itself, wherever a server quotes it."""


class TooLargeError(Exception):
    """The server takes fewer images at once."""


class RefusedError(UserError):
    """The server refuses, with a ``status``."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Server:
    """A server that is asked over HTTP.

    ``query`` and ``headers`` belong to each request, and no message or record shows them; ``timeout``: seconds for one
    try; ``retries``: tries after the first; ``sleep``: waits.
    """

    address: str
    query: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout: float = 30.0
    retries: int = 6
    sleep: Callable[[float], None] = time.sleep

    @property
    def url(self) -> str:
        """What messages call it."""
        return shown(f"{self.address}?{self.query}") if self.query else self.address

    def asked(
        self,
        method: str,
        path: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] = _NONE,
        again: Callable[[], None] = lambda: None,
    ) -> Any:
        """The response with status 200, after as many tries as it takes."""
        said = ""
        url = f"{self.address}{path}?{self.query}" if self.query else f"{self.address}{path}"
        for attempt in range(self.retries + 1):
            if attempt:
                again()
            wait = _backed_off(attempt)
            try:
                response = self._session.request(
                    method,
                    url,
                    data=body,
                    headers={**self.headers, **headers},
                    timeout=self.timeout,
                    allow_redirects=False,
                )
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                said = "it did not answer in time" if isinstance(error, requests.Timeout) else _reason(error)
            except requests.RequestException as error:
                raise UserError(
                    f"{self.url} cannot be asked ({self.unsaid(first_line(error))}); give an address such as "
                    "http://127.0.0.1:8000/predict."
                ) from None  # the error quotes the whole address
            else:
                if response.status_code == 200:
                    return response
                said = f"it answered {response.status_code} {self.unsaid(response.reason)}"
                if response.status_code not in _AGAIN:
                    raise self._refused(response)
                wait = max(wait, _asked_to_wait(response))
            if attempt < self.retries:
                self.sleep(wait)
        raise UserError(
            f"{self.url} did not answer in {self.retries + 1} tries (the last time {said}). What it answered before is "
            "kept; run the same again to go on."
        )

    def unsaid(self, text: object) -> str:
        """What a server says, without what it quotes of the query and the headers."""
        words = [value for _, value in parse_qsl(self.query)]
        words += [word for value in self.headers.values() for word in value.split()]
        secrets = [self.query, unquote_plus(self.query), *self.headers.values()]
        left = str(text)
        for secret in sorted({*secrets, *(word for word in words if len(word) >= _TELLING)} - {""}, key=len)[::-1]:
            left = left.replace(secret, "...")
        return left

    def quoted(self, text: object) -> str:
        """:meth:`unsaid` in one line of a message."""
        return brief(self.unsaid(text))

    def _refused(self, response: Any) -> Exception:
        status, said = response.status_code, f"{self.url} answered {response.status_code}"
        said += f" {self.unsaid(response.reason)}"
        if status == 413:
            return TooLargeError()
        if 300 <= status < 400:
            there = _elsewhere(response)
            remedy = "no redirect is followed, as it would take headers and query along; "
            remedy += f"give {there} if you trust it" if there else "it names no other address"
        elif status in (401, 403):
            remedy = "give what it asks for by --header 'Authorization: Bearer ...' (headers in Python)"
        elif status in (404, 405):
            remedy = "give the address that images are sent to"
        else:
            remedy = f"its reason: {self.quoted(response.text) or 'none'}; give protocol= or pixels= for another body"
        return RefusedError(f"{said}; {remedy}.", status)

    @property
    def _session(self) -> requests.Session:
        if "_open" not in vars(self):
            self._open = requests.Session()
        return self._open

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_open"}


def _backed_off(attempt: int) -> float:
    """Seconds to wait after a try that failed: twice as long each time, and not all askers at once."""
    return min(_LONGEST_WAIT, 0.5 * 2.0**attempt) * random.Random().uniform(0.75, 1.25)


def _asked_to_wait(response: Any) -> float:
    given = response.headers.get("Retry-After", "")
    if given.isdecimal():
        return min(float(given), _LONGEST_ASKED)
    try:
        return min(max(0.0, parsedate_to_datetime(given).timestamp() - time.time()), _LONGEST_ASKED)
    except (TypeError, ValueError):
        return 0.0


def _elsewhere(response: Any) -> str:
    """Where a redirect leads, as it may be shown; "" where it does not say."""
    location = response.headers.get("Location")
    try:
        parts = urlsplit(urljoin(response.url, location) if location else "")
    except ValueError:
        return ""
    return shown(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl())


def _reason(error: BaseException) -> str:
    if "refused" in str(error):
        return "the connection was refused"
    return f"the connection broke, {type(error).__name__}"
