"""Results in the forms that other programs and auditors read. A new form is a file here and one entry below."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from robustatlas.report.exports import evidence, pictures
from robustatlas.results.result import Result


@dataclass(frozen=True)
class Exporter:
    """A form in which results are exported.

    ``suffix``: end of the path if no other path is given; ``write``: writes a result to a path.
    """

    name: str
    about: str
    suffix: str
    write: Callable[[Result, Path], None]

    def path(self, run: Path) -> Path:
        """Return the path beside ``run`` to which the export goes if no other path is given."""
        return run.with_name(run.name + self.suffix)


_ALL = (
    Exporter(
        "evidence", "each sample's outcome under each attack, as JSON with a schema", ".json", evidence.write_json
    ),
    Exporter("parquet", "the same as a Parquet table", ".parquet", evidence.write_table),
    Exporter(
        "png", "the examples that the run kept, a picture each, for `verify`", "-examples", pictures.write_pictures
    ),
)
EXPORTERS: Mapping[str, Exporter] = {exporter.name: exporter for exporter in _ALL}
"""Forms of export by name."""
