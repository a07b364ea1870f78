"""Names of users in every output: a table of wicked ones, each output read back by a parser of its own."""

import csv
import io
import json
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from rich.console import Console

import robustatlas as ra
from robustatlas.common import escaping
from robustatlas.common.tabular import Grid
from robustatlas.metrics import RobustnessCurve
from robustatlas.metrics.figures import plot_curves, plot_panels, plot_scores
from robustatlas.report.card import card
from robustatlas.report.gate.formats import as_junit, as_markdown
from robustatlas.report.gate.verdict import Check, Decision
from robustatlas.report.pages import breakable
from robustatlas.results.result import Result

NAMES = [
    "plain", "_baseline", "__both__", "$x$", "a$b", "$", r"\$", r"$\frac$", "100 % & more", "x^2 ~ y_i #1 {z}",
    r"C:\models\net", "\\", "ends in \\", "[red]", "[/red]", "[bold]b[/bold]", "[", "]", "a [link=x]y", ":bug: :cat:",
    "</script><script>alert(1)</script>", "<!--", "-->", "]]>", "<b>&amp;</b>", "\"quoted\" 'twice'", "a|b", "`code`",
    "``", "# heading", "- list", "--", "1. one", "![x](y)", "*bold* _it_", "~~gone~~", "\x1b[31mred", "bell\x07",
    "null\x00",
    "two\nlines", "tab\there", "cr\rlf\r\n", "\x85\u2028\u2029", "\u202eesrever", "half \ud800 pair", "\ufffe\uffff",
    "=1+1", "+1", "-1", "@SUM(A1)", "naïve – ünï", "日本語", "🐈", " spaces ", "", "%", "{{ name }}", "{% if %}", "//",
    "?`",
]  # fmt: skip
"""What a user may call a model."""


def seen(name: str) -> str:
    """The name as any output shows it."""
    return escaping.visible_text(name)


@pytest.mark.parametrize("name", NAMES)
def test_control_characters_are_shown_and_nothing_else_changes(name: str) -> None:
    shown = seen(name)
    assert len(shown) == len(name) and "\n" not in shown and seen(shown) == shown
    assert all(after in (before, "\ufffd", " ") for before, after in zip(name, shown, strict=True))
    ElementTree.fromstring(f"<a>{escaping.html_text(name)}</a>")
    shown.encode()


@pytest.mark.parametrize("name", NAMES)
def test_terminals_print_the_name(name: str) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200, color_system="truecolor", force_terminal=True, highlight=False)
    console.print(f"[bold]{escaping.terminal_text(name)}[/bold] and [green]more[/green].", soft_wrap=True)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert printed == f"{seen(name)} and more.\n"
    grid = Grid(name, ("model", name), [(name, "1")])
    for text in (grid.text(), "".join(grid.html())):
        assert "\x1b" not in text and "\x00" not in text
    console.print(grid.rich())
    assert seen(name).strip() in out.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "") or len(name) > 30


class Texts(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Texts:
    found = Texts()
    found.feed(page)
    found.close()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_pages_show_the_name_and_run_nothing_of_it(name: str) -> None:
    found = read(f'<p title="{escaping.html_text(name)}">{escaping.html_text(name)}</p>')
    assert found.elements == [("p", [("title", seen(name))])] and found.text == seen(name)
    broken = read(str(breakable(name)))
    assert {tag for tag, _ in broken.elements} <= {"span", "wbr"}
    if len(name) < 12:
        assert broken.text == seen(name)
    assert read(Grid("", ("a",), [(name,)]).html()).text == f"a{seen(name)}"


@pytest.mark.parametrize("name", NAMES)
def test_json_in_a_page_is_read_back(name: str) -> None:
    value = {"name": name.replace("\ud800", ""), "at": [np.float32(0.5), np.inf, np.nan], "n": np.int64(3)}
    text = escaping.json_text(value)
    page = read(f"<script>{text}</script><p></p>")
    assert [tag for tag, _ in page.elements] == ["script", "p"]
    assert json.loads(text) == {"name": value["name"], "at": [0.5, None, None], "n": 3}


@pytest.mark.parametrize("name", NAMES)
def test_pictures_and_verdicts_are_well_formed_xml(name: str) -> None:
    run = Result.from_arrays([0], [0], {"linf": [0.1]}, {"linf": [0.2]}, model="a", data=name)
    root = ElementTree.fromstring(card(run, "none").svg())
    assert root.attrib["aria-label"].startswith(f"Robustness card of a on 1 image of {seen(name)}")
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert f"1 image of {seen(name)}" in texts or any("…" in text for text in texts)
    suite = ElementTree.fromstring(as_junit([Check(name, Decision.NOT_KEPT, name)], name))
    case = next(iter(suite))
    assert (case.attrib["name"], case[0].attrib["message"]) == (seen(name), seen(name))
    assert suite.attrib["name"].endswith(seen(name))


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_markdown_keep_their_cells(name: str) -> None:
    text = as_markdown([Check(name, Decision.KEPT, name)], name)
    row = text.splitlines()[4]
    assert len(text.splitlines()) == 5
    cells = re.split(r"(?<!\\)(?:\\\\)*\|", row)
    assert len(cells) == 5, "one empty before, one empty after, and three cells"
    unescaped = re.sub(r"\\([\\`*_{}\[\]<>#|~!$&])", r"\1", escaping.markdown_text(name))
    assert unescaped == seen(name)
    MarkdownIt = pytest.importorskip("markdown_it").MarkdownIt
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    cells = [token for token in parsed if token.type == "inline"][-3:]
    code = [child.content for child in cells[1].children if child.type == "code_inline"]
    assert code == [seen(name)] or not seen(name).strip(" `")
    assert "".join(child.content for child in cells[2].children) == seen(name).strip()
    assert {child.type for child in cells[2].children} <= {"text", "text_special"}


@pytest.mark.parametrize("name", NAMES)
def test_spreadsheets_compute_nothing_of_it(name: str) -> None:
    out = io.StringIO()
    csv.writer(out).writerow([escaping.spreadsheet_cell(name), escaping.spreadsheet_cell(-0.5)])
    ((cell, number),) = csv.reader(io.StringIO(out.getvalue()))
    assert not cell.startswith(("=", "+", "-", "@")) and cell.removeprefix("'") == seen(name).removeprefix("'")
    assert number == "-0.5"


_COMMANDS = r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar|textasciigrave)\{\}"


