"""The page on metrics: its code runs, and gives the numbers that stand beside it."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"


def test_the_code_runs_and_gives_the_numbers_beside_it():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    checked = 0
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
        for line in block.splitlines():
            expression, _, comment = line.partition("  # ")
            if re.fullmatch(r"\d+(\.\d+)?", comment.strip()):
                assert eval(expression, names) == pytest.approx(float(comment), abs=0.005), line
                checked += 1
    assert checked >= 5
