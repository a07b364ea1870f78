"""Names of models in front of people: short enough for a cell, broken only at their joints."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from robustatlas.common.wording import shortened

LONGEST_PART = 20
"""Characters that stand together without a place to break."""

LONGEST_WORD = 12
"""Characters of a word of several capitals (WideResNet) that stay together."""

_JOINTS = re.compile(r"(?<=[-_/.:+ …])")
_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def parts(name: str) -> list[str]:
    """The pieces between which a name may be broken; a piece that is too long loses its middle.

    >>> parts("Dai2023MultiRobustBench_LPIPS")
    ['Dai2023', 'Multi', 'Robust', 'Bench_', 'LPIPS']
    >>> parts("WideResNet-28-10")
    ['WideResNet-', '28-', '10']
    """
    words = [word for word in _JOINTS.split(shortened(name)) if word]
    pieces = [piece for word in words for piece in (_CAPITALS.split(word) if len(word) > LONGEST_WORD else [word])]
    return [part for piece in pieces for part in _JOINTS.split(shortened(piece, LONGEST_PART)) if part]


def breakable(name: str) -> Markup:
    """A name for a page: short, with its whole length on hover, and places to break.

    >>> breakable("a_b")
    Markup('<span class="model">a_<wbr>b</span>')
    """
    pieces = parts(name)
    whole = Markup("") if "".join(pieces) == name else Markup(' title="{}"').format(name)
    return Markup('<span class="model"{}>{}</span>').format(whole, Markup("<wbr>").join(map(escape, pieces)))
