"""The tests that ``make quick`` runs, as arguments of pytest: ``python tests/quick.py``."""

import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def listed() -> dict[str, dict[str, Any]]:
    return tomllib.loads((HERE / "quick.toml").read_text(encoding="utf-8"))


def chosen() -> list[str]:
    """Each test once; of a file that is run whole, the file alone."""
    found = listed()
    files = [file for files in found["rooms"].values() for file in files]
    tests = [*found["commands"].values(), *found["functions"].values()]
    return [*files, *dict.fromkeys(test for test in tests if test.split("::")[0] not in files)]


if __name__ == "__main__":
    print(*chosen())
