"""The runs of a board as one small archive, which has what the board's pages and claims are made of."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

GRAIN = 1 / 256
"""What margins are rounded to."""


def archive_runs(runs: Path, archive: Path) -> None:
    """Pack the runs in a folder as ``archive`` (``.tar.xz``): each as ``runs/NAME``, a run to be read like any other.

    Sizes, classes, costs and records are as they were. The lowest margins, most of what a run holds, are rounded to
    :data:`GRAIN` and cut at 0, which is all that a hypervolume asks of those of samples that are misclassified: no
    sample's hypervolume moves by more than half of it. Locks are left out. The same runs give the same archive.
    """
    # What is alike lies side by side, and tables lie uncompressed: the archive presses them all together.
    files = sorted(
        (path.relative_to(runs) for path in runs.rglob("*") if path.is_file() and path.suffix != ".lock"),
        key=lambda path: (path.suffix, path.parts[1:3], path),
    )
    with (
        TemporaryDirectory() as folder,
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as pressed,
        tarfile.open(fileobj=pressed, mode="w") as packed,
    ):
        for file in files:
            source = runs / file
            if file.suffix == ".parquet":
                source = Path(folder, "table.parquet")
                table = _coarse(pq.read_table(runs / file))
                pq.write_table(table, source, compression="NONE", use_dictionary=False, write_statistics=False)
            packed.add(source, Path("runs", file).as_posix(), filter=_anonymous)


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
