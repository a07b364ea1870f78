"""Names and texts of users in each output: one function for each, so that every letter stands there as it was typed.

Control characters, halves of surrogate pairs and characters that change the direction of a line are shown as U+FFFD
everywhere; ends of lines and tabs become spaces.
"""

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from markupsafe import Markup
from rich.emoji import Emoji
from rich.markup import escape as without_markup

from robustatlas.common.errors import UserError, brief

_BLANKS = "\n\t\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_UNSEEN = ("Cc", "Cf", "Cs")
"""Categories of Unicode: control characters, formats (of directions, and joiners), halves of surrogate pairs."""

_NEVER = 0xFFFE
"""The last 16 bits, but for the last one, of code points that no text holds (and XML refuses)."""


def visible_text(text: object) -> str:
    """Return a text in one line, whose every character is seen; any XML parser takes them.

    Args:
        text: of a user.

    Example:
        >>> visible_text("a\\x1b[31m\\nb")
        'a�[31m b'
    """
    shown = str(text)
    return shown if shown.isprintable() else "".join(map(_visible, shown))


def _visible(char: str) -> str:
    if char in _BLANKS:
        return " "
    hidden = unicodedata.category(char) in _UNSEEN or ord(char) & _NEVER == _NEVER
    return "\ufffd" if hidden else char


_NOTHING = "[not bold][/not bold]"
"""Markup without effect, that keeps rich from reading a picture's name, such as ``:bug:``, in a text."""


def terminal_text(text: object) -> str:
    """Return a text for rich, which takes nothing in it for markup.

    Args:
        text: of a user.

    Example:
        >>> print(terminal_text("[red]net"))
        \\[red]net
    """
    escaped = without_markup(visible_text(text))
    return escaped if Emoji.replace(escaped) == escaped else escaped.replace(":", f":{_NOTHING}")


def html_text(text: object) -> Markup:
    """Return a text for HTML and SVG, in an element or in a quoted attribute.

    Args:
        text: of a user; :class:`markupsafe.Markup` is text of ours.

    Example:
        >>> html_text('<b title="a">')
        Markup('&lt;b title=&#34;a&#34;&gt;')
    """
    return text if isinstance(text, Markup) else Markup.escape(visible_text(text))


def figure_text(text: object) -> str:
    """Return a text for matplotlib, which takes ``$`` for a formula and leaves out of legends what begins with ``_``.

    Args:
        text: of a user.

    Example:
        >>> figure_text("cost in $"), figure_text("_baseline") == "\\u200b_baseline"
        ('cost in \\\\$', True)
    """
    escaped = visible_text(text).replace("$", r"\$")
    return f"\u200b{escaped}" if not escaped or escaped.startswith("_") else escaped


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # which after the end of a row would be its height
    "]": "{]}",
    "*": "{*}",
    "†": r"$^\dagger$",
    "∞": r"$\infty$",
    "\ufffd": "?",
}


def latex_text(text: object) -> str:
    """Return a text for LaTeX outside of formulas, in one line, so that it may stand in a comment.

    Args:
        text: of a user.

    Example:
        >>> print(latex_text("wide_net 50 % ~x^2"))
        wide\\_net 50 \\% \\textasciitilde{}x\\textasciicircum{}2
    """
    return "".join(_LATEX.get(sign, sign) for sign in visible_text(text)).replace("--", "-{}-")


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")


def markdown_text(text: object) -> str:
    """Return a text for Markdown, in a cell of a table too, as code hosts show it.

    Args:
        text: of a user.

    Example:
        >>> print(markdown_text("a|b_c"))
        a\\|b\\_c
    """
    return _MARKDOWN.sub(r"\\\1", visible_text(text))


def markdown_code(text: object) -> str:
    """Return a text for a cell of a table of Markdown, set as code.

    Args:
        text: of a user.

    Example:
        >>> print(markdown_code("clean>=90|`x`"))
        `` clean>=90\\|`x` ``
    """
    shown = visible_text(text).replace("|", "\\|")
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    ends = shown[:1], shown[-1:]
    space = " " if not shown or "`" in ends or ends == (" ", " ") else ""
    return f"{fence}{space}{shown}{space}{fence}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def spreadsheet_cell(cell: object) -> object:
    """Return a cell of a CSV: a number as it is, a text in one line and never a formula.

    Formulas begin with = + - @ or a tab; an apostrophe before that makes them text.

    Args:
        cell: a number, a text of a user, or None.

    Example:
        >>> spreadsheet_cell("=HYPERLINK(1)"), spreadsheet_cell("linf"), spreadsheet_cell(-0.5)
        ("'=HYPERLINK(1)", 'linf', -0.5)
    """
    if cell is None or isinstance(cell, (bool, int, float, Decimal)):
        return cell
    text = str(cell)
    return f"{chr(39) if text.startswith(_FORMULA) else ''}{visible_text(text)}"


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return JSON that any parser reads, and that may stand inside a script element of a page.

    Args:
        value: of :func:`json_value`.
        indent: spaces of a level; default: all in one line.

    Example:
        >>> import numpy as np
        >>> json_text({"name": "</script>", "size": np.float32(0.5), "none": float("nan")})
        '{"name": "\\\\u003c/script\\\\u003e", "size": 0.5, "none": null}'
    """
    text = json.dumps(_finite(json_value(value)), indent=indent, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("'", "\\u0027")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return value


def json_value(value: object, whose: str = "The value") -> Any:
    """Return a value as JSON knows it: numbers and arrays of NumPy and torch as numbers and lists, paths as texts.

    Args:
        value: numbers, texts, truth values, None, and mappings, sequences and arrays of such.
        whose: the subject of a message.

    Raises:
        UserError: anything else, or a key that is no text.

    Example:
        >>> import numpy as np
        >>> json_value({"trained_on": {"linf": np.float32(0.5)}, "seeds": np.arange(2), "extra": np.True_})
        {'trained_on': {'linf': 0.5}, 'seeds': [0, 1], 'extra': True}
    """
    if value is None or (isinstance(value, (bool, int, float, str)) and type(value).__module__ != "numpy"):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        if other := [key for key in value if not isinstance(key, str)]:
            raise UserError(f"{whose} has the key {brief(repr(other[0]))}; expected texts as keys.")
        return {str(key): json_value(each, f"{key} of {whose}") for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(each, whose) for each in value]
    if hasattr(value, "tolist"):  # of NumPy and torch
        return json_value(value.tolist(), whose)
    raise UserError(f"{whose} is {brief(repr(value))}; expected a number, a text, a truth value, or lists of such.")
