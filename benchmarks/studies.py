"""Carry out studies and keep their tables and figures; ``python docs/_tools/facts.py`` then writes the claims into the
page of docs/research.

    python benchmarks/studies.py [NAME ...] [--size small] [--out DIR]

NAME: of a study that comes with the package; default: the four papers. What ``--out`` holds is not done again. Writes
``benchmarks/results/studies/NAME``, with the seconds that each step took when it was first done, ``seconds.json``.
"""

import argparse
import json
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

import robustatlas as ra
from robustatlas.studies import Studied, StudyDisplay, shipped_studies

RESULTS = Path(__file__).parent / "results" / "studies"
WIDTH = 480
"""Largest width of the figures that are kept, in pixels."""


class _Lines(StudyDisplay):
    """Display with a line for each step and its wall and processor time, which are kept in a file.

    Args:
        file: of the seconds; steps that it has already are left as they are.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.seconds: dict[str, dict[str, float]] = json.loads(file.read_text()) if file.is_file() else {}

    def step(self, name: str, number: int, of: int) -> None:
        self.name, self.place, self.begun = name, f"[{number}/{of}]", time.process_time()

    def finish_step(self, seconds: float) -> None:
        processor = time.process_time() - self.begun
        print(f"{self.place} {self.name}: {seconds:.1f} s, {processor:.1f} s of a processor", flush=True)
        self.seconds.setdefault(self.name, {"wall": round(seconds, 1), "processor": round(processor, 1)})
        self.file.write_text(json.dumps(self.seconds, indent=1) + "\n")

    def say(self, sentence: str) -> None:
        print(sentence, flush=True)


def keep(done: Studied, folder: Path, seconds: Mapping[str, Mapping[str, float]]) -> None:
    """Write the page with its tables, the tables as data, the figures as small pictures, and the seconds it took."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = (done.folder / "study.md").read_text(encoding="utf-8")
    text = re.sub(r"\[[^\]]*\]\(outputs/[^)]*(?<!\.png)\)\n*", "", text).replace("](outputs/", "](")
    (folder / "README.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    tables = {name: [dict(zip(sheet.columns, row, strict=True)) for row in sheet.texts()]
              for name, sheet in done.tables.items()}  # fmt: skip
    (folder / "seconds.json").write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf-8")
    (folder / "tables.json").write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in (figure for one in done.outputs for figure in one.figures):
        with Image.open(done.folder / "outputs" / f"{name}.png") as picture:
            picture.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
            picture.convert("RGB").quantize(32).save(folder / f"{name}.png", optimize=True)


def main() -> None:
    """Carry out the studies, and keep what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(shipped_studies()))
    parser.add_argument("--size", default="small")
    parser.add_argument("--out", type=Path, default=Path("studies"))
    given = parser.parse_args()
    for name in given.names:
        given.out.mkdir(parents=True, exist_ok=True)
        lines = _Lines(given.out / f"{name}-{given.size}-seconds.json")
        done = ra.study(name, given.out / f"{name}-{given.size}", given.size, progress=lines)
        if lacking := [one.why or f"{one.title} waits" for one in done.outputs if one.why or one.waits]:
            raise SystemExit("\n".join(lacking))
        keep(done, RESULTS / name, lines.seconds)


if __name__ == "__main__":
    main()
