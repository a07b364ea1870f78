"""Addresses of the web: what stands behind the ``?`` may be a secret, which no record and no sentence keeps."""

import hashlib
import re

_KEPT = re.compile(r"sha256-[0-9a-f]{16}")


def recorded(address: str) -> str:
    """``address`` with a hash of its query in place of the query.

    >>> recorded("http://127.0.0.1/ask?token=123"), recorded("net.py:make")
    ('http://127.0.0.1/ask?sha256-594119985359e588', 'net.py:make')
    """
    path, query = parted(address)
    return f"{path}?sha256-{hashlib.sha256(query.encode()).hexdigest()[:16]}" if query else address


def is_recorded(address: str) -> bool:
    """Whether there is a hash of the query in place of the query.

    >>> is_recorded(recorded("http://127.0.0.1/ask?token=123")), is_recorded("http://127.0.0.1/ask?token=123")
    (True, False)
    """
    return _KEPT.fullmatch(parted(address)[1]) is not None


def shown(address: str) -> str:
    """``address`` without its query.

    >>> shown("http://127.0.0.1/ask?token=123"), shown("what?")
    ('http://127.0.0.1/ask?...', 'what?')
    """
    path, query = parted(address)
    return f"{path}?..." if query else address


def parted(address: str) -> tuple[str, str]:
    """What stands before the ``?`` of an address and what behind it; everything and nothing where it is none.

    >>> parted("http://127.0.0.1/ask?token=123"), parted("http://127.0.0.1/ask")
    (('http://127.0.0.1/ask', 'token=123'), ('http://127.0.0.1/ask', ''))
    """
    path, _, query = address.partition("?")
    return (path, query) if "://" in path or path.startswith(("http:", "https:")) else (address, "")
