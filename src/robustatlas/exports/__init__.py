"""Results in the forms that other programs and auditors read. A new form is a file here and one entry below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from robustatlas.exports.evidence import write_json, write_table
from robustatlas.result import Result


@dataclass(frozen=True)
class Exporter:
    """A form.

    Attributes:
        name: by which it is asked for.
        about: what is written, in one line.
        suffix: of the file, where no other name is given.
        write: writes a result to a path.
    """

    name: str
    about: str
    suffix: str
    write: Callable[[Result, Path], None]


_ALL = (
    Exporter("evidence", "every sample's outcome under every attack, with what made it, as JSON", ".json", write_json),
    Exporter(
        "parquet", "the same as a Parquet table, with what made it in the file's metadata", ".parquet", write_table
    ),
)
EXPORTERS: Mapping[str, Exporter] = {exporter.name: exporter for exporter in _ALL}
"""Name -> form."""
