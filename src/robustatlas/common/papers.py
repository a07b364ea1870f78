"""The papers that docs, docstrings and records name, by authors and year."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_CITATION = re.compile(r"\b[A-ZÀ-Þ][\w\-]+(?: et al\.?|(?:, [A-ZÀ-Þ][\w\-]+)* and [A-ZÀ-Þ][\w\-]+)? (?:\d{4}[a-z]?)\b")
"""Pattern of a citation in a text: authors, then a year."""
_ET_AL = re.compile(r" et al\.? ")
_ARXIV = "https://arxiv.org/abs/"


@dataclass(frozen=True)
class Paper:
    """Paper that the package cites.

    Attributes:
        name: authors and year, as texts cite it, such as "Pintor et al. 2021"; a letter follows the year if two agree.
        title: of the paper.
        url: its address.
        authors: all of them, joined by "and"; may be empty.

    >>> find_paper("Pintor et al. 2021").key
    'pintor2021'
    """

    name: str
    title: str
    url: str
    authors: str = ""

    @property
    def key(self) -> str:
        """BibTeX key, such as "pintor2021"."""
        return re.sub("[^a-z0-9]", "", _ascii(re.sub(" et al. | and ", " ", self.name)).lower())

    @property
    def bibtex(self) -> str:
        """BibTeX entry."""
        fields = {"author": self.authors, "title": f"{{{self.title}}}", "year": self.name.split()[-1][:4]}
        if self.url.startswith(_ARXIV):
            fields |= {"eprint": self.url.removeprefix(_ARXIV), "archivePrefix": "arXiv"}
        fields["url"] = self.url
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
        return f"@misc{{{self.key},\n{lines}\n}}"


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


@cache
def papers() -> dict[str, Paper]:
    """Return all papers by name."""
    entries = tomllib.loads(files("robustatlas.common").joinpath("papers.toml").read_text(encoding="utf-8"))
    return {name: Paper(name, **fields) for name, fields in entries.items()}


def find_paper(name: str) -> Paper | None:
    """Return the paper with a name such as "Madry et al. 2018", or None.

    >>> find_paper("Croce and Hein 2020").title[:33]
    'Reliable evaluation of adversaria'
    """
    return papers().get(_ET_AL.sub(" et al. ", " ".join(name.split())))


def find_citations(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of citations in a text; a month before a year is not a citation.

    >>> [match[0] for match in find_citations("As in Madry et al. 2018, since May 2020.")]
    ['Madry et al. 2018']
    """
    for match in _CITATION.finditer(text):
        if "et al" in match[0] or " and " in match[0] or find_paper(match[0]):
            yield match
