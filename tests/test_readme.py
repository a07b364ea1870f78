"""What the README shows is true: its example runs, its commands and files exist, its attacks are in the catalogue."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from robustatlas.attacks.catalogue import catalogue
from robustatlas.attacks.suites import SUITES
from robustatlas.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert "0.05" in capsys.readouterr().out


def test_commands_exist() -> None:
    known = get_command(app).commands  # type: ignore[attr-defined]
    shown = set(re.findall(r"^robustatlas (\w+)", README, re.MULTILINE))
    assert shown
    assert shown <= set(known)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_attacks_and_suites_exist() -> None:
    table = README[README.index("| family") : README.index("Suites:")]
    names = set(re.findall(r"`([a-z0-9-]+)`", table))
    assert names <= set(catalogue())
    described = set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")))
    assert set(catalogue()) - described == set(), "docs/attacks.md shows those of SEEN in docs/_tools/facts_attacks.py"
    suites = README[README.index("Suites:") : README.index("`--protocol paper`")]
    assert set(re.findall(r"`([a-z0-9-]+)`", suites)) <= set(SUITES)
