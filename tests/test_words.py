"""The words of the table in Contributing: none that it replaces stands in help, messages, guides or pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/robustatlas"
TABLE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8").split("\n## Words\n", 1)[1]

NOT = {
    "untold": r"\buntold\b",
    "void": r"\bvoid\b",
    "cell": r"(?<!`)\bcells?\b",
    "sets": r"\b(?:other|its|ranked|same|published|sound) sets\b|\bsets (?:differ|are (?:not )?(?:those|the))",
    "passes, unexplained": "",  # that it is explained is for the pages' own tests
    "procedure": r"\bprocedures?\b",
    "half wrong from": r"\bhalf wrong\b",
    "fuller: more images correct": r"\bfuller: ",
    "all attacks together": r"\battacks together\b",
    "is no number of a run, is no strength": r"(?<!there )\b(?:is|are) no (?:number|strength|run|name|file|step)s?\b",
    "strength for both": "",
    "`hop`, `polish`, `given up`": r"(?<!basin[- ])\bhop(?:s|ping)?\b(?!-skip)|\bpolish\b|\bgive[ns]? up\b",
}
"""Each row of the table, as what must not be found; a meaning that letters do not tell is left to readers."""


ARE_SETS = r"""(?x)
    [Dd]ata [\s"]+ sets | nested \s+ sets | independent \s sets | larger \s sets | named \s sets | several \s sets
    | sets \s (?: around | are \s nested | must \s contain )
    | (?: which | What | seed | torchrun | project` | and ) ,? \s+ sets
"""
"""Sets of other things, the mathematics of threat models, and the verb."""
OF_SETS = ("outcomes/joined.py", "certificates/regions.py", "threats/imagenet_ua/geometry.py")
"""Files about sets."""


def strings(tree: ast.AST) -> Iterator[str]:
    """Texts in code that are not documentation of it, and longer than a name."""
    about = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in about:
            yield from [node.value] * (" " in node.value.strip())


def help_texts(tree: ast.AST) -> Iterator[str]:
    """What ``--help`` shows of the commands of a file."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef)
            and not node.name.startswith("_")
            and "Annotated" in ast.unparse(node.args)
        ):
            yield ast.get_docstring(node) or ""


def seen() -> Iterator[tuple[str, str]]:
    """(where, text) of what people read."""
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/research").glob("*.md")),
    ):
        text = path.read_text(encoding="utf-8")
        if path.name == "contributing.md":
            text = text.split("\n## Words\n", 1)[0]
        yield str(path.relative_to(ROOT)), re.sub(r"`[^`]*`|https?:\S+", " ", text)
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for text in (*strings(tree), *(help_texts(tree) if path.parent.name == "cli" else ())):
            yield str(path.relative_to(SOURCE)), text
    for path in sorted(SOURCE.glob("report/templates/*.html")):
        text = re.sub(r"\{[%#{].*?[%#}]\}|<[^>]*>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        yield path.name, text
    for path in sorted(SOURCE.glob("report/static/*.js")):
        if "plotly" not in path.name:
            code = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            code = re.sub(r"\$\{[^{}]*\}", " ", re.sub(r"^\s*//.*$", " ", code, flags=re.MULTILINE))
            found = re.findall(r'"([^"\n(){}]* [^"\n(){}]*)"|`([^`\n]* [^`\n]*)`', code)
            yield path.name, " | ".join("".join(either) for either in found)


@pytest.fixture(scope="module")
def read() -> list[tuple[str, str]]:
    return list(seen())


def test_every_row_of_the_table_is_known() -> None:
    rows = [line.split("|")[1].strip().replace("**", "") for line in TABLE.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(NOT)


def test_what_people_read_is_found(read: list[tuple[str, str]]) -> None:
    places = {place for place, _ in read}
    assert {"README.md", "docs/start.md", "cli/evaluate.py", "leaderboard.html", "table.js"} <= places
    assert any("Rank on its entries" in text for place, text in read if place == "table.js")


@pytest.mark.parametrize("word", [word for word, pattern in NOT.items() if pattern])
def test_nobody_reads_it(word: str, read: list[tuple[str, str]]) -> None:
    pattern = re.compile(NOT[word], re.IGNORECASE)
    found = [
        f"{place}: {text[max(0, m.start() - 40) : m.end() + 40]!r}"
        for place, text in read
        for m in pattern.finditer(text)
    ]
    assert found == []


def test_a_threat_model_is_not_called_sets_in_the_code() -> None:
    """In comments and docstrings too: what is left are sets, or the verb."""
    found = []
    for path in (*sorted(SOURCE.rglob("*.py")), *sorted(SOURCE.glob("report/static/*.js"))):
        if "plotly" in path.name or str(path.relative_to(SOURCE)) in OF_SETS:
            continue
        text = re.sub(ARE_SETS, " ", path.read_text(encoding="utf-8"))
        found += [
            f"{path.name}: {text[max(0, m.start() - 40) : m.end() + 40]!r}" for m in re.finditer(r"\bsets\b", text)
        ]
    assert found == []