@pytest.mark.parametrize("name", NAMES)
def test_latex_holds_nothing_that_is_a_command_of_the_user(name: str) -> None:
    """By letters: outside of the commands above, of escaped signs and of braces around one sign nothing is special."""
    text = escaping.latex_text(name)
    assert "\n" not in text and text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    rest = re.sub(_COMMANDS, "", text)
    rest = re.sub(r"\\[&%$#_{}]", "", rest)
    rest = re.sub(r"\{[\[\]*]\}|-\{\}-", "", rest)
    assert not re.search(r"[\\&%$#_{}~^<>|`\[\]*]|--", rest)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_sets_every_name(tmp_path: Path) -> None:
    names = [name for name in NAMES if seen(name).isascii()]
    rows = "\n".join(f"{escaping.latex_text(name)} & 1 \\\\ % {escaping.latex_text(name)}" for name in names)
    (tmp_path / "a.tex").write_text(
        f"\\documentclass{{article}}\\begin{{document}}\\begin{{tabular}}{{lr}}\n{rows}\n\\end{{tabular}}\\end{{document}}"
    )
    subprocess.run(["pdflatex", "-halt-on-error", "a.tex"], cwd=tmp_path, check=True, capture_output=True)


CURVE = RobustnessCurve([0.0, 0.01, 0.03], attack="linf")


def drawn(figure: Figure) -> None:
    """Draw a figure in each format; the SVG is well-formed."""
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        warnings.filterwarnings("ignore", "Matplotlib currently does not support")
        for kind in ("png", "svg", "pdf"):
            figure.savefig(out := io.BytesIO(), format=kind, dpi=40)
            if kind == "svg":
                ElementTree.fromstring(out.getvalue())
    plt.close(figure)


def as_drawn(text: str) -> str:
    """What matplotlib draws of a text that holds no formula."""
    dollars = text.count("$") - text.count(r"\$")
    assert dollars == 0, "no formula"
    return text.replace(r"\$", "$").removeprefix("\u200b")


@pytest.mark.parametrize("name", NAMES)
def test_figures_name_every_model(name: str) -> None:
    shown = seen(name)
    axes = plot_curves({name: CURVE, "other": CURVE})
    assert [as_drawn(text.get_text()) for text in axes.get_legend().get_texts()] == [shown, "other"]
    drawn(axes.figure)  # type: ignore[arg-type]
    axes = plot_scores({name: {"linf": 50.0}})
    assert [as_drawn(text.get_text()) for text in axes.get_yticklabels()] == [shown]
    drawn(axes.figure)  # type: ignore[arg-type]


def test_panels_name_a_model_that_begins_with_a_low_line() -> None:
    figure = plot_panels({"linf": {"_baseline": CURVE, "a$b$": CURVE}, "l2": {"_baseline": CURVE, "a$b$": CURVE}})
    assert [as_drawn(text.get_text()) for text in figure.legends[0].get_texts()] == ["_baseline", "a$b$"]
    drawn(figure)
    assert not mpl.rcParams["text.usetex"]


# Descriptions of models


def result(run: Path) -> Any:
    torch.manual_seed(0)
    net, data = torch.nn.Linear(4, 2), (torch.rand(3, 4), torch.tensor([0, 1, 0]))
    return ra.evaluate(net, data, "linf", strengths={"linf": [0.1]}, run=run, progress=False, diagnose=False, audit=0)


def test_descriptions_take_numbers_of_numpy_and_torch(tmp_path: Path) -> None:
    one = result(tmp_path / "run")
    one.describe({
        "trained_on": {"linf": np.float32(0.5), "l2": torch.tensor(2.0)},
        "extra_data": np.bool_(True), "notes": Path("a"),
    })  # fmt: skip
    assert ra.load_result(tmp_path / "run").about == {
        "trained_on": {"linf": 0.5, "l2": 2.0}, "extra_data": True, "notes": "a",
    }  # fmt: skip
    with pytest.raises(ra.UserError, match="notes of the description"):
        one.describe({"notes": object()})
    with pytest.raises(ra.UserError, match="key 3"):
        one.describe({"trained_on": {3: 1.0}})


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_files_with_a_byte_order_mark_are_read(tmp_path: Path, mark: str) -> None:
    """As editors and PowerShell of Windows write them."""
    from robustatlas.common.documents import read_json
    from robustatlas.evaluation.field import read_field

    (tmp_path / "about.json").write_text('{"net": {"notes": "über"}}', encoding=mark)
    assert read_json(tmp_path / "about.json") == {"net": {"notes": "über"}}
    (tmp_path / "field.txt").write_text("builtin:digits-linf\r\n# none\r\n", encoding=mark)
    assert [entry.source for entry in read_field(tmp_path / "field.txt")] == ["builtin:digits-linf"]
