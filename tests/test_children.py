"""Processes that tests start: what they import is what is tested."""

import subprocess
import sys
from pathlib import Path

import helpers_core
import robustatlas


def test_children_import_what_the_tests_do(tmp_path: Path) -> None:
    script = "import helpers_core, robustatlas; print(helpers_core.__file__, robustatlas.__file__, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [helpers_core.__file__, robustatlas.__file__]
