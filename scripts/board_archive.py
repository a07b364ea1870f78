"""Pack the runs of a board into one small archive, from which the board's pages and claims can be made."""

import lzma
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GRAIN = 1 / 256
"""Unit to which margins are rounded."""


def archive_runs(runs: Path, archive: Path) -> None:
    """Pack the runs in a folder as ``archive`` (``.tar.xz``): each as ``runs/NAME``, a run to be read like any other.

    Sizes, classes, costs and records are as they were. The lowest margins, most of what a run holds, are rounded to
    :data:`GRAIN` and cut at 0, which is all that a hypervolume asks of those of samples that are misclassified: no
    sample's hypervolume moves by more than half of it. The parts of an attack that were computed alike are one, and
    locks are left out. The same runs give the same archive.
    """
    kept = (path.relative_to(runs) for path in runs.rglob("*") if path.is_file() and path.suffix != ".lock")
    # What is alike lies side by side, and tables lie uncompressed: the archive presses them all together.
    files = sorted(kept, key=lambda path: (path.suffix, path.parts[1:3], path))
    with (
        TemporaryDirectory() as folder,
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as pressed,
        tarfile.open(fileobj=pressed, mode="w") as packed,
    ):
        for parts in _group_parts(runs, files):
            source, name = runs / parts[0], parts[0].as_posix()
            if source.suffix == ".parquet":
                table = _concatenate_tables([_coarse(pq.read_table(runs / part)) for part in parts])
                source, name = Path(folder, "table.parquet"), _part_name(name, len(table))
                pq.write_table(table, source, compression="NONE", use_dictionary=False, write_statistics=False)
            packed.add(source, f"runs/{name}", filter=_anonymous)


def _group_parts(runs: Path, files: Iterable[Path]) -> list[list[Path]]:
    """Group parts of one attack that were computed in the same way and place; other files stay alone."""
    groups: dict[object, list[Path]] = {}
    for file in files:
        groups.setdefault(_kind(runs, file), []).append(file)
    return list(groups.values())


def _kind(runs: Path, file: Path) -> object:
    """Return what parts must have in common to be joined; a part keeps its name if images share it."""
    run, _, *rest = file.parts
    if file.suffix != ".parquet" or runs.joinpath(run, "adversarial", *rest).with_suffix(".npz").exists():
        return file
    schema = pq.read_schema(runs / file)
    said = frozenset((key, text) for key, text in (schema.metadata or {}).items() if key != b"created")
    return file.parent, tuple(sorted(schema.names)), said


def _concatenate_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all parts as one table, with the metadata of the first."""
    metadata = tables[0].schema.metadata
    return pa.concat_tables([table.replace_schema_metadata(metadata) for table in tables])


def _part_name(name: str, rows: int) -> str:
    """Return the name of a part with another number of rows."""
    begin, _, own = name.rsplit("-", 2)
    return f"{begin}-{rows}-{own}"


def _coarse(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("margins")
    if at < 0:
        return table
    field = table.schema.field(at)
    margins = np.array(table["margins"].to_pylist(), np.float64)  # NaN where not recorded
    rounded = [[None if np.isnan(m) else m for m in row] for row in np.maximum(np.round(margins / GRAIN) * GRAIN, 0)]
    return table.set_column(at, field, pa.array(rounded, field.type))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of who packed it and when."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
