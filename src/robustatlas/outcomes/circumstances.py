"""When, where and by what command something was computed."""

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

from robustatlas.common.version import __version__


def current_time(timespec: str = "seconds") -> str:
    """The time, to the second or as `timespec` of `datetime.isoformat` says."""
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
