"""Every warning that the program can print has a section in the page on troubleshooting, with its cause and remedy."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "robustatlas"
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

SAID_BY = {
    "training/callbacks/watching.py": ("_failed", "_none_fitted", "_uncopied", "_undrawn"),
    "evaluation/evaluating.py": ("_sentence_on_rejections",),
    "evaluation/attack_choice.py": ("fitting_attacks",),
    "checks/sentences.py": ("_masked_meaning", "_doubtful_meaning"),
    "metrics/audit.py": ("concern",),
    "training/watch.py": ("concerns",),
    "training/given.py": ("output_warnings",),
    "common/wording.py": ("invalid_sentence", "why_masked"),
    "report/facts/against.py": ("_other_data",),
    "outcomes/query.py": ("_comparison_notes",),
    "results/result.py": ("unproven",),
    "metrics/references/building.py": ("_marks",),
}
"""Functions outside of ``sanity`` that return sentences to be shown as warnings."""
HANDED_ON = {
    "training/callbacks/watching.py",
    "common/errors.py",
    "trust/diagnosing.py",
    "evaluation/auditing.py",
    "evaluation/completion.py",
    "outcomes/accuracies.py",
    "outcomes/query.py",
    "training/epoch.py",
}
"""Files that hand such sentences to ``warn``. Who adds one says above where its sentences are made."""
SHORTEST = 12
"""Shorter pieces of a sentence say nothing by themselves."""
ENTIRE = 60
"""Shorter strings in ``sanity`` are parts of a sentence, such as names."""
WHOLE = 30
"""Shorter strings of the functions above are words, such as keys."""

Text = ast.Constant | ast.JoinedStr


def pieces(text: ast.expr) -> list[str]:
    """What stands in a sentence whatever its variables are."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return [text.value]
    if isinstance(text, ast.JoinedStr):
        return [piece for value in text.values if isinstance(value, ast.Constant) for piece in pieces(value)]
    return []


def sentences(node: ast.AST) -> Iterator[Text]:
    """Strings within ``node`` that are not documentation, no part of another string and no error."""
    if isinstance(node, ast.Call) and "Error" in ast.unparse(node.func):
        return
    if isinstance(node, (ast.JoinedStr, ast.Constant)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from sentences(child)


def warnings_of(path: Path) -> Iterator[list[str]]:
    """The pieces of each warning that a file makes."""
    name, source = path.relative_to(SOURCES).as_posix(), path.read_text(encoding="utf-8")
    if "warn(" not in source and name not in SAID_BY and not name.startswith("checks/sanity/"):
        return
    tree = ast.parse(source)
    if name.startswith("checks/sanity/"):
        for text in sentences(tree):
            if sum(map(len, found := pieces(text))) >= ENTIRE:
                yield found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in SAID_BY.get(name, ()):
            for text in sentences(node):
                if isinstance(text, ast.JoinedStr) or len(str(text.value)) >= WHOLE:
                    yield pieces(text)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "warn":
            if isinstance(node.args[0], (ast.Constant, ast.JoinedStr)):
                yield pieces(node.args[0])
            else:
                assert name in HANDED_ON, f"{name}: where is the warning {ast.unparse(node)} made?"


WARNINGS = [
    (path.relative_to(SOURCES).as_posix(), found)
    for path in sorted(SOURCES.rglob("*.py"))
    for found in warnings_of(path)
    if max(map(len, found), default=0) >= SHORTEST
]
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]


def plain(text: str) -> str:
    return " ".join(text.split())


def test_warnings_were_found() -> None:
    assert len(WARNINGS) >= 15
    assert {"checks/sanity/model.py", "evaluation/evaluating.py", "models/classifier/compiled.py"} <= {
        name for name, _ in WARNINGS
    }


@pytest.mark.parametrize(("name", "found"), WARNINGS, ids=lambda value: value if isinstance(value, str) else None)
def test_a_warning_has_a_section(name: str, found: list[str]) -> None:
    shown = [plain(piece) for piece in found if len(plain(piece)) >= SHORTEST]
    having = [section for section in SECTIONS if all(piece in plain(section) for piece in shown)]
    assert having, f"docs/troubleshooting.md has no section that shows this warning of {name}: {' … '.join(found)}"


def test_each_section_says_cause_and_remedy() -> None:
    for section in SECTIONS:
        title = section.splitlines()[0]
        if "```text" in section:
            assert "**Cause.**" in section and "**Remedy.**" in section, title


def test_the_page_shows_no_warning_that_is_gone() -> None:
    """Each quotation on the page is of a warning; ``...`` stands for what differs."""
    known = [[plain(piece) for piece in found if len(plain(piece)) >= SHORTEST] for _, found in WARNINGS]
    for quoted in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL):
        assert any(all(piece in plain(quoted) for piece in found) for found in known if found), quoted
