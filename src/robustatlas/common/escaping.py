"""Escape names and texts of users for each output format, so that every letter appears as it was typed.

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

from robustatlas.common.errors import UserError, shorten

_BLANKS = "\n\t\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_INVISIBLE_CATEGORIES = ("Cc", "Cf", "Cs")
"""Unicode categories of control characters, format characters (directions, joiners) and surrogates."""

_NONCHARACTER = 0xFFFE
"""Mask of Unicode's noncharacters U+xxFFFE and U+xxFFFF, which XML refuses."""


def visible_text(text: object) -> str:
    """Return a text in one line without invisible characters; XML parsers accept it.

    Args:
        text: of a user.

    Example:
        >>> visible_text("a\\x1b[31m\\nb")
        'a�[31m b'
    """
    shown = str(text)
    return shown if shown.isprintable() else "".join(map(_visible_character, shown))


def _visible_character(char: str) -> str:
    if char in _BLANKS:
        return " "
    hidden = unicodedata.category(char) in _INVISIBLE_CATEGORIES or ord(char) & _NONCHARACTER == _NONCHARACTER
    return "\ufffd" if hidden else char


_EMPTY_MARKUP = "[not bold][/not bold]"
"""Markup without effect that keeps rich from replacing an emoji code, such as ``:bug:``, in a text."""


def terminal_text(text: object) -> str:
    """Return a text for rich in which nothing is read as markup.

    Args:
        text: of a user.

    Example:
        >>> print(terminal_text("[red]net"))
        \\[red]net
    """
    escaped = without_markup(visible_text(text))
    return escaped if Emoji.replace(escaped) == escaped else escaped.replace(":", f":{_EMPTY_MARKUP}")


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
    """Return a text for matplotlib, which reads ``$`` as a formula and hides legend entries that begin with ``_``.

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
    "[": "{[}",  # after the end of a table's row, LaTeX would read [...] as a height
    "]": "{]}",
    "*": "{*}",
    "†": r"$^\dagger$",
    "∞": r"$\infty$",
    "\ufffd": "?",
}


def latex_text(text: object) -> str:
    """Return a text in one line for LaTeX outside of formulas; it may also stand in a comment.

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
    """Return JSON without NaN or infinity, escaped so that it may stand in a script element of a page.

    Args:
        value: anything that :func:`json_value` accepts.
        indent: spaces per level; default: one line.

    Example:
        >>> import numpy as np
        >>> json_text({"name": "</script>", "size": np.float32(0.5), "none": float("nan")})
        '{"name": "\\\\u003c/script\\\\u003e", "size": 0.5, "none": null}'
    """
    text = json.dumps(_replace_nonfinite(json_value(value)), indent=indent, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("'", "\\u0027")


def _replace_nonfinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_replace_nonfinite(each) for each in value]
    if isinstance(value, dict):
        return {key: _replace_nonfinite(each) for key, each in value.items()}
    return value


def json_value(value: object, whose: str = "The value") -> Any:
    """Return a value with JSON's types: NumPy and torch values become numbers and lists, paths become texts.

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
            raise UserError(f"{whose} has the key {shorten(repr(other[0]))}; expected texts as keys.")
        return {str(key): json_value(each, f"{key} of {whose}") for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(each, whose) for each in value]
    if hasattr(value, "tolist"):  # of NumPy and torch
        return json_value(value.tolist(), whose)
    raise UserError(f"{whose} is {shorten(repr(value))}; expected a number, a text, a truth value, or lists of such.")
