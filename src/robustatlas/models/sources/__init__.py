"""Where models come from: functions in files and packages, what is shipped, model zoos and files of other formats."""

import inspect
from functools import partial
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.common.files import expand_home
from robustatlas.models.schemes import SCHEMES
from robustatlas.models.sources.functions import function_named
from robustatlas.models.sources.meant import meant_by
from robustatlas.models.sources.source import Source

__all__ = ["SCHEMES", "Source", "source_named"]


def source_named(name: str) -> Source:
    """What ``path/file.py:function``, ``package.module:function``, or one of :data:`SCHEMES` and a name behind it,
    such as ``builtin:NAME``, names.
    """
    if not isinstance(name, str):
        raise UserError(
            f"A model is loaded by its name, not from a {type(name).__name__}; give a network to Classifier."
        )
    scheme, _, rest = name.partition(":")
    if scheme in SCHEMES and rest:
        make, place = SCHEMES[scheme], expand_home(rest)
        of_file = next(iter(inspect.signature(make).parameters), None) == "file"
        return Source(name, partial(make, place), Path(place) if of_file else None)
    if sentence := meant_by(name, SCHEMES):
        raise UserError(sentence)
    place, _, function = name.rpartition(":")
    return function_named(place, function)
