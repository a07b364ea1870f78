"""Results in the forms that other programs and auditors read. A new form is a file here and one entry below."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustatlas.report.exports import evidence, model_card, pictures, trackers
from robustatlas.results.result import Result


@dataclass(frozen=True)
class Exporter:
    """A form. ``suffix``: of the file, where no other name is given; empty for a service that needs no file. ``write``:
    writes a result to a path (or None), and says where it is."""

    name: str
    about: str
    suffix: str
    write: Callable[[Result, Any], str | None]

    def path(self, run: Path) -> Path | None:
        """Where to, where nothing else is said."""
        return run.with_name(run.name + self.suffix) if self.suffix else None


_ALL = (
    Exporter(
        "evidence", "each sample's outcome under each attack, as JSON with a schema", ".json", evidence.write_json
    ),
    Exporter("parquet", "the same as a Parquet table", ".parquet", evidence.write_table),
    Exporter("mlflow", "a run of MLflow, with metrics, settings, figure and evidence", "", trackers.write_mlflow),
    Exporter("wandb", "a run of Weights & Biases, likewise", "", trackers.write_wandb),
    Exporter(
        "png", "the examples that the run kept, a picture each, for `verify`", "-examples", pictures.write_pictures
    ),
    Exporter("huggingface-card", "the model-index and a table in a model card", ".md", model_card.write),
)
EXPORTERS: Mapping[str, Exporter] = {exporter.name: exporter for exporter in _ALL}
"""Name -> form."""
