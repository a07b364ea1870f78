"""Carry out studies and keep their tables and figures; ``python docs/_tools/facts.py`` then writes the claims into the
page of docs/research.

    python benchmarks/studies.py [NAME ...] [--size small] [--out DIR]

NAME: of a study that comes with the package, or ``paper_claims``, that of Fashion-MNIST; default: the four papers. What
``--out`` holds is not done again. Writes ``benchmarks/results/studies/NAME``.
"""

import argparse
import json
import re
import shutil
import time
from pathlib import Path

from PIL import Image

import robustatlas as ra
from robustatlas.studies import Studied, StudyDisplay, shipped

RESULTS = Path(__file__).parent / "results" / "studies"
WIDTH = 480
"""Largest width of the figures that are kept, in pixels."""


class _Lines(StudyDisplay):
    """Display with a line for each step, with its wall and processor time."""

    def step(self, name: str, number: int, of: int) -> None:
        self.name, self.begun = f"[{number}/{of}] {name}", (time.perf_counter(), time.process_time())

    def through(self, seconds: float) -> None:
        print(f"{self.name}: {seconds:.1f} s, {time.process_time() - self.begun[1]:.1f} s of a processor", flush=True)

    def say(self, sentence: str) -> None:
        print(sentence, flush=True)


def keep(done: Studied, folder: Path) -> None:
    """Keep the page with its tables, the tables as data, and the figures as small pictures."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = (done.folder / "study.md").read_text(encoding="utf-8")
    text = re.sub(r"\[[^\]]*\]\(outputs/[^)]*(?<!\.png)\)\n*", "", text).replace("](outputs/", "](")
    (folder / "README.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    tables = {name: [dict(zip(sheet.columns, row, strict=True)) for row in sheet.texts()]
              for name, sheet in done.tables.items()}  # fmt: skip
    (folder / "tables.json").write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in (figure for one in done.outputs for figure in one.figures):
        with Image.open(done.folder / "outputs" / f"{name}.png") as picture:
            picture.thumbnail((WIDTH, 4 * WIDTH), Image.Resampling.LANCZOS)
            picture.convert("RGB").quantize(32).save(folder / f"{name}.png", optimize=True)


def main() -> None:
    """Carry out, and keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(shipped()))
    parser.add_argument("--size", default="small")
    parser.add_argument("--out", type=Path, default=Path("studies"))
    given = parser.parse_args()
    for name in given.names:
        own = Path(__file__).parent / f"{name}.toml"
        done = ra.study(
            own if own.is_file() else name, given.out / f"{name}-{given.size}", given.size, progress=_Lines()
        )
        if lacking := [one.why or f"{one.title} waits" for one in done.outputs if one.why or one.waits]:
            raise SystemExit("\n".join(lacking))
        keep(done, RESULTS / name)


if __name__ == "__main__":
    main()
