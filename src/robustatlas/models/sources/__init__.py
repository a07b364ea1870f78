"""The sources of models: functions in files and packages, shipped models, model zoos and files of other formats."""

import inspect
from functools import partial
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.common.files import at_home
from robustatlas.models.schemes import SCHEMES
from robustatlas.models.sources.functions import function_named
from robustatlas.models.sources.source import Source
from robustatlas.models.sources.suggestions import suggest_source

__all__ = ["SCHEMES", "Source", "source_named"]


def source_named(name: str) -> Source:
    """Return the source that a name stands for.

    A name is ``path/file.py:function``, ``package.module:function``, or one of :data:`SCHEMES` and a name behind it,
    such as ``builtin:NAME``.
    """
    if not isinstance(name, str):
        raise UserError(
            f"A model is loaded by its name, not from a {type(name).__name__}; give a network to Classifier."
        )
    scheme, _, rest = name.partition(":")
    if scheme in SCHEMES and rest:
        make, place = SCHEMES[scheme], at_home(rest)
        of_file = next(iter(inspect.signature(make).parameters), None) == "file"
        return Source(name, partial(make, place), Path(place) if of_file else None)
    if sentence := suggest_source(name, SCHEMES):
        raise UserError(sentence)
    place, _, function = name.rpartition(":")
    return function_named(place, function)
