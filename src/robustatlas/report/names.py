"""Names of models in front of people: short enough for a cell, broken only at their joints."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from robustatlas.wording import shortened

LONGEST_PART = 20
"""Characters that stand together without a place to break."""

_JOINTS = re.compile(r"(?<=[-_/.:+ …])|(?<=[a-z0-9])(?=[A-Z])")


def parts(name: str) -> list[str]:
    """The pieces between which a name may be broken; a piece that is too long loses its middle.

    >>> parts("Dai2023MultiRobustBench_LPIPS")
    ['Dai2023', 'Multi', 'Robust', 'Bench_', 'LPIPS']
    """
    pieces = [shortened(part, LONGEST_PART) for part in _JOINTS.split(shortened(name))]
    return [part for piece in pieces for part in _JOINTS.split(piece) if part]


def breakable(name: str) -> Markup:
    """A name for a page: short, with its whole length on hover, and places to break.

    >>> breakable("a_b")
    Markup('<span class="model">a_<wbr>b</span>')
    """
    pieces = parts(name)
    whole = Markup("") if "".join(pieces) == name else Markup(' title="{}"').format(name)
    return Markup('<span class="model"{}>{}</span>').format(whole, Markup("<wbr>").join(map(escape, pieces)))
