"""Templates and static files, and how values get into pages: always escaped."""

import base64
import gzip
import re
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import jinja2
from markupsafe import Markup

from robustatlas.common import typed_strengths, wording
from robustatlas.common.attack_labels import attack_label
from robustatlas.common.escaping import html_text, visible_text
from robustatlas.common.wording import elide_middle

LONGEST_PART = 20
"""Characters that stand together without a place to break."""

LONGEST_WORD = 12
"""Characters of a word of several capitals (WideResNet) that stay together."""

_JOINTS = re.compile(r"(?<=[-_/.:+ …])")
_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("robustatlas.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible_lines,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(attack_label=attack_label, typed_strengths=typed_strengths, wording=wording)
    environment.filters["model"] = breakable
    environment.filters["packed"] = packed
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    return environment


def _visible_lines(value: Any) -> Any:
    """Return a text of a page without control characters, in its lines; whatever else is as it is."""
    return "\n".join(map(visible_text, value.split("\n"))) if type(value) is str else value


def render(template: str, **values: Any) -> str:
    """The page that a template makes of the values; text is escaped, and `| tojson` is safe inside a script element."""
    return _templates().get_template(template).render(**values)


def static(name: str) -> str:
    """The text of one of our style sheets or scripts."""
    return (files("robustatlas.report") / "static" / name).read_text(encoding="utf-8")


def inline(name: str) -> Markup:
    """A style sheet or script of ours for use inside a page."""
    text = static(name)
    return inline_script(text) if name.endswith(".js") else Markup(text)


def inline_script(text: str) -> Markup:
    """A script for use inside a page, where no string of it may end the script element."""
    return Markup(text.replace("</script", "<\\/script").replace("<!--", "<\\!--"))


def plotly_script() -> str:
    """The basic bundle of plotly.js, as npm's plotly.js-basic-dist-min ships it: lines, marks and bars, a quarter of
    the whole library. Pages work without a network, so it is part of this package, with its licence in its head."""
    return static("plotly-basic.min.js")


@cache
def packed_plotly() -> str:
    """plotly.js compressed and in letters, for a page that unpacks it in the browser: a third of its size."""
    return packed(plotly_script())


def packed(text: str) -> str:
    """A text compressed and in letters, as the page's script unpacks it."""
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")


def web_address(url: str) -> str:
    """`url` where it is an http or https address, else nothing: other schemes (javascript:, data:) are not papers.

    >>> web_address("https://arxiv.org/abs/2302.10980"), web_address("javascript:alert(1)")
    ('https://arxiv.org/abs/2302.10980', '')
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    return url.strip() if parts.scheme in ("http", "https") and parts.netloc else ""


def parts(name: str) -> list[str]:
    """The pieces between which a name may be broken; a piece that is too long loses its middle.

    >>> parts("Dai2023MultiRobustBench_LPIPS")
    ['Dai2023', 'Multi', 'Robust', 'Bench_', 'LPIPS']
    >>> parts("WideResNet-28-10")
    ['WideResNet-', '28-', '10']
    """
    words = [word for word in _JOINTS.split(elide_middle(name)) if word]
    pieces = [piece for word in words for piece in (_CAPITALS.split(word) if len(word) > LONGEST_WORD else [word])]
    return [part for piece in pieces for part in _JOINTS.split(elide_middle(piece, LONGEST_PART)) if part]


def breakable(name: str) -> Markup:
    """A name for a page: short, with its whole length on hover, and places to break.

    >>> breakable("a_b")
    Markup('<span class="model">a_<wbr>b</span>')
    """
    pieces = parts(name)
    whole = Markup("") if "".join(pieces) == name else Markup(' title="{}"').format(html_text(name))
    return Markup('<span class="model"{}>{}</span>').format(whole, Markup("<wbr>").join(map(html_text, pieces)))
