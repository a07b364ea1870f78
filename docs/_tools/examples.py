"""Run what the pages show: their Python, and the commands that stand below ``<!-- runs -->``.

python docs/_tools/examples.py [PAGE...]           # what fails is named, and the exit code is 1
python docs/_tools/examples.py --write [PAGE...]   # and write into the pages what was printed

- All of a page (fenced ``python`` and marked ``console``) runs from top to bottom, in one namespace and one empty folder.
  A block that begins with ``# name.py`` is that file. `preambles.py` says what a page takes for granted.
- ``<!-- runs -->`` stands above commands, each after ``$ ``, and what they print below them. ``<!-- runs: silent -->`` shows
  the commands alone, ``<!-- runs: 12 lines -->`` the first lines of what they print.
- ``<!-- prints -->`` stands above what the Python before it prints.
- A block that needs a package of an extra that is not installed is left out, and the run says so.

What is printed has times and other numbers of one machine in it, so it is written when asked for, and not compared.
"""

import argparse
import os
import re
import runpy
import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from preambles import PREAMBLES, SHORTER

DOCS = Path(__file__).parents[1]
BLOCK = re.compile(
    r"<!-- runs(?:: (?P<how>silent|\d+ lines))? -->\n```console\n(?P<shell>.*?)```$"
    r"|<!-- prints -->\n```text\n(?P<text>.*?)```$"
    r"|^```python\n(?P<python>.*?)```$",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
FILE = re.compile(r"# ([\w-]+\.py)\n")
EXTRAS = (
    "autoattack",
    "foolbox",
    "jax",
    "onnx",
    "onnxscript",
    "pyautoattack",
    "ray",
    "robustbench",
    "tensorflow",
    "timm",
    "torchattacks",
    "torchvision",
    "transformers",
)


def block_commands(shell: str) -> list[str]:
    """The commands of a block, as they are typed."""
    return COMMAND.findall(shell)


@dataclass
class Session:
    """One page while it runs: its folder and names, what its Python printed last, and what failed."""

    page: str
    folder: Path
    names: dict[str, Any]
    printed: str = ""
    faults: list[str] = field(default_factory=list)

    def replaced(self, block: re.Match[str]) -> str:
        """Run a block of the page; the block as it is now."""
        if block["python"] is not None:
            self.python(block["python"])
        elif block["text"] is not None:
            return f"<!-- prints -->\n```text\n{self.printed.strip(chr(10))}\n```"
        else:
            return self.shell(block)
        return block[0]

    def python(self, code: str) -> None:
        for shown, run in SHORTER.get(self.page, {}).items():
            code = code.replace(shown, run)
        if file := FILE.match(code):
            (self.folder / file[1]).write_text(code, encoding="utf-8")
            return
        output = StringIO()
        try:
            with chdir(self.folder), redirect_stdout(output):
                exec(compile(code, f"{self.page}.md", "exec"), self.names)
        except Exception as error:
            if absent := needs_extra(error):
                print(f"{self.page}: an example is left out, it needs {absent}")
            else:
                self.faults.append(f"{self.page}: an example fails:\n{traceback.format_exc(limit=-3)}")
        self.printed = output.getvalue()

    def shell(self, block: re.Match[str]) -> str:
        how, shown = block["how"] or "", []
        for command in block_commands(block["shell"]):
            status, printed = run_command(command, self.folder)
            if status:
                self.faults.append(f"{self.page}: {command}\n{printed[-2000:]}")
            shown.append(f"$ {command}")
            if how != "silent":
                lines = [
                    line.rstrip() for line in printed.replace(f"{self.folder}{os.sep}", "").strip("\n").splitlines()
                ]
                first = int(how.split()[0]) if how else len(lines)
                shown += lines[:first] + ["..."] * (len(lines) > first)
        mark = f"<!-- runs: {how} -->" if how else "<!-- runs -->"
        return "\n".join([mark, "```console", *shown, "```"])


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Exit status and output of ``robustatlas ...`` or ``python FILE.py``; in this process, where torch is imported."""
    from robustatlas.cli import main

    output, errors, before = StringIO(), StringIO(), sys.argv
    sys.argv = shlex.split(command.replace("\\\n", " "), comments=True)
    try:
        with chdir(folder), redirect_stdout(output), redirect_stderr(errors):
            if sys.argv[0] == "python":
                sys.argv.pop(0)
                runpy.run_path(sys.argv[0], run_name="__main__")
            else:
                main()
        status = 0
    except SystemExit as stop:
        status = int(stop.code or 0)
    except Exception:
        status = 1
        errors.write(traceback.format_exc(limit=-3))
    finally:
        sys.argv = before
    return status, errors.getvalue() if status else output.getvalue()


def needs_extra(error: BaseException) -> str:
    """The package of an extra whose absence an error tells of; empty for any other error."""
    while error.__cause__ is not None:
        error = error.__cause__
    missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    return missing if missing.split(".")[0] in EXTRAS else ""


def guides() -> Iterator[Path]:
    """Pages with something to run."""
    for page in sorted(DOCS.glob("*.md")):
        if BLOCK.search(page.read_text(encoding="utf-8")):
            yield page


def ran(page: Path) -> tuple[str, list[str]]:
    """A page with what it prints now, and its faults."""
    import matplotlib.pyplot as plt

    module = sys.modules["robustatlas_example"] = ModuleType("robustatlas_example")
    surroundings = dict(os.environ)
    with TemporaryDirectory() as place:
        session = Session(page.stem, Path(place), vars(module))
        with chdir(place), redirect_stdout(StringIO()):
            exec(compile(PREAMBLES.get(page.stem, ""), f"preamble of {page.stem}", "exec"), session.names)
        text = BLOCK.sub(session.replaced, page.read_text(encoding="utf-8"))
    os.environ.clear()
    os.environ.update(surroundings)
    plt.close("all")
    return text, session.faults


def main() -> int:
    """Run the pages that are asked for, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="write into the pages what was printed")
    given = parser.parse_args()
    os.environ.update(COLUMNS="88", NO_COLOR="1", MPLBACKEND="agg")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    wrong = 0
    for page in given.pages or guides():
        text, faults = ran(page)
        wrong += len(faults)
        print(*faults, sep="\n", end="\n" if faults else "")
        if given.write and not faults:
            page.write_text(text, encoding="utf-8")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
