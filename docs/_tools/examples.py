"""A Sphinx extension: what the pages show is true.

- Python of a page (fenced ``python``) and commands (``{terminal}``) run from top to bottom, in one namespace and one empty
  folder per page. A block that begins with ``# name.py`` is that file. `preambles.py` says what a page takes for granted.
- ``{terminal}`` shows what ``robustatlas ...`` and ``python FILE.py`` print.
- A block that needs a package of an extra that is not installed is left out, and the build says so.
- ``robustatlas ...`` in any other block is held against the commands and options that exist.

Whatever fails is a warning, and warnings are errors. Notebooks are run by myst-nb.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import matplotlib
from docutils import nodes
from docutils.parsers.rst import directives
from preambles import PREAMBLES, SHORTER
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

logger = logging.getLogger(__name__)

FILE = re.compile(r"# ([\w-]+\.py)\n")
COMMAND = re.compile(r"^\s*\$?\s*(robustatlas (?:.|\\\n)*)$", re.MULTILINE)
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
SHELLS = ("console", "sh", "shell", "bash", "none", "text", "default", "")


def folder_of(app: Sphinx, page: str) -> Path:
    return Path(app.outdir).parent / "examples" / page


def fresh_folder(app: Sphinx, page: str, _: list[str]) -> None:
    """Before a page is read: an empty folder for what it runs."""
    shutil.rmtree(folder_of(app, page), ignore_errors=True)


class Terminal(SphinxDirective):
    """Commands, separated by empty lines, run in the page's folder and shown with what they print."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "silent": directives.flag,  # commands only
        "hidden": directives.flag,  # nothing is shown
        "first": directives.nonnegative_int,  # so many lines of the output
    }

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        block = nodes.literal_block(text, text, language="console", classes=["terminal"])
        block["shown"] = dict(self.options)
        self.set_source_info(block)
        return [block]


def run_commands(block: nodes.literal_block, folder: Path) -> None:
    """Put commands in the place of themselves with what they print."""
    options, shown = block.attributes.pop("shown"), []
    for command in block.astext().split("\n\n"):
        status, printed = run_command(command, folder)
        if status:
            logger.warning("%s\n%s", command, printed[-2000:], location=block)
        shown.append("$ " + command)
        if "silent" not in options:
            lines = [line.rstrip() for line in printed.replace(f"{folder}{os.sep}", "").strip("\n").splitlines()]
            first = options.get("first", len(lines))
            shown += lines[:first] + ["..."] * (len(lines) > first)
    if "hidden" in options:
        block.parent.remove(block)
        return
    text = "\n".join(shown)
    block.rawsource, block.children = text, []
    block += nodes.Text(text)


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Exit status and output of ``robustatlas ...`` or ``python FILE.py``; in this process, where torch is imported."""
    from robustatlas.cli import main

    output, errors, before = StringIO(), StringIO(), sys.argv
    sys.argv = shlex.split(command.replace("\\\n", " "))
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


def run_page(app: Sphinx, tree: nodes.document) -> None:
    page = app.env.docname
    blocks = [node for node in tree.findall(nodes.literal_block) if _runs(node)]
    if blocks and not page.startswith("api/"):
        _run(app, page, blocks)
    for node in tree.findall(nodes.literal_block):
        if node.get("language", "") in SHELLS and "terminal" not in node["classes"]:
            for line, sentence in wrong_commands(node.astext()):
                logger.warning("%r: %s", line, sentence, location=node)


def _runs(node: nodes.literal_block) -> bool:
    return node.get("language") == "python" or "terminal" in node["classes"]


def _run(app: Sphinx, page: str, blocks: list[nodes.literal_block]) -> None:
    folder = folder_of(app, page)
    folder.mkdir(parents=True, exist_ok=True)
    module = sys.modules["robustatlas_example"] = ModuleType("robustatlas_example")
    names, surroundings = vars(module), dict(os.environ)
    with chdir(folder), redirect_stdout(StringIO()):
        exec(compile(PREAMBLES.get(page, ""), f"preamble of {page}", "exec"), names)
    for node in blocks:
        if "terminal" in node["classes"]:
            run_commands(node, folder)
        else:
            with chdir(folder), redirect_stdout(StringIO()):
                _run_block(page, node, folder, names)
    os.environ.clear()
    os.environ.update(surroundings)
    import matplotlib.pyplot as plt

    plt.close("all")


def _run_block(page: str, node: nodes.literal_block, folder: Path, names: dict[str, Any]) -> None:
    code = node.astext()
    for shown, run in SHORTER.get(page, {}).items():
        code = code.replace(shown, run)
    if file := FILE.match(code):
        (folder / file[1]).write_text(code, encoding="utf-8")
        return
    try:
        exec(compile(code, f"{page}.md", "exec"), names)
    except Exception as error:
        if absent := needs_extra(error):
            logger.info("%s: an example is left out, it needs %s", page, absent)
        else:
            logger.warning("an example fails:\n%s", traceback.format_exc(limit=-3), location=node)


def needs_extra(error: BaseException) -> str:
    """The package of an extra whose absence an error tells of; empty for any other error."""
    while error.__cause__ is not None:
        error = error.__cause__
    missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    return missing if missing.split(".")[0] in EXTRAS else ""


def wrong_commands(text: str) -> Iterator[tuple[str, str]]:
    """Of the ``robustatlas`` commands in a text those that do not exist, or have options that do not."""
    from robustatlas.cli import app

    for match in COMMAND.finditer(text.replace("\\\n", " ")):
        line = match[1].strip()
        words = shlex.split(line, comments=True)[1:]
        command: Any = get_command(app)
        while words and hasattr(command, "commands"):
            if words[0].startswith("-"):
                break
            known = command.commands
            if words[0] not in known:
                yield line, f"there is no command {words[0]!r}"
                return
            command, words = known[words[0]], words[1:]
        options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        options |= {"--help", "-h"}
        for word in words:
            name = word.split("=")[0]
            if name.startswith("-") and not re.match(r"-[\d.]", name) and name not in options:
                yield line, f"{command.name} has no option {name}"


def prose(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In docstrings, bars and stars outside of code are bars and stars: |x| is no substitution, acc* no emphasis."""
    for k, line in enumerate(lines):
        if ">>>" not in line and "..." not in line[:12]:
            parts = line.split("`")
            parts[::2] = [re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in parts[::2]]
            lines[k] = "`".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    matplotlib.use("agg")  # of the Python of pages, which runs in this process; kernels have their own
    app.add_directive("terminal", Terminal)
    app.connect("source-read", fresh_folder)
    app.connect("doctree-read", run_page)
    app.connect("autodoc-process-docstring", prose, priority=100)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
