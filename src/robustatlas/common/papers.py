"""The papers that docs, docstrings and records name, by authors and year."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAMED = re.compile(r"\b[A-ZÀ-Þ][\w\-]+(?: et al\.?|(?:, [A-ZÀ-Þ][\w\-]+)* and [A-ZÀ-Þ][\w\-]+)? (?:\d{4}[a-z]?)\b")
"""What looks like a paper: authors, then a year."""
_ET_AL = re.compile(r" et al\.? ")
_ARXIV = "https://arxiv.org/abs/"


@dataclass(frozen=True)
class Paper:
    """One paper. ``name``: authors and year, as texts name it; those that share both have a letter. ``authors``: all of
    them, joined by "and"; empty where only its address is known here.

    >>> known("Pintor et al. 2021").key
    'pintor2021'
    """

    name: str
    title: str
    where: str
    authors: str = ""

    @property
    def key(self) -> str:
        """By which LaTeX cites it: its name without what joins authors."""
        return re.sub("[^a-z0-9]", "", _ascii(re.sub(" et al. | and ", " ", self.name)).lower())

    @property
    def bibtex(self) -> str:
        """Its BibTeX entry."""
        fields = {"author": self.authors, "title": f"{{{self.title}}}", "year": self.name.split()[-1][:4]}
        if self.where.startswith(_ARXIV):
            fields |= {"eprint": self.where.removeprefix(_ARXIV), "archivePrefix": "arXiv"}
        fields["url"] = self.where
        said = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
        return f"@misc{{{self.key},\n{said}\n}}"


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


@cache
def papers() -> dict[str, Paper]:
    """All of them, by their names."""
    told = tomllib.loads(files("robustatlas.common").joinpath("papers.toml").read_text(encoding="utf-8"))
    return {name: Paper(name, **fields) for name, fields in told.items()}


def known(name: str) -> Paper | None:
    """The paper of that name, if there is one.

    >>> known("Croce and Hein 2020").title[:33]
    'Reliable evaluation of adversaria'
    """
    return papers().get(_ET_AL.sub(" et al. ", " ".join(name.split())))


def named_in(text: str) -> Iterator[re.Match[str]]:
    """Where a text names papers; a month before a year is none.

    >>> [match[0] for match in named_in("As in Madry et al. 2018, since May 2020.")]
    ['Madry et al. 2018']
    """
    for match in _NAMED.finditer(text):
        if "et al" in match[0] or " and " in match[0] or known(match[0]):
            yield match
